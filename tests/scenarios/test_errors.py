"""Which exception a body, a waiter and an undo see."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from celery_saga import InvalidPayload, Run, RunFailed, SignalFailed, saga
from tests.scenarios.house import House


class Base(Exception):
    """Declared by the sagas below."""


class Sub(Base):
    """Not declared itself."""


@pytest.fixture
def house() -> Iterator[House]:
    """A house in memory."""
    with House("sqlite://") as built:
        yield built


def test_a_step_that_raises_a_subclass_of_a_declared_error_is_caught_as_that(house: House) -> None:
    @house.task("errors.sub")
    def sub() -> None:
        raise Sub("s")

    seen: list[BaseException] = []

    @saga(name="catches", errors=[Base])
    def catches(run: Run) -> str:
        try:
            run.step(sub.si())
        except Base as error:
            seen.append(error)
            return "caught"
        return "missed"

    house.add(catches)
    handle = catches.start()
    house.drain()

    assert handle.wait(1) == "caught"
    assert type(seen[-1]) is Sub
    assert seen[-1].args == ("s",)


def test_a_subclass_that_is_not_loaded_arrives_as_its_declared_base(house: House) -> None:
    @house.task("errors.gone")
    def gone() -> None:
        raise type("Gone", (Base,), {"__module__": "elsewhere"})("g")

    @saga(name="catches", errors=[Base])
    def catches(run: Run) -> str:
        try:
            run.step(gone.si())
        except Base as error:
            return f"{type(error).__name__} {error}"
        return "missed"

    house.add(catches)
    handle = catches.start()
    house.drain()
    import gc

    gc.collect()

    assert handle.wait(1) in ("Base g", "Gone g")


def test_a_body_that_raises_a_subclass_of_a_declared_error_is_told_as_that(house: House) -> None:
    @saga(name="raises", errors=[Base])
    def raises(run: Run) -> None:
        raise Sub("b")

    house.add(raises)
    handle = raises.start()
    house.drain()

    assert type(handle.error) is Sub
    with pytest.raises(RunFailed, match="b"):
        handle.wait(1)


def test_an_undeclared_error_through_a_signal_is_a_failed_signal_also_when_it_is_a_builtin(house: House) -> None:
    @saga(name="asks")
    def asks(run: Run) -> str:
        try:
            run.wait_signal("s")
        except SignalFailed as error:
            return str(error)
        return "no error"

    house.add(asks)
    handle = asks.start()
    house.drain()
    handle.signal("s", error=ValueError("nonsense"))
    house.drain()

    assert "nonsense" in str(handle.wait(1))


def test_arguments_of_retry_undo_that_are_no_list_are_refused(house: House) -> None:
    @saga(name="plain")
    def plain(run: Run) -> None: ...

    house.add(plain)
    handle = plain.start()

    with pytest.raises(InvalidPayload, match="args="):
        handle.retry_undo("pay", args="ch_2")  # type: ignore[arg-type]


def test_an_unnamed_step_after_an_explicit_name_gets_a_number(house: House) -> None:
    @house.task("errors.ok")
    def ok() -> None: ...

    @saga(name="numbers")
    def numbers(run: Run) -> None:
        run.step(ok.si(), name="ok")
        run.step(ok.si())

    house.add(numbers)
    handle = numbers.start()
    house.drain()

    assert [step.key for step in handle.steps()] == ["ok", "ok#2"]
    assert handle.status == "completed"
