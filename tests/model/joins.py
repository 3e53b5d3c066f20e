"""Small sagas with groups, maps and races, whose every interleaving is walked through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from celery_saga.core import codec, joining
from celery_saga.core.joining import Asked, Entered, ask_join, result_of
from celery_saga.core.orders import Call, StepSpec, UndoSpec
from celery_saga.core.placing import Order
from celery_saga.core.records import StepKind, StepRecord
from celery_saga.core.replay import Replay
from celery_saga.core.status import StepStatus
from tests.model.sagas import Declined, Scenario, step, wait

Function = Callable[[Replay], Any]


def task(name: str, *, undo: bool = True) -> Order:
    """A part that is one step."""
    spec = StepSpec(undo=UndoSpec(Call(f"undo_{name}")) if undo else None)
    return Order(StepKind.STEP, "", "", 0, task=name, spec_text=spec.to_text())


def join(
    run: Replay,
    parts: Mapping[str, Order | Function],
    *,
    on_failure: str = "abort",
    concurrency: int | None = None,
) -> None:
    """Order a join, or go on where it is over, or raise where it failed, or decide the part that is asked for."""
    given = list(parts.values())
    spec = StepSpec(on_failure=on_failure, concurrency=concurrency)
    asked = Asked(
        mode="race" if on_failure == "race" else "group",
        digest="",
        width=len(given),
        spec_text=spec.to_text(),
        args_text=codec.encode([list(parts), {}]),
        parts=lambda numbers: [_ordered(given[number]) for number in numbers],
        names=list(parts),
    )
    settled = ask_join(run, "j", asked)
    if isinstance(settled, Entered):
        _enter(run, settled, given[settled.number])
    assert isinstance(settled, StepRecord)
    result_of(run, settled)
    if settled.status is not StepStatus.DONE:
        raise run.failed(settled)


def _ordered(part: Order | Function) -> Order:
    return part if isinstance(part, Order) else Order(StepKind.PART, "", "", 0)


def _enter(run: Replay, entered: Entered, part: Order | Function) -> None:
    assert not isinstance(part, Order)
    with run.inside(entered.prefix):
        try:
            part(run)
        except Exception as error:  # noqa: BLE001 - it decides how the part ends
            joining.raised(run, error, (Declined,))
        joining.returned(run, "null")


def wait_for(run: Replay, names: list[str], *, need: int | None = None) -> None:
    """Wait for several signals."""
    args_text = codec.encode([names, {}])
    order = Order(StepKind.SIGNAL, "", "", 0, args_text=args_text, spec_text=StepSpec(need=need).to_text())
    settled = run.ask(StepKind.SIGNAL, "signals", task=", ".join(names), make=lambda: order)
    assert isinstance(settled, StepRecord)
    if settled.status is not StepStatus.DONE:
        raise run.failed(settled)


def does(name: str) -> Function:
    """A part that is a function of one step."""
    return lambda run: step(run, name)


# -- bodies ------------------------------------------------------------------------------------------------------
def two_at_once(run: Replay) -> str:
    join(run, {"a": task("a"), "b": task("b")})
    return "null"


def then_another(run: Replay) -> str:
    join(run, {"a": task("a"), "b": task("b")})
    step(run, "c")
    return "null"


def one_at_a_time(run: Replay) -> str:
    join(run, {"a": task("a", undo=False), "b": task("b", undo=False)}, concurrency=1)
    return "null"


def two_functions(run: Replay) -> str:
    join(run, {"a": does("x"), "b": does("y")})
    return "null"


def collects(run: Replay) -> str:
    join(run, {"a": task("a"), "b": task("b")}, on_failure="collect")
    return "null"


def goes_another_way(run: Replay) -> str:
    try:
        join(run, {"a": task("a"), "b": task("b")})
    except Declined:
        step(run, "c")
    return "null"


def races(run: Replay) -> str:
    join(run, {"a": task("a"), "b": task("b")}, on_failure="race")
    return "null"


def races_then_another(run: Replay) -> str:
    join(run, {"a": task("a"), "b": task("b")}, on_failure="race")
    step(run, "c")
    return "null"


def races_a_signal(run: Replay) -> str:
    join(run, {"a": does("x"), "b": lambda run: wait(run, "go")}, on_failure="race")
    return "null"


def signal(name: str) -> Order:
    """A part that is one wait."""
    return Order(StepKind.SIGNAL, "", "", 0, task=name)


def races_a_wait(run: Replay) -> str:
    join(run, {"a": task("a"), "b": signal("go")}, on_failure="race")
    return "null"


def takes_what_lost(run: Replay) -> str:
    join(run, {"b": signal("go"), "c": signal("pay")}, on_failure="race")
    wait(run, "pay" if winner_of(run) == "b" else "go")
    return "null"


def winner_of(run: Replay) -> str:
    """Name of the arm that won the race."""
    return str(codec.decode(result_of(run, run.snapshot.steps["j"]))[0])


def waits_for_both(run: Replay) -> str:
    step(run, "a")
    wait_for(run, ["go", "pay"])
    return "null"


def waits_for_either(run: Replay) -> str:
    wait_for(run, ["go", "pay"], need=1)
    wait(run, "pay")
    return "null"


def is_listened_to(run: Replay) -> str:
    step(run, "a")
    wait(run, "go")
    return "null"


def a_join_in_a_part(run: Replay) -> str:
    def inner(run: Replay) -> None:
        join(run, {"p": task("p"), "q": task("q")})

    join(run, {"a": inner})
    return "null"


_OK, _FAILED = ("completed",), ("failed",)

JOINS = (
    Scenario("two at once", two_at_once, _OK, 1_500, faults=1),
    Scenario("two at once, one is lost", two_at_once, ("completed", "failed"), 2_500, faults=1, max_stalls=0),
    Scenario("two at once, one fails", two_at_once, _FAILED, 1_900, fails={"j[b]": -1}, faults=1),
    Scenario("two at once, cancelled", two_at_once, ("completed", "cancelled"), 15_000, events=("cancel",), faults=1),
    Scenario("then another, which fails", then_another, _FAILED, 3_300, fails={"c": -1}, faults=1),
    Scenario("one at a time", one_at_a_time, _OK, 300, faults=1),
    Scenario("two functions", two_functions, _OK, 12_000, faults=1),
    Scenario("two functions, one fails", two_functions, _FAILED, 11_500, fails={"j[b]/y": -1}, faults=1),
    Scenario(
        "two functions, suspended",
        two_functions,
        ("completed", "suspended"),
        60_000,
        events=("suspend", "resume"),
        faults=0,
    ),
    Scenario("collected", collects, _OK, 830, fails={"j[b]": -1}, faults=1),
    Scenario("an abort that is caught", goes_another_way, _OK, 6_000, fails={"j[b]": -1}, faults=1),
    Scenario("a race", races, _OK, 13_000, faults=1),
    Scenario("a race, one fails", races, _OK, 1_600, fails={"j[b]": -1}, faults=1),
    Scenario("a race, both fail", races, _FAILED, 700, fails={"j[b]": -1, "j[a]": -1}, faults=1),
    Scenario("a race, then a failure", races_then_another, _FAILED, 90_000, fails={"c": -1}, faults=1),
    Scenario("a race, cancelled", races, ("completed", "cancelled"), 72_000, events=("cancel",), faults=1),
    Scenario("a race with a signal", races_a_signal, _OK, 42_000, events=("signal",), faults=1),
    Scenario("a race with an arm that is a signal", races_a_wait, _OK, 4_900, events=("signal",), faults=1),
    Scenario(
        "a signal that lost a race",
        takes_what_lost,
        (*_OK, "waiting"),
        8_000,
        events=("signal", "signal pay"),
        faults=1,
    ),
    Scenario("a join in a part", a_join_in_a_part, _OK, 2_300, faults=1),
    Scenario(
        "two signals at once", waits_for_both, (*_OK, "waiting"), 16_000, events=("signal", "signal pay"), faults=1
    ),
    Scenario("either signal", waits_for_either, (*_OK, "waiting"), 7_000, events=("signal", "signal pay"), faults=1),
    Scenario("a chord", is_listened_to, (*_OK, "waiting"), 44_000, events=("hang", "signal"), faults=1),
    Scenario(
        "a chord, cancelled",
        is_listened_to,
        (*_OK, "cancelled", "waiting"),
        4_600,
        events=("hang", "signal", "cancel"),
        faults=0,
    ),
    Scenario(
        "a chord that fails",
        is_listened_to,
        (*_OK, "waiting"),
        500,
        fails={"!chord/1": -1},
        events=("hang", "signal"),
        faults=0,
    ),
)
