"""Waits for several signals: taken together or not at all, oldest first, whatever comes in which order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from celery_saga import (
    DefinitionError,
    Run,
    RunFailed,
    Saga,
    Signal,
    SignalDuplicate,
    SignalExpired,
    SignalFailed,
    SignalTimeout,
    saga,
)
from celery_saga.core.records import Action
from tests.scenarios.house import House


@dataclass(frozen=True)
class Answer:
    approved: bool
    by: str


LEGAL = Signal("legal", Answer)
BOARD = Signal("board", Answer)


class Vetoed(Exception):
    pass


def _taken(house: House, run_id: str) -> dict[str, str | None]:
    return {each.signal_id: each.taken_by for each in house.store.signals(run_id)}


def _waits(house: House, *names: Any, mode: Any = "all", **options: Any) -> Saga[[], Any]:
    @saga(name="waits", errors=[Vetoed])
    def waits(run: Run) -> Any:
        return run.wait_signals(list(names), mode=mode, **options)

    house.add(waits)
    return waits


def test_all_fires_once_each_name_is_there_and_gives_the_values_in_the_order_asked_for(house: House) -> None:
    handle = _waits(house, "a", "b", "c").start()
    house.drain()

    answers = [handle.signal(name, name.upper(), id=name) for name in ("c", "a")]
    house.drain()
    between = (handle.refresh().status, _taken(house, handle.id))
    last = handle.signal("b", "B", id="b")
    house.drain()

    assert answers == ["kept", "kept"]
    assert between == ("waiting", {"c": None, "a": None})
    assert last == "delivered"
    assert list(handle.wait(1).items()) == [("a", "A"), ("b", "B"), ("c", "C")]
    assert _taken(house, handle.id) == {"c": "signals", "a": "signals", "b": "signals"}
    assert house.rows(handle.id, Action.SIGNAL) == 3


def test_signals_that_came_before_the_wait_count(house: House) -> None:
    handle = _waits(house, "a", "b").start()
    handle.signal("a", 1)
    handle.signal("b", 2)

    house.drain()

    assert handle.wait(1) == {"a": 1, "b": 2}


def test_any_takes_the_first_and_leaves_the_others_to_later_waits(house: House) -> None:
    @saga(name="first")
    def first(run: Run) -> Any:
        won = run.wait_signals(["a", "b"], mode="any")
        return [won, run.wait_signal("a")]

    house.add(first)
    handle = first.start()
    handle.signal("b", "b1")
    handle.signal("a", "a1")

    house.drain()

    assert handle.wait(1) == [{"b": "b1"}, "a1"]


def test_a_number_takes_exactly_so_many_the_oldest(house: House) -> None:
    handle = _waits(house, "a", "b", "c", mode=2).start()
    for name in ("c", "c", "b", "a"):
        handle.signal(name, name)

    house.drain()

    assert list(handle.wait(1).items()) == [("b", "b"), ("c", "c")]
    assert sum(each.taken_by is not None for each in house.store.signals(handle.id)) == 2


def test_a_wait_that_misses_one_takes_none_so_that_a_later_wait_can(house: House) -> None:
    @saga(name="both")
    def both(run: Run) -> Any:
        return run.group(
            lambda run: run.wait_signals(["a", "b"], timeout=1000, default=None),
            lambda run: run.wait_signal("a"),
        )

    house.add(both)
    handle = both.start()
    house.drain()

    answer = handle.signal("a", "A")
    house.drain()
    house.advance(1001)

    assert answer == "delivered"
    assert handle.wait(1) == (None, "A")


def test_a_time_out_takes_none_and_raises(house: House) -> None:
    @saga(name="impatient")
    def impatient(run: Run) -> Any:
        try:
            run.wait_signals(["a", "b"], timeout=10)
        except SignalTimeout as late:
            return [late.signal, run.wait_signal("a")]

    house.add(impatient)
    handle = impatient.start()
    house.drain()
    handle.signal("a", "kept")
    house.drain()

    house.advance(11)

    assert handle.wait(1) == ["a, b", "kept"]
    assert house.rows(handle.id, Action.TIMEOUT) == 1


def test_a_time_out_gives_the_default(house: House) -> None:
    handle = _waits(house, "a", "b", timeout=timedelta(seconds=10), default={"none": True}).start()
    house.drain()

    house.advance(11)

    assert handle.wait(1) == {"none": True}


@pytest.mark.parametrize("error", [Vetoed("no"), ValueError("no")])
def test_an_error_fails_the_wait_at_once_and_takes_only_itself(house: House, error: Exception) -> None:
    @saga(name="vetoes", errors=[Vetoed])
    def vetoes(run: Run) -> Any:
        try:
            run.wait_signals(["a", "b", "c"])
        except (Vetoed, SignalFailed) as failed:
            return [type(failed).__name__, run.wait_signal("a")]

    house.add(vetoes)
    handle = vetoes.start()
    house.drain()
    handle.signal("a", "kept", id="a1")
    handle.signal("b", id="b1", error=error)
    house.drain()

    assert handle.wait(1) == ["Vetoed" if isinstance(error, Vetoed) else "SignalFailed", "kept"]
    assert _taken(house, handle.id) == {"a1": "a", "b1": "signals"}


def test_an_error_that_comes_after_enough_others_is_left(house: House) -> None:
    handle = _waits(house, "a", "b", mode="any").start()
    handle.signal("a", 1, id="a1")
    handle.signal("b", id="b1", error=Vetoed("late"))

    house.drain()

    assert handle.wait(1) == {"a": 1}
    assert _taken(house, handle.id) == {"a1": "signals", "b1": None}


def test_a_second_signal_of_one_name_does_not_stand_for_another(house: House) -> None:
    handle = _waits(house, "a", "b").start()
    house.drain()

    handle.signal("a", 1)
    handle.signal("a", 2)
    with pytest.raises(SignalDuplicate):
        handle.signal("a", 3, id=_first_id(house, handle.id))
    house.drain()
    between = handle.refresh().status
    handle.signal("b", 3)
    house.drain()

    assert between == "waiting"
    assert handle.wait(1) == {"a": 1, "b": 3}


def _first_id(house: House, run_id: str) -> str:
    return house.store.signals(run_id)[0].signal_id


def test_types_of_the_signals_decode_the_values(house: House) -> None:
    @saga(name="typed", signals=[LEGAL, BOARD])
    def typed(run: Run) -> Any:
        got = run.wait_signals([LEGAL, "board"])
        return [type(each).__name__ for each in got.values()] + [got["board"].by]

    house.add(typed)
    handle = typed.start()
    handle.signal(LEGAL, Answer(True, "ann"))
    handle.signal("board", Answer(True, "bob"))

    house.drain()

    assert handle.wait(1) == ["Answer", "Answer", "bob"]


def test_an_older_wait_goes_first(house: House) -> None:
    @saga(name="elders")
    def elders(run: Run) -> Any:
        return run.group(
            {
                "several": lambda run: run.wait_signals(["a", "b"]),
                "single": lambda run: run.wait_signal("a", timeout=5, default="none"),
            }
        )

    house.add(elders)
    handle = elders.start()
    house.drain()
    handle.signal("b", 1)
    house.drain()
    handle.signal("a", 2)
    house.drain()
    house.advance(6)

    assert handle.wait(1) == {"several": {"a": 2, "b": 1}, "single": "none"}


def test_a_part_of_a_map_and_a_scope_wait_for_several(house: House) -> None:
    @saga(name="deep")
    def deep(run: Run) -> Any:
        def one(run: Run, item: str) -> Any:
            with run.scope("inner"):
                return run.wait_signals([f"{item}-x", f"{item}-y"])

        return run.map(one, ["p", "q"])

    house.add(deep)
    handle = deep.start()
    house.drain()
    for name in ("q-y", "p-x", "q-x", "p-y"):
        handle.signal(name, name)
        house.drain()

    assert handle.wait(1) == [{"p-x": "p-x", "p-y": "p-y"}, {"q-x": "q-x", "q-y": "q-y"}]


def test_a_cancel_and_a_deadline_end_it(house: House) -> None:
    cancelled = _waits(house, "a", "b").start()
    house.drain()
    late = _waits(house, "a", "b").options(key="late", deadline=10).start()
    house.drain()
    late.signal("a", 1)

    answer = cancelled.cancel()
    house.advance(11)

    assert answer == {"cancelled": True, "status": "cancelled"}
    assert late.refresh().status == "failed"
    with pytest.raises(SignalExpired):
        cancelled.signal("a", 1)


def test_what_it_waits_for_is_what_is_missing(house: House) -> None:
    handle = _waits(house, "a", "b", timeout=100).start()
    house.drain()
    handle.signal("b", 1)
    house.drain()

    assert [(each.kind, each.name) for each in handle.refresh().waiting_on] == [("signal", "a")]


def test_a_signal_is_refused_once_the_run_waits_for_others(house: House) -> None:
    @saga(name="moves-on")
    def moves_on(run: Run) -> None:
        run.wait_signals(["first", "other"], timeout=10, default=None)
        run.wait_signals(["second", "third"])

    house.add(moves_on)
    handle = moves_on.start()
    house.drain()
    house.advance(11)

    with pytest.raises(SignalExpired, match="first"):
        handle.signal("first", True)
    assert handle.signal("second", True) == "kept"


@pytest.mark.parametrize(
    ("names", "mode", "why"),
    [(["a", "c"], "all", "a, c"), (["b", "a"], "all", "b, a"), (["a", "b"], "any", "recorded|arguments")],
)
def test_another_header_than_the_recorded_parks_the_run(house: House, names: list[str], mode: Any, why: str) -> None:
    asked: dict[str, Any] = {"names": ["a", "b"], "mode": "all"}

    @saga(name="changes")
    def changes(run: Run) -> Any:
        return run.wait_signals(asked["names"], mode=asked["mode"])

    house.add(changes)
    handle = changes.start()
    house.drain()
    asked |= {"names": names, "mode": mode}

    house.engine.coordinate(handle.id)

    assert (handle.refresh().status, house.store.load(handle.id).snapshot.run.reason) == (  # type: ignore[union-attr]
        "suspended",
        "non_determinism",
    )
    assert handle.error is not None


@pytest.mark.parametrize(
    ("names", "options", "said"),
    [
        ([], {}, "1 to 100"),
        ("a", {}, "takes a list"),
        (["a", "a"], {}, "twice"),
        (["a"], {"mode": 2}, "mode="),
        (["a", "b"], {"mode": True}, "mode="),
        (["a", "b"], {"mode": "most"}, "mode="),
        (["a"], {"default": 1}, "default="),
        (["a", 3], {}, "Signal or its name"),
    ],
)
def test_what_makes_no_sense_orders_nothing(house: House, names: Any, options: dict[str, Any], said: str) -> None:
    @saga(name="wrong", on_bug="compensate")
    def wrong(run: Run) -> Any:
        return run.wait_signals(names, **options)

    house.add(wrong)
    handle = wrong.start()
    house.drain()

    with pytest.raises(RunFailed, match=said) as caught:
        handle.wait(1)
    assert isinstance(caught.value.cause, DefinitionError)
    assert handle.steps() == []


def test_a_name_that_the_saga_does_not_declare_is_refused(house: House) -> None:
    @saga(name="strict", signals=[LEGAL], on_bug="compensate")
    def strict(run: Run) -> Any:
        return run.wait_signals([LEGAL, "board"])

    house.add(strict)
    handle = strict.start()
    house.drain()

    with pytest.raises(RunFailed, match="does not declare the signal 'board'"):
        handle.wait(1)


def test_a_suspended_run_fires_when_it_is_resumed(house: House) -> None:
    handle = _waits(house, "a", "b").start()
    house.drain()
    handle.suspend(reason="pause")
    handle.signal("a", 1)
    handle.signal("b", 2)
    house.drain()
    before = handle.refresh().status

    handle.resume()
    house.drain()

    assert before == "suspended"
    assert handle.wait(1) == {"a": 1, "b": 2}
