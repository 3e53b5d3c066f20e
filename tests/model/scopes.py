"""Small sagas with scopes, a shield and a pivot, whose every interleaving is walked through."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from celery_saga.core import scopes
from celery_saga.core.pivot import PIVOT
from celery_saga.core.placing import Order
from celery_saga.core.records import StepKind
from celery_saga.core.replay import Replay
from celery_saga.core.shield import LEFT, SHIELD
from tests.model.joins import join, task
from tests.model.sagas import Declined, Fault, Scenario, step


def mark(run: Replay, name: str) -> None:
    run.ask(StepKind.MARK, name, task=name, make=lambda: Order(StepKind.MARK, "", "", 0))


@contextlib.contextmanager
def scope(run: Replay, name: str) -> Iterator[None]:
    """As `run.scope()`."""
    key = scopes.enter(run, name)
    with run.inside(key + "/"):
        scopes.begin(run, key)
        try:
            yield
        except Exception as error:
            scopes.leave_by(run, key, error, (Declined,))
            raise
        scopes.leave(run, key)


@contextlib.contextmanager
def shield(run: Replay) -> Iterator[None]:
    """As `run.shield()`."""
    mark(run, SHIELD)
    run.shields += 1
    try:
        yield
    except Exception as error:
        scopes.note_bug(run, "a shield", error, (Declined,))
        if run.bug is None and not run.suspended:
            mark(run, LEFT)
        raise
    else:
        mark(run, LEFT)
    finally:
        run.shields -= 1


# -- bodies ------------------------------------------------------------------------------------------------------
def goes_on(run: Replay) -> str:
    """A caught failure leaves the scope, and the body does something else."""
    try:
        with scope(run, "s"):
            step(run, "a")
            step(run, "b")
    except (Declined, Fault):
        step(run, "c", undo=False)
    return "null"


def goes_on_and_fails(run: Replay) -> str:
    """What was undone with the scope is not undone again when the run fails later."""
    with contextlib.suppress(Declined), scope(run, "s"):
        step(run, "a")
        step(run, "b")
    step(run, "c")
    return "null"


def is_left(run: Replay) -> str:
    """The failure leaves the scope and then the body."""
    step(run, "o")
    with scope(run, "s"):
        step(run, "a")
        step(run, "b")
    return "null"


def nests(run: Replay) -> str:
    """The failure leaves both scopes."""
    with contextlib.suppress(Declined), scope(run, "s"):
        step(run, "a")
        with scope(run, "t"):
            step(run, "b")
            step(run, "c")
    return "null"


def beside_a_sibling(run: Replay) -> str:
    """A part of a join leaves its scope, catches the failure, and ends well; its sibling works meanwhile."""

    def part(run: Replay) -> None:
        with contextlib.suppress(Declined), scope(run, "s"):
            step(run, "a")
            step(run, "b")

    join(run, {"p": part, "q": task("q")})
    return "null"


def around_a_join(run: Replay) -> str:
    """A failing join aborts its sibling and leaves the scope around it."""
    with contextlib.suppress(Declined), scope(run, "s"):
        join(run, {"p": task("p"), "q": task("q")})
    return "null"


def is_shielded(run: Replay) -> str:
    step(run, "a")
    with shield(run):
        step(run, "b", undo=False)
    step(run, "c", undo=False)
    return "null"


def passes_the_pivot(run: Replay) -> str:
    step(run, "a")
    mark(run, PIVOT)
    run.pivoted = True
    step(run, "b", undo=False)
    return "null"


_OK, _FAILED = ("completed",), ("failed",)
_CANCEL = ("cancel",)

SCOPES = (
    Scenario("a scope", goes_on, _OK, 240, faults=1),
    Scenario("a scope, left and caught", goes_on, _OK, 750, fails={"s/b": -1}, faults=1),
    Scenario("a scope, lost in and caught", goes_on, _OK, 1_200, faults=1, max_stalls=0),
    Scenario("a scope, left before a failure", goes_on_and_fails, _FAILED, 750, fails={"s/b": -1, "c": -1}, faults=1),
    Scenario("a scope, left for good", is_left, _FAILED, 800, fails={"s/b": -1}, faults=1),
    Scenario(
        "a scope, cancelled", goes_on, ("completed", "cancelled"), 2_700, fails={"s/b": -1}, events=_CANCEL, faults=1
    ),
    Scenario("a scope in a scope", nests, _OK, 950, fails={"s/t/c": -1}, faults=1),
    Scenario("a scope in a part", beside_a_sibling, _OK, 13_500, fails={"j[p]/s/b": -1}, faults=1),
    Scenario("a scope around a join", around_a_join, _OK, 2_800, fails={"s/j[p]": -1}, faults=1),
    Scenario("a shield, cancelled", is_shielded, ("completed", "cancelled"), 1_850, events=_CANCEL, faults=1),
    Scenario("a pivot, cancelled", passes_the_pivot, ("completed", "cancelled"), 850, events=_CANCEL, faults=1),
    Scenario("a pivot, and a failure", passes_the_pivot, _OK, 290, fails={"b": 1}, faults=1),
)
