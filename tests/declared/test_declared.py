"""A declared saga: started and steered by its stub alone, executed where its handler is, and only there."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from celery_saga import DefinitionError, InvalidPayload, Run, RunCancelled, RunFailed, Saga, saga
from celery_saga.client.waiting import pauses_s
from celery_saga.definition.handler import DeclaredSaga
from celery_saga.engine.previewing import preview
from tests.architecture.tree import ROOT
from tests.declared.definitions import APPROVAL, Declined, Order, Receipt, checkout, declared_with_run
from tests.runtime.places import place_with
from tests.scenarios.house import House


@pytest.fixture
def house() -> Iterator[House]:
    with House("sqlite://") as built:
        yield built


def declared(**options: Any) -> DeclaredSaga[..., list[str]]:
    def stub(count: int, words: list[str] | None = None) -> list[str]:
        raise NotImplementedError

    return saga.declare(name="declared_here", **options)(stub)


def with_body(declared_saga: DeclaredSaga[..., list[str]], done: list[str]) -> None:
    @declared_saga.handler
    def body(run: Run, count: int, words: list[str] | None = None) -> list[str]:
        run.wait_signal("go")
        done.append("executed")
        return (words or ["none"]) * count


def test_with_the_declaration_alone_a_run_is_started_found_signalled_and_cancelled(house: House) -> None:
    mine = declared(key="{count}")
    house.add(mine)

    handle = mine.start(3)
    house.drain()
    found = mine.find(key="3")

    assert (found.id, found.status, mine.run_id(3), mine.start(3).created) == (handle.id, "queued", handle.id, False)
    assert found.signal("go", 1) == "kept"
    assert found.cancel() == {"cancelled": True, "status": "cancelled"}
    with pytest.raises(RunCancelled):
        found.wait(1)


def test_a_process_without_the_handler_hands_the_run_back_until_one_with_it_takes_it(house: House) -> None:
    mine, done = declared(), list[str]()
    house.add(mine)
    handle = mine.start(2, words=["a"])
    handle.signal("go")
    house.drain()
    assert (list(house.registry.known()), mine.has_body, handle.steps()) == ([], False, [])
    assert [each.reason for each in preview(house.store, house.registry, resend_s=30.0)] == ["unknown_version"]

    with_body(mine, done)
    house.advance(60)

    assert (list(house.registry.known()), mine.has_body) == ([("declared_here", 1)], True)
    assert not preview(house.store, house.registry, resend_s=30.0)
    assert (handle.wait(1), done) == (["a", "a"], ["executed"])


def test_options_that_were_made_before_the_handler_know_it(house: House) -> None:
    mine, done = declared(), list[str]()
    urgent = mine.options(priority=7)
    house.add(mine)
    with_body(mine, done)

    handle = urgent.start(1)
    handle.signal("go")
    house.drain()

    assert (handle.wait(1), house.engine.run_of(handle.id).priority) == (["none"], 7)


def test_arguments_are_checked_by_the_stub(house: House) -> None:
    mine = declared()
    house.add(mine)

    with pytest.raises(InvalidPayload, match="count: Input should be a valid integer"):
        mine.start("many")
    with pytest.raises(InvalidPayload, match="missing a required argument"):
        mine.start()


def test_a_stub_that_names_the_run_takes_the_same_arguments_without_it(house: House) -> None:
    with_run: DeclaredSaga[[int], int] = declared_with_run

    assert list(with_run.payload.signature.parameters) == ["count"]
    assert list(checkout.payload.signature.parameters) == ["order", "gift"]
    house.add(with_run)
    assert with_run.start(3).status == "queued"


def test_the_handlers_name_is_the_saga() -> None:
    mine = declared()

    @mine.handler
    def body(run: Run, count: int, words: list[str] | None = None) -> list[str]:
        """Its own words."""
        return []

    assert body is mine
    assert isinstance(body, Saga)
    assert mine.body.__doc__ == "Its own words."


def test_a_handler_without_annotations_is_as_declared(house: House) -> None:
    mine = declared()

    @mine.handler
    def body(run, count, words=None):  # type: ignore[no-untyped-def]
        return [str(count)]

    house.add(mine)
    handle = mine.start(1)
    house.drain()
    assert handle.wait(1) == ["1"]


def fewer(run: Run, count: int) -> list[str]:

    raise NotImplementedError


def more(run: Run, count: int, words: list[str] | None = None, color: str = "red") -> list[str]:

    raise NotImplementedError


def other_order(run: Run, words: list[str] | None = None, count: int = 1) -> list[str]:

    raise NotImplementedError


def other_type(run: Run, count: str, words: list[str] | None = None) -> list[str]:

    raise NotImplementedError


def other_default(run: Run, count: int, words: list[str] | None = ()) -> list[str]:  # type: ignore[assignment]

    raise NotImplementedError


def no_default(run: Run, count: int, words: list[str] | None) -> list[str]:

    raise NotImplementedError


def only_by_name(run: Run, count: int, *, words: list[str] | None = None) -> list[str]:

    raise NotImplementedError


def other_result(run: Run, count: int, words: list[str] | None = None) -> list[int]:

    raise NotImplementedError


def without_run(count: int, words: list[str] | None = None) -> list[str]:

    raise NotImplementedError


async def waiting(run: Run, count: int, words: list[str] | None = None) -> list[str]:

    raise NotImplementedError


@pytest.mark.parametrize(
    ("body", "difference"),
    [
        (fewer, "it does not take 'words'"),
        (more, "it takes 'color', which is not declared"),
        (other_order, "'count' has the default 1, declared is no default"),
        (other_type, "'count' is str, declared is int"),
        (other_default, "'words' has the default (), declared is the default None"),
        (no_default, "'words' has no default, declared is the default None"),
        (only_by_name, "'words' is keyword-only, declared is positional or keyword"),
        (other_result, "it returns list[int], declared is list[str]"),
        (without_run, "must take the run as its first parameter, which is count: int"),
        (waiting, "the body is async def"),
        (3, "@declared_here.handler decorates a function, got 3"),
    ],
)
def test_a_handler_that_does_not_fit_is_refused_and_told_why(body: Any, difference: str) -> None:
    mine = declared()

    with pytest.raises(DefinitionError) as refused:
        mine.handler(body)

    assert difference in str(refused.value)
    assert "declared_here" in str(refused.value) and "nothing was registered" in str(refused.value)
    assert not mine.has_body


def test_another_order_of_parameters_is_a_difference() -> None:
    @saga.declare()
    def declared_order(a: int, b: int) -> None: ...

    with pytest.raises(DefinitionError, match="it takes b, a in this order, declared is a, b"):

        @declared_order.handler  # type: ignore[arg-type]
        def body(run: Run, b: int, a: int) -> None: ...


def test_a_second_handler_is_refused_and_the_same_again_is_not() -> None:
    mine = declared()
    with_body(mine, [])
    with_body(mine, [])  # as when its module is reloaded

    with pytest.raises(
        DefinitionError, match=r"has a handler already, .*with_body.<locals>.body; .* was not registered"
    ):

        @mine.handler
        def another(run: Run, count: int, words: list[str] | None = None) -> list[str]:
            return []


@pytest.mark.parametrize("options", [{"version": 0}, {"key": "{nothing}"}, {"on_bug": "ignore"}])
def test_options_are_checked_as_those_of_a_saga(options: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        declared(**options)


def test_what_is_no_function_cannot_be_a_stub() -> None:
    with pytest.raises(DefinitionError, match="@saga decorates a function"):
        saga.declare()(3)  # type: ignore[call-overload]


# -- modules of their own ----------------------------------------------------------------------------------------------
def test_who_imports_the_definition_does_not_import_the_handler() -> None:
    code = "import sys, tests.declared.definitions; print('tests.declared.handlers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


def test_a_worker_with_the_handler_executes_what_one_without_it_hands_back(tmp_path: Path) -> None:
    with place_with("redis", tmp_path, module="tests.declared.app") as place:
        shop = place.shop
        with place.worker(pool="solo"):
            good, bad = (shop.checkout.start(Order(name, 500)) for name in ("good", "bad"))
            assert [each.signal(APPROVAL, each is good) for each in (good, bad)] == ["kept", "kept"]
            eventually(shop.app.saga.store.sweepers)
            assert good.status in ("queued", "running")
            (version,) = (each for each in shop.app.saga.versions() if each.saga == shop.checkout.name)
            assert (version.live_runs, version.is_orphaned) == (2, True)
        with place.worker(pool="solo", more={"WITH_HANDLERS": "1"}):
            assert good.wait(30) == Receipt("ch_good_500")
            with pytest.raises(RunFailed) as failed:
                bad.wait(30)
        assert isinstance(failed.value.__cause__, Declined)


def eventually(look: Callable[[], Any]) -> Any:
    for pause_s in pauses_s(20):
        if found := look():
            return found
        time.sleep(pause_s)
    raise AssertionError("it never came")
