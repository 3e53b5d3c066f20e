"""Bad input: each kind is refused by its named error where it is given, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from typing import Any

import pytest

from celery_saga import (
    DefinitionError,
    DuplicateStepError,
    InvalidPayload,
    PayloadTooLarge,
    ResultPurged,
    Retry,
    Run,
    RunNotFound,
    SchemaOutdated,
    StoreUnavailable,
    saga,
)
from celery_saga.core.ports import RunFilter
from celery_saga.store import open_store
from tests.scenarios.house import House
from tests.servers import PrivatePostgres


@pytest.fixture
def house() -> Iterator[House]:
    """A house in memory."""
    with House("sqlite://") as built:
        yield built


@pytest.mark.parametrize(
    ("value", "error", "says"),
    [
        ("not a number", InvalidPayload, "n"),
        (float("nan"), InvalidPayload, "nan|NaN|finite"),
        ({1: "x"}, InvalidPayload, "key"),
        ({"__type__": "datetime", "__value__": "x"}, InvalidPayload, "__type__"),
        ("x" * 5_000_000, PayloadTooLarge, "bytes"),
        (object(), InvalidPayload, "object"),
        ("\ud800", InvalidPayload, "surrogate"),
    ],
)
def test_an_argument_that_cannot_be_stored_is_refused_at_start(
    house: House, value: object, error: type[Exception], says: str
) -> None:
    if value == "not a number":

        @saga(name="typed")
        def body(run: Run, n: int) -> None: ...
    else:

        @saga(name="untyped")
        def body(run: Run, n: Any) -> None: ...

    house.add(body)

    with pytest.raises(error, match=says):
        body.start(value)  # type: ignore[arg-type]

    assert house.store.runs(RunFilter()) == []
    assert house.messages == []


@pytest.mark.parametrize("key", ["{nothing}", "{n.__class__}", "{", "{n!r}"])
def test_a_key_template_that_cannot_work_is_refused_when_defined(key: str) -> None:
    with pytest.raises(DefinitionError):

        @saga(name="keyed", key=key)
        def body(run: Run, order: int, n: int) -> None: ...


def test_a_key_template_that_does_not_fit_the_input_is_refused_at_start(house: House) -> None:
    @saga(name="keyed", key="{order.missing}")
    def body(run: Run, order: int) -> None: ...

    house.add(body)

    with pytest.raises(InvalidPayload, match="missing"):
        body.start(1)

    assert house.store.runs(RunFilter()) == []


@pytest.mark.parametrize("value", [None, ""])
def test_none_or_nothing_in_a_key_is_refused(house: House, value: object) -> None:
    @saga(name="keyed", key="{n}")
    def body(run: Run, n: Any) -> None: ...

    house.add(body)

    with pytest.raises(InvalidPayload):
        body.start(value)

    assert house.store.runs(RunFilter()) == []


def test_a_body_that_is_a_coroutine_is_refused_with_the_reason() -> None:
    with pytest.raises(DefinitionError, match="async"):

        @saga(name="async-body")  # type: ignore[arg-type]
        async def body(run: Run) -> None: ...


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Retry(max_attempts=0),
        lambda: Retry(delay=-1),
        lambda: Retry(on=["ValueError"]),  # type: ignore[list-item]
    ],
)
def test_a_retry_that_makes_no_sense_is_refused(wrong: Callable[[], Retry]) -> None:
    with pytest.raises(DefinitionError):
        wrong()


def _twice(run: Run, task: Any) -> None:
    run.step(task.si(1), name="same")
    run.step(task.si(2), name="same")


BODIES: dict[str, tuple[Callable[[Run, Any], object], type[Exception]]] = {
    "a step name used twice": (_twice, DuplicateStepError),
    "an undo that is no task": (lambda run, task: run.step(task.si(1), undo=print), DefinitionError),
    "a negative sleep": (lambda run, task: run.sleep(-1), DefinitionError),
    "a naive datetime": (lambda run, task: run.sleep_until(datetime(2026, 1, 1)), DefinitionError),  # noqa: DTZ001
    "a time-out of nothing": (lambda run, task: run.wait_signal("x", timeout=0), DefinitionError),
    "a task instead of a signature": (lambda run, task: run.step(task), DefinitionError),
    "an idempotency key asked for by a wrong name": (
        lambda run, task: run.step(task.si(run.idempotency_key("tsak"))),
        DefinitionError,
    ),
    "an argument that is NaN": (lambda run, task: run.step(task.si(float("nan"))), InvalidPayload),
}


@pytest.mark.parametrize("what", sorted(BODIES))
def test_a_body_that_asks_for_nonsense_parks_its_run_and_names_it(house: House, what: str) -> None:
    body, error = BODIES[what]

    @house.task("bad.task")
    def task(n: object) -> None: ...

    @saga(name="nonsense")
    def nonsense(run: Run) -> None:
        body(run, task)

    house.add(nonsense)
    handle = nonsense.start()
    house.drain()

    assert handle.status == "suspended"
    parked = house.engine.run_of(handle.id).error
    assert parked is not None and parked.code == error.code  # type: ignore[attr-defined]
    assert [step for step in handle.steps() if step.key.endswith("#2")] == []


def test_an_unknown_run_is_named(house: House) -> None:
    @saga(name="known")
    def known(run: Run) -> None: ...

    house.add(known)

    with pytest.raises((RunNotFound, ResultPurged), match="no-such-run"):
        known.get("no-such-run").refresh()
    with pytest.raises(RunNotFound):
        known.get("no-such-run").cancel()


def test_without_tables_a_start_says_what_to_run() -> None:
    store = open_store("sqlite://")

    with closing(store), pytest.raises(SchemaOutdated, match="migrate"):
        store.runs(RunFilter())


def test_a_database_that_is_down_is_named_and_a_run_goes_on_when_it_is_back() -> None:
    with PrivatePostgres() as server, House(server.url) as house:
        house.store.sessions.patience_s = 0.2

        @house.task("down.one")
        def one() -> int:
            return 1

        @saga(name="down", key="{n}")
        def down(run: Run, n: int) -> int:
            return run.step(one.si()) + run.step(one.si())

        house.add(down)
        handle = down.start(1)
        house.deliver(house.messages.pop(0))
        server.kill()

        with pytest.raises(StoreUnavailable):
            down.start(2)
        assert house.messages != []

        server.start()
        house.drain()
        house.advance(house.engine.limits.lease_s + 1)  # orders that were not on the disk are given again

        assert handle.wait(5) == 2


@pytest.mark.parametrize("dispatch", ["broker", "inline"])
def test_a_body_that_calls_a_run_kept_from_another_pass_parks(house: House, dispatch: Any) -> None:
    kept: list[Run] = []

    @house.task("kept_run.work")
    def work() -> None: ...

    @saga(name="kept_run", dispatch=dispatch)
    def body(run: Run) -> None:
        kept.append(run)
        kept[0].step(work.si())
        kept[0].step(work.si())

    house.add(body)
    handle = body.start()
    house.advance(0)
    house.drain()

    assert handle.refresh().status == "suspended"
    assert "another pass" in str(handle.error)
