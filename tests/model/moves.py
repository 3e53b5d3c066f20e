"""Every move that can be made from a state: of the engine's processes, of the tasks, of time, and what may go wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from celery_saga.core.attempts import Failed, Outcome, Succeeded
from celery_saga.core.ports import Claimed
from celery_saga.core.status import RunStatus, StepStatus
from celery_saga.engine.engine import Engine
from celery_saga.engine.parts import claim_part, decide_part
from celery_saga.engine.start import NewRun
from celery_saga.errors import SignalDuplicate, SignalExpired
from tests.model import rules, verbs
from tests.model.aftermath import (
    REOPENS,
    act,
    activities_after,
    attempts_after,
    settled,
    with_attempt,
    without_activity,
    without_attempt,
    without_mail,
)
from tests.model.sagas import SAGA, SAGA_VERSION, Declined, Scenario
from tests.model.state import (
    HELD,
    NOW,
    RUN_ID,
    Activity,
    Attempt,
    Broken,
    Mail,
    Outside,
    State,
    Tables,
    forget_tables,
    tables,
)
from tests.model.store import ModelStore
from tests.model.verbs import Done

_MOST_COPIES = 2
_DONE = Succeeded('"done"')


@dataclass(frozen=True)
class Move:
    """One move. `is_fair`: it needs no fault, no event from outside, and no waiting while something can be done."""

    label: str
    after: State
    is_fair: bool


class Moves:
    """The moves of one scenario; what a verb does to given tables is worked out once."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self._known: dict[Any, Done] = {}
        self._undisturbed: set[Any] = set()

    def forget(self) -> None:
        """Let go of everything that was worked out."""
        self._known.clear()
        self._undisturbed.clear()
        verbs.forget_answers()
        forget_tables()

    def first(self) -> State:
        """The run was started: its row is committed, its message is under way."""
        store = _Starting()
        definitions: Any = self.scenario
        engine = Engine(store, store, definitions, self.scenario.limits)  # type: ignore[arg-type]
        run, _ = engine.start(
            NewRun(
                saga=SAGA,
                version=SAGA_VERSION,
                run_id=RUN_ID,
                key=None,
                input_text="[[], {}]",
                input_digest="",
                spec_text=self.scenario.spec.to_text(),
                deadline_s=self.scenario.deadline_s,
            )
        )
        return State(tables(run, ()), (Mail(),), (), (), Outside(), self.scenario.events, self.scenario.faults)

    def of(self, state: State) -> Iterator[Move]:
        """All moves, the fair ones first, in the order in which a calm system would make them.

        Where a process makes a call that does nothing now or later, this is the only move: whatever else may happen can
        as well happen after it.

        Raises:
            Broken: a rule does not hold on the way; `args[1]` is the label of the move.
        """
        for activity in state.activities:
            if _is_in_vain(state, activity):
                yield self._goes_on(state, activity)
                return
        for activity in state.activities:
            yield self._goes_on(state, activity)
        yield from self._attempts(state)
        yield from self._deliver(state)
        yield from self._sweep(state)
        yield from self._time(state)
        yield from self._events(state)
        if state.faults_left:
            yield from self._faults(state._replace(faults_left=state.faults_left - 1))

    # -- the engine's processes --------------------------------------------------------------------------------
    def _goes_on(self, state: State, activity: Activity) -> Move:
        label = f"{activity.verb} goes on ({activity.next_call.rpartition('.')[2]})"
        rest = without_activity(state, activity)
        return self._move(label, lambda: self._step(rest, activity))

    def _step(self, state: State, activity: Activity, **how: Any) -> State:
        """One more call of an activity."""
        key = (state.tables, activity, len(state.mail) if activity.verb == "sweep" else 0, *how)
        done = self._perform(
            key,
            state,
            self._verb_of(activity),
            under_way=len(state.mail),
            answers=activity.answers,
            calls=1,
            **how,
        )
        after = self._has_done(self._after(state, done), done)
        if done.next_call is None:
            return after
        on = Activity(activity.verb, done.next_call, done.tries, done.token, done.seen, done.answers, done.holds)
        return after._replace(activities=tuple(sorted((*after.activities, on), key=lambda x: x.order)))

    def _has_done(self, state: State, done: Done) -> State:
        """The state after a call of an activity, with what it has done outside."""
        return state

    def _verb_of(self, activity: Activity) -> Callable[[Engine], Any]:
        return _VERBS[activity.verb]

    def _deliver(self, state: State) -> Iterator[Move]:
        for mail in dict.fromkeys(state.mail):
            yield self._move(f"{mail} arrives", lambda m=mail: self._receive(without_mail(state, m), m))

    def _receive(self, state: State, mail: Mail) -> State:
        if mail.step is None:
            return self._step(state, Activity("coordinate", "load"))
        step, generation = mail.step, mail.generation

        def claim(engine: Engine) -> Claimed | None:
            if mail.is_part:
                return claim_part(engine.world, RUN_ID, generation, step, owner="host:1")
            return engine.claim(RUN_ID, generation, step, owner="host:1")

        done = self._perform((state.tables, mail), state, claim)
        after = self._after(state, done)
        if not isinstance(done.value, Claimed):
            return after
        return with_attempt(after, Attempt(done.value, done.tables, has_acted=False, is_zombie=False))

    def _sweep(self, state: State) -> Iterator[Move]:
        if not state.tables.is_due:
            return
        if self.scenario.splits_sweeps:
            yield self._move("sweep", lambda: self._step(state, Activity("sweep", "pick_due")))
            return
        key = (state.tables, "sweep", len(state.mail))
        yield self._move(
            "sweep", lambda: self._after(state, self._perform(key, state, verbs.sweep, under_way=len(state.mail)))
        )

    # -- the tasks ---------------------------------------------------------------------------------------------
    def _attempts(self, state: State) -> Iterator[Move]:
        for attempt in state.attempts:
            yield from self._attempt(state, attempt, without_attempt(state, attempt))

    def _attempt(self, state: State, attempt: Attempt, rest: State) -> Iterator[Move]:
        """What it may do; `rest` is the state without it."""
        who = f"{'the zombie' if attempt.is_zombie else 'the attempt'} of {attempt.step}"
        raises = self.scenario.raises(attempt.claimed.step)
        if attempt.is_part:
            if attempt.is_zombie:
                self._stays_out(state.tables, attempt)
            else:
                yield self._move(f"{attempt.step} is decided", lambda: self._decide(rest, attempt))
        elif not attempt.has_acted and not raises:
            yield self._move(f"{who} has its effect", lambda: act(rest, attempt))
        elif attempt.is_zombie:
            self._stays_out(state.tables, attempt)
        else:
            what = "its error" if raises else "its result"
            yield self._move(f"{who} checks in {what}", lambda: self._check_in(rest, attempt))
        if self.scenario.renews and not attempt.is_zombie:
            yield self._move(f"{who} prolongs its lease", lambda: self._renew(state, attempt), is_fair=False)

    def _check_in(self, state: State, attempt: Attempt, *, lose_answer: bool = False) -> State:
        claimed = attempt.claimed
        fails = self.scenario.raises(claimed.step)

        def verb(engine: Engine) -> bool:
            outcome: Outcome = engine.failed(claimed, Declined(attempt.step)) if fails else _DONE
            return engine.check_in(claimed, outcome)

        done = self._perform((state.tables, attempt, lose_answer), state, verb, lose_answer=lose_answer)
        if done.value is not True:
            raise Broken(f"the check-in of {attempt.step} was refused although its claim holds")
        after = self._after(state, done)
        return after._replace(outside=rules.checked_in(after.outside, done.landed))

    def _decide(self, state: State, attempt: Attempt) -> State:
        """A part is decided, on what was read at its claim."""
        key = (state.tables, attempt, "decide")
        done = self._perform(key, state, lambda engine: decide_part(engine.world, attempt.claimed))
        if done.value is not True:
            raise Broken(f"the decision on {attempt.step} was refused although its claim holds")
        return self._after(state, done)

    def _stays_out(self, now: Tables, zombie: Attempt) -> None:
        """Whatever a zombie checks in, and whenever, changes nothing.

        Raises:
            Broken: it was let in.
        """
        if (now, zombie) in self._undisturbed:
            return
        outcomes: tuple[Outcome, ...] = (_DONE,) if zombie.is_part else (_DONE, Failed(_ERROR))
        for outcome in outcomes:
            label = f"the zombie of {zombie.step} checks in {'its result' if outcome is _DONE else 'an error'}"

            try:
                done = verbs.perform(self.scenario, now, self._try_of(zombie, outcome))
            except Broken as broken:
                raise Broken(broken.args[0], label) from broken
            if done.tables is not now or done.moved or done.sent or done.value:
                raise Broken(f"a zombie of {zombie.step} was let in", label)
        self._undisturbed.add((now, zombie))

    def _try_of(self, zombie: Attempt, outcome: Outcome) -> Callable[[Engine], Any]:
        """How a zombie tries to check in."""
        if zombie.is_part:
            return lambda engine: decide_part(engine.world, zombie.claimed)
        return lambda engine: engine.check_in(zombie.claimed, outcome)

    def _renew(self, state: State, attempt: Attempt) -> State:
        done = self._perform((state.tables, attempt, "renew"), state, lambda engine: engine.renew(attempt.claimed))
        if done.value is None:
            raise Broken(f"the lease of {attempt.step} was not prolonged although its claim holds")
        return self._after(state, done)

    # -- time --------------------------------------------------------------------------------------------------
    def _time(self, state: State) -> Iterator[Move]:
        """The clock moves on to the next instant at which something is due; while there is work, that is a fault."""
        ahead = min(state.tables.instants(), default=None)
        if ahead is None or state.tables.is_due:
            return
        busy = bool(state.mail or state.activities or any(not x.is_zombie for x in state.attempts))
        if busy and not state.faults_left:
            return
        later_s = (ahead - NOW).total_seconds()
        now = state.tables
        later = tables(now.run, now.steps, now.signals, now.volatile, later_s=later_s)
        what = f"{later_s:g} s go by{' before anything else' if busy else ''}"
        faults_left = state.faults_left - busy
        yield Move(what, state._replace(tables=later, faults_left=faults_left), is_fair=not busy)

    # -- from outside ------------------------------------------------------------------------------------------
    def _events(self, state: State) -> Iterator[Move]:
        for event in dict.fromkeys(state.events_left):
            left = list(state.events_left)
            left.remove(event)
            rest = state._replace(events_left=tuple(left))
            if event in _VERBS:
                first = Activity(event, "load")
                yield self._move(f"a {event} is sent", lambda r=rest, f=first: self._step(r, f), is_fair=False)
            elif _may(state.tables, event):
                yield self._move(event, lambda r=rest, e=event: self._by_hand(r, e), is_fair=False)

    def _by_hand(self, state: State, event: str) -> State:
        done = self._perform((state.tables, event), state, _BY_HAND[event], by_hand=event != "cancel")
        return self._after(state, done)

    # -- what goes wrong ---------------------------------------------------------------------------------------
    def _faults(self, state: State) -> Iterator[Move]:
        for mail in dict.fromkeys(state.mail):
            yield Move(f"{mail} is lost", without_mail(state, mail), is_fair=False)
            yield self._move(f"{mail} arrives twice", lambda m=mail: self._receive(state, m), is_fair=False)
        for activity in state.activities:
            yield Move(f"the process of {activity.verb} dies", without_activity(state, activity), is_fair=False)
        for attempt in state.attempts:
            if not attempt.is_zombie:
                yield from self._attempt_faults(state, attempt, without_attempt(state, attempt))
        if state.tables.volatile:
            yield self._move("the database crashes", lambda: self._crash(state), is_fair=False)

    def _attempt_faults(self, state: State, attempt: Attempt, rest: State) -> Iterator[Move]:
        when = "after" if attempt.has_acted else "before"
        yield Move(f"the process of {attempt.step} dies {when} its effect", rest, is_fair=False)
        if self.scenario.reports:
            label = f"the process of {attempt.step} dies {when} its effect and the pool reports it"
            yield self._move(label, lambda: self._report(rest, attempt), is_fair=False)
        if attempt.has_acted and not attempt.is_part:
            label = f"the attempt of {attempt.step} checks in its result and does not hear that it landed"
            yield self._move(label, lambda: self._check_in(rest, attempt, lose_answer=True), is_fair=False)

    def _report(self, state: State, attempt: Attempt) -> State:
        def verb(engine: Engine) -> bool:
            return engine.end_attempt(RUN_ID, attempt.step, attempt.claimed.step.claim_token)

        return self._after(state, self._perform((state.tables, attempt, "dies"), state, verb))

    @staticmethod
    def _crash(state: State) -> State:
        """The claims that were committed asynchronously since the last durable write are gone."""
        now = state.tables
        before = {x.key: x for x in reversed(now.volatile)}
        steps = [before.get(x.key, x) for x in now.steps]
        held = frozenset(x.key for x in now.steps if x.claim_token == HELD and x.key not in before)
        crashed = tables(now.run, steps, now.signals)
        return settled(state._replace(tables=crashed, attempts=attempts_after(state.attempts, held, moved=False)))

    # -- common ------------------------------------------------------------------------------------------------
    def _perform(self, key: Any, state: State, verb: Callable[[Engine], Any], **how: Any) -> Done:
        done = self._known.get(key)
        if done is None:
            done = self._known[key] = verbs.perform(self.scenario, state.tables, _tolerant(verb), **how)
        return done

    @staticmethod
    def _after(state: State, done: Done) -> State:
        """The state after a verb: if the run has moved, what others read is out of date; ended claims are zombies."""
        mail = list(state.mail)
        for sent in done.sent:
            if mail.count(sent) < _MOST_COPIES:
                mail.append(sent)
        return settled(
            state._replace(
                tables=done.tables,
                mail=tuple(sorted(mail, key=lambda x: (x.step or "", x.generation))),
                attempts=attempts_after(state.attempts, done.held, moved=done.moved),
                activities=activities_after(state.activities, done),
            )
        )

    @staticmethod
    def _move(label: str, make: Callable[[], State], *, is_fair: bool = True) -> Move:
        try:
            return Move(label, make(), is_fair)
        except Broken as broken:
            raise Broken(broken.args[0], label) from broken


class _Starting:
    """Takes the one row that a start writes, and the one message that it sends."""

    start_run = ModelStore.start_run

    def publish(self, messages: Any) -> int:
        return len(messages)


def _tolerant(verb: Callable[[Engine], Any]) -> Callable[[Engine], Any]:
    """A sender of a signal is told when it is late; that is an answer, not an accident."""

    def told(engine: Engine) -> Any:
        try:
            return verb(engine)
        except (SignalExpired, SignalDuplicate) as answer:
            return answer.code

    return told


def _is_in_vain(state: State, activity: Activity) -> bool:
    """It writes a decision on a run that has moved since, or on one that has ended for good."""
    if activity.verb != "coordinate":
        return False
    is_late = activity.seen is None and activity.next_call == "_write.<locals>.change"
    return is_late or (state.tables.run.status.is_end and not REOPENS & set(state.events_left))


def _may(now: Tables, event: str) -> bool:
    status = now.run.status
    if event == "resume":
        return status is RunStatus.SUSPENDED
    if event == "retry":
        return status in (RunStatus.FAILED, RunStatus.CANCELLED)
    if event == "retry undo":
        return any(x.key.endswith("!undo") and x.status in (StepStatus.FAILED, StepStatus.LOST) for x in now.steps)
    if event == "resolve undo":
        return status is RunStatus.SUSPENDED and now.run.reason == "undo_unknown"
    if event == "hang":
        return now.run.outcome is None and not status.is_end
    if event == "suspend":
        return not status.is_end and status is not RunStatus.SUSPENDED
    return True


def _retry_undo(engine: Engine) -> None:
    for step in engine.store.load(RUN_ID).snapshot.steps.values():  # type: ignore[union-attr]
        if step.key.endswith("!undo") and step.status in (StepStatus.FAILED, StepStatus.LOST):
            engine.retry_undo(RUN_ID, step.undo_of or "")


_VERBS: dict[str, Callable[[Engine], Any]] = {
    "cancel by row": verbs.cancel_by_row,
    "coordinate": verbs.coordinate,
    "signal": verbs.signal,
    "signal pay": verbs.signal_pay,
    "sweep": verbs.sweep,
}
_BY_HAND: dict[str, Callable[[Engine], Any]] = {
    "cancel": lambda engine: engine.cancel(RUN_ID),
    "hang": verbs.hang,
    "suspend": lambda engine: engine.suspend(RUN_ID),
    "resume": lambda engine: engine.resume(RUN_ID),
    "retry": lambda engine: engine.retry(RUN_ID),
    "retry undo": _retry_undo,
    "resolve undo": lambda engine: engine.resolve_undo(RUN_ID, "b", outcome="done"),
}
_ERROR = verbs.failure_of(Declined("zombie"))
