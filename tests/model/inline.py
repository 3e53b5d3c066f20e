"""Small sagas whose steps are executed by the process that coordinates them; others come in between its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from celery_saga.core.attempts import Outcome, Succeeded
from celery_saga.core.placing import Order
from celery_saga.core.ports import Claimed
from celery_saga.core.records import RunRecord
from celery_saga.engine.engine import Engine
from celery_saga.errors import StoreUnavailable
from tests.model import rules
from tests.model.aftermath import without_activity
from tests.model.moves import Move, Moves
from tests.model.sagas import Declined, Scenario, bare_first, is_flaky, takes_a_detour, two_with_undos, waits_between
from tests.model.state import RUN_ID, Activity, Mail, State
from tests.model.verbs import Done

_INLINE = "inline"


class ModelInline:
    """Executes a step as one call, before which any other process may come in.

    Args:
        engine: whose steps these are.
    """

    owner = "host:2"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def execute(self, claimed: Claimed) -> Outcome:
        """The effect, or the error."""
        scenario: Any = self._engine.definitions
        store: Any = self._engine.store
        fails = scenario.raises(claimed.step)
        own = self._engine.failed(claimed, Declined(claimed.step.key)) if fails else Succeeded('"done"')
        outcome: Outcome = store.execute(claimed.step, own)
        return outcome

    def is_over(self, elapsed_s: float) -> bool:
        """Its worker stops by dying only."""
        return False


class InlineMoves(Moves):
    """The moves of a saga whose steps are executed inline, but for those named x."""

    def _perform(self, key: Any, state: State, verb: Callable[[Engine], Any], **how: Any) -> Done:
        return super()._perform(key, state, verb, takes_inline=_takes, **how)

    def _receive(self, state: State, mail: Mail) -> State:
        if mail.step is None:
            return self._step(state, Activity(_INLINE, "load"))
        return super()._receive(state, mail)

    def _verb_of(self, activity: Activity) -> Callable[[Engine], Any]:
        return _coordinate if activity.verb == _INLINE else super()._verb_of(activity)

    def _has_done(self, state: State, done: Done) -> State:
        """What it has executed has its effect; what it has checked in is done for good."""
        outside = state.outside
        for step in done.executed:
            outside = rules.act(outside, step, state.tables)
        return state._replace(outside=rules.checked_in(outside, done.landed))

    def _faults(self, state: State) -> Iterator[Move]:
        yield from super()._faults(state)
        for activity in state.activities:
            if activity.verb == _INLINE and activity.next_call.startswith("_Going"):
                rest = without_activity(state, activity)
                label = f"{activity.verb} goes on and does not hear that it landed"
                yield self._move(label, lambda r=rest, a=activity: self._step(r, a, lose_answer=True), is_fair=False)


def _coordinate(engine: Engine) -> None:
    try:
        engine.coordinate(RUN_ID, ModelInline(engine))
    except StoreUnavailable:
        return  # the message is delivered again, or a sweeper sends another


def _takes(run: RunRecord, order: Order) -> bool:
    return not order.key.startswith("x")


_OK = ("completed",)
_DONE = ("completed", "failed")
_ANY = ("completed", "cancelled")

INLINE = (
    Scenario("two inline", two_with_undos, _DONE, 26_000, faults=2),
    Scenario("two inline, cancelled", two_with_undos, _ANY, 4_500, events=("cancel",), faults=1),
    Scenario("two inline, one is lost", bare_first, _DONE, 650, faults=1, max_stalls=0),
    Scenario("inline, fails for good", two_with_undos, ("failed",), 950, fails={"b": -1}, faults=1),
    Scenario("inline, flaky", is_flaky, _OK, 400, fails={"b": 1}, faults=1),
    Scenario("inline, a detour", takes_a_detour, _OK, 1_350, fails={"b": -1}, faults=1),
    Scenario("inline, signalled", waits_between, _DONE, 6_000, events=("signal",), faults=1),
)
