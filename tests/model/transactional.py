"""Small sagas with transactional steps: an attempt's effect and its checkpoint are one move, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from celery_saga.core.attempts import Succeeded
from celery_saga.core.orders import StepSpec
from celery_saga.core.ports import Change, Transition
from celery_saga.core.records import StepRecord
from celery_saga.core.replay import Replay
from celery_saga.core.retry import Retry
from celery_saga.core.status import StepStatus
from celery_saga.core.transactions import Broken as Cause
from celery_saga.engine import transactional
from celery_saga.engine.engine import Engine
from tests.model import rules, verbs
from tests.model.aftermath import with_attempt
from tests.model.moves import Move, Moves
from tests.model.sagas import Scenario, step
from tests.model.state import Activity, Attempt, Broken, State
from tests.model.store import ModelStore
from tests.model.verbs import Done

_DONE = Succeeded('"done"')


class Unheard(Exception):
    """The connection was lost while it committed."""


@dataclass
class ModelTransaction:
    """One transaction of a step on the model's tables; what it writes counts as soon as its commit lands.

    Args:
        store: the tables.
        hears: the answer to its commit arrives.
        lands: it commits.
    """

    store_outside: ModelStore
    hears: bool = True
    lands: bool = True
    connection: Any = None
    broken: Cause | None = None
    first_error: BaseException | None = None
    store: Any = field(init=False)

    def __post_init__(self) -> None:
        self.store = self

    def check(self) -> None:
        """The task has left it open."""

    def transact(self, run_id: str, change: Change, *, focus: Any = None, **_: Any) -> Transition:
        """The checkpoint, with the commit that follows at once."""
        done: Transition = self.store_outside._call("commit", lambda: self._transact(change, focus))
        # As it was answered before, both sides are what is stored now.
        return done if self.hears else replace(done, new=replace(done.new))

    def _transact(self, change: Change, focus: Any) -> Transition:
        outside = self.store_outside
        before = outside.rows
        done = outside._transact(change, focus)
        if not self.lands:
            outside.rows = before
            outside.changes.clear()
        return done

    def __enter__(self) -> ModelTransaction:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None and not self.hears:
            self.broken = Cause.LOST
            raise Unheard


class TransactionalMoves(Moves):
    """The moves of a saga with transactional steps."""

    def of(self, state: State) -> Iterator[Move]:
        """As before; and the effect of a transactional step is there exactly if it is done.

        Raises:
            Broken: a rule does not hold.
        """
        for row in state.tables.steps:
            if not _is_transactional(row):
                continue
            key = row.idempotency_key
            there = key in (*state.outside.effects, *state.outside.bare, *state.outside.undo_keys)
            if there != (row.status is StepStatus.DONE):
                raise Broken(f"{row.key} is {row.status}, and its effect is {'there' if there else 'not there'}")
        yield from super().of(state)

    # -- the tasks ---------------------------------------------------------------------------------------------
    def _attempt(self, state: State, attempt: Attempt, rest: State) -> Iterator[Move]:
        if not _is_transactional(attempt.claimed.step) or self.scenario.raises(attempt.claimed.step):
            yield from super()._attempt(state, attempt, rest)
        elif attempt.is_zombie:
            self._stays_out(state.tables, attempt)
        elif attempt.answers:
            label = f"the attempt of {attempt.step} looks whether it has landed"
            yield self._move(label, lambda: self._look(rest, attempt))
        else:
            yield self._move(f"the attempt of {attempt.step} commits", lambda: self._commit(rest, attempt))

    def _attempt_faults(self, state: State, attempt: Attempt, rest: State) -> Iterator[Move]:
        if not _is_transactional(attempt.claimed.step) or self.scenario.raises(attempt.claimed.step):
            yield from super()._attempt_faults(state, attempt, rest)
            return
        when = "in doubt" if attempt.answers else "before its commit"
        yield Move(f"the process of {attempt.step} dies {when}", rest, is_fair=False)
        if attempt.answers:
            return
        for lands in (True, False):
            label = f"the attempt of {attempt.step} loses its connection {'after' if lands else 'before'} its commit"
            yield self._move(label, lambda lands=lands: self._lose(rest, attempt, lands=lands), is_fair=False)

    def _commit(self, state: State, attempt: Attempt) -> State:
        """Effect and checkpoint; the decision that follows is the next thing that this process does."""
        done = self._perform((state.tables, attempt, "commit"), state, _executing(attempt), calls=1)
        if not done.landed:
            raise Broken(f"the commit of {attempt.step} was refused although its claim holds")
        after = self._with_effect(self._after(state, done), attempt, done)
        return _followed(after) if done.next_call == "load" else after

    def _lose(self, state: State, attempt: Attempt, *, lands: bool) -> State:
        verb = _executing(attempt, lands=lands, hears=False)
        done = self._perform((state.tables, attempt, "lose", lands), state, verb, calls=1)
        after = self._after(state, done)
        if lands:
            after = self._with_effect(after, attempt, done)
        claimed = verbs.outdated(attempt.claimed)
        return with_attempt(after, Attempt(claimed, None, has_acted=lands, is_zombie=False, answers=done.answers))

    def _look(self, state: State, attempt: Attempt) -> State:
        """Under the lock of the run: it has landed, or everything is done again."""
        verb, key = _executing(attempt, hears=False), (state.tables, attempt, "look")
        done = self._perform(key, state, verb, answers=attempt.answers, calls=1)
        has_landed = done.next_call != "commit"
        if has_landed != attempt.has_acted:
            raise Broken(f"the attempt of {attempt.step} is taken to have {'landed' if has_landed else 'been lost'}")
        after = self._after(state, done)
        if has_landed:
            return _followed(after)
        return with_attempt(after, Attempt(attempt.claimed, None, has_acted=False, is_zombie=False))

    def _try_of(self, zombie: Attempt, outcome: Any) -> Any:
        if _is_transactional(zombie.claimed.step) and outcome == _DONE:
            return _executing(zombie)
        return super()._try_of(zombie, outcome)

    @staticmethod
    def _with_effect(state: State, attempt: Attempt, done: Done) -> State:
        """It has landed: what the task wrote is there.

        Raises:
            Broken: it was there before.
        """
        step, outside = attempt.claimed.step, state.outside
        if step.idempotency_key in (*outside.effects, *outside.bare, *outside.undo_keys):
            raise Broken(f"{step.key} has its effect a second time")
        acted = rules.act(outside, step, state.tables)
        return state._replace(outside=rules.checked_in(acted, done.landed))


def _executing(attempt: Attempt, *, lands: bool = True, hears: bool = True) -> Callable[[Engine], Any]:
    """The engine executes the attempt; what `lands` and `hears` say is true of its first transaction alone."""

    def verb(engine: Engine) -> Transition | None:
        store: Any = engine.store
        coming = iter((ModelTransaction(store, hears=hears, lands=lands),))
        done = transactional.execute(
            engine.world,
            attempt.claimed,
            lambda connection: _DONE,
            lambda: next(coming, None) or ModelTransaction(store),
        )
        if done is not None:
            transactional.follow(engine.world, done)
        return done

    return verb


def _followed(state: State) -> State:
    """The process that has committed decides the run."""
    activities = (*state.activities, Activity("coordinate", "load"))
    return state._replace(activities=tuple(sorted(activities, key=lambda x: x.order)))


def _is_transactional(step: StepRecord) -> bool:
    return '"transactional"' in step.spec_text and StepSpec.from_text(step.spec_text).transactional


# -- bodies ------------------------------------------------------------------------------------------------------
def one(run: Replay) -> str:
    step(run, "a", undo=False, transactional=True)
    return "null"


def two(run: Replay) -> str:
    step(run, "a", transactional=True)
    step(run, "b", undo=False)
    return "null"


def tries_again(run: Replay) -> str:
    step(run, "a", undo=False, transactional=True, retry=Retry(max_attempts=2, delay=20, jitter=False))
    return "null"


_OK = ("completed",)

TRANSACTIONAL = (
    Scenario("one transaction", one, ("completed", "failed"), 2_900, faults=2),
    Scenario("one transaction, lost", one, ("completed", "failed"), 150, faults=1, max_stalls=0),
    Scenario("one transaction, cancelled", one, ("completed", "cancelled"), 310, events=("cancel",), faults=1),
    Scenario("one transaction, tried again", tries_again, _OK, 170, fails={"a": 1}, faults=1),
    Scenario("a transaction and a step", two, _OK, 280, faults=1),
    Scenario("a transaction is undone", two, ("failed",), 300, fails={"b": -1}, faults=1),
    Scenario("a transaction, cancelled", two, ("completed", "cancelled"), 1_350, events=("cancel",), faults=1),
)
