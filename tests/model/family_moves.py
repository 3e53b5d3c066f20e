"""Every move of a parent and its child, what must hold of the two, and the search through their states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from celery_saga.core.attempts import Outcome, Succeeded
from celery_saga.core.records import RunRecord, StepKind, StepRecord
from celery_saga.core.status import RunStatus, StepStatus
from celery_saga.engine.engine import Engine
from tests.model import rules
from tests.model.family import Family, FamilyPublisher, FamilyState, FamilyStore, Note, Work, family, forget_families
from tests.model.moves import Move, Moves
from tests.model.sagas import Declined, Scenario
from tests.model.search import Search
from tests.model.state import NOW, RUN_ID, Broken
from tests.model.store import Paused

_MOST_AT_WORK = 2


class FamilyMoves(Moves):
    """The moves of a parent and its child."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        self._worked_out: dict[Any, Any] = {}

    def forget(self) -> None:
        self._worked_out.clear()
        forget_families()

    def first(self) -> Any:
        one = super().first()
        return FamilyState(
            family([one.tables], later_s=0), (Note(RUN_ID),), (), (), (), one.events_left, one.faults_left
        )

    def of(self, state: Any) -> Iterator[Move]:
        for work in state.at_work:
            label = f"whoever came to the {_who(work.run_id)} goes on ({work.next_call.rpartition('.')[2]})"
            yield self._move(label, lambda w=work: self._works_on(state, w))
        for note in dict.fromkeys(state.mail):
            if note.step is not None or len(state.at_work) < _MOST_AT_WORK:
                yield self._move(f"{note} arrives", lambda n=note: self._arrives(_without(state, n), n))
        if state.tables.is_due:
            yield self._move("sweep", lambda: self._done(state, "sweep", lambda engine: engine.sweep()))
        yield from self._time(state)
        for event in dict.fromkeys(state.events_left):
            left = state._replace(events_left=tuple(x for x in state.events_left if x != event))
            run = state.tables.run if event == "cancel" else state.tables.child
            if run is not None:
                run_id = run.id
                yield self._move(event, lambda s=left, r=run_id: self._done(s, r, lambda e: e.cancel(r)), is_fair=False)
        if state.faults_left:
            yield from self._faults(state._replace(faults_left=state.faults_left - 1))

    def _faults(self, state: Any) -> Iterator[Move]:
        for note in dict.fromkeys(state.mail):
            yield Move(f"{note} is lost", _without(state, note), is_fair=False)
            if note.step is None and len(state.at_work) < _MOST_AT_WORK:
                yield self._move(f"{note} arrives twice", lambda n=note: self._arrives(state, n), is_fair=False)
            for acts in (False, True) if note.step is not None else ():
                label = f"{note} arrives, and its process dies {'after' if acts else 'before'} the effect"
                yield self._move(
                    label,
                    lambda n=note, a=acts: self._executes(_without(state, n), n, acts=a, dies=True),
                    is_fair=False,
                )
        for work in state.at_work:
            label = f"whoever came to the {_who(work.run_id)} dies before {work.next_call.rpartition('.')[2]}"
            rest = tuple(x for x in state.at_work if x is not work)
            yield Move(label, _at_rest(state._replace(at_work=rest)), is_fair=False)

    def _time(self, state: Any) -> Iterator[Move]:
        ahead = min(state.tables.instants(), default=None)
        busy = bool(state.mail)
        if ahead is None or state.tables.is_due or state.at_work or (busy and not state.faults_left):
            return
        later_s = (ahead - NOW).total_seconds()
        later = family(state.tables.runs.values(), later_s=later_s)
        after = state._replace(tables=later, faults_left=state.faults_left - busy)
        yield Move(f"{later_s:g} s go by{' before anything else' if busy else ''}", after, is_fair=not busy)

    # -- deliveries --------------------------------------------------------------------------------------------
    def _arrives(self, state: Any, note: Note) -> Any:
        if note.step is not None:
            return self._executes(state, note)
        return self._works_on(state, Work(note.run_id))

    def _works_on(self, state: Any, work: Work) -> Any:
        rest = tuple(x for x in state.at_work if x is not work)
        verb = lambda engine: engine.coordinate(work.run_id)  # noqa: E731
        return self._done(state._replace(at_work=rest), work, verb, work)

    def _executes(self, state: Any, note: Note, *, acts: bool = True, dies: bool = False) -> Any:
        """Claim, effect and check-in, or as much of it as the process lives to do."""

        def verb(engine: Engine) -> str | None:
            mine = engine.claim(note.run_id, note.generation, note.step or "", owner="host:1")
            if mine is None:
                return None
            fails = self.scenario.raises(mine.step)
            outcome: Outcome = engine.failed(mine, Declined(mine.step.key)) if fails else Succeeded('"done"')
            if not dies:
                engine.check_in(mine, outcome)
            return mine.step.idempotency_key if acts and not fails else None

        return self._done(state, (note, dies, acts), verb)

    def _done(self, state: Any, what: Any, verb: Callable[[Engine], Any], work: Work | None = None) -> Any:
        """The state after a verb, or after one more transaction of `work`; what it returns has had its effect."""
        taken = {x.claim_token for one in state.tables.runs.values() for x in (one.run, *one.steps)}
        taken |= {x for each in state.at_work for x in each.tokens}
        fresh = next(x for x in map("fresh{}".format, count()) if x not in taken)
        key = (state.tables, what, fresh)
        if key not in self._worked_out:
            self._worked_out[key] = self._perform_on(state.tables, verb, work, fresh)
        after, sent, acted, next_work = self._worked_out[key]
        at_work = state.at_work if next_work is None else (*state.at_work, next_work)
        mail = tuple(sorted({*state.mail, *sent}, key=lambda x: (x.run_id, x.step or "", x.generation)))
        done = state._replace(
            tables=after, mail=mail, at_work=tuple(sorted(at_work, key=lambda x: (x.run_id, x.next_call, hash(x))))
        )
        return _at_rest(done if acted is None else _acted(done, acted))

    def _perform_on(self, before: Family, verb: Callable[[Engine], Any], work: Work | None, fresh: str) -> Any:
        calls, answers = (None, ()) if work is None else (1, work.answers)
        store = FamilyStore(before, answers, fresh=fresh, calls=calls)
        store.has_called = work is None
        publisher = FamilyPublisher(store)
        engine = Engine(
            store,  # type: ignore[arg-type]
            publisher,
            self.scenario,
            self.scenario.limits,
            draw=lambda: 0.0,
            token=store.token,
            monotonic_s=lambda: 0.0,
            pause=lambda _: None,
        )
        acted, next_work = None, None
        try:
            acted = verb(engine)
        except Paused as paused:
            assert work is not None
            next_work = Work(work.run_id, paused.next_call, tuple(store.answers))
        for old, new in store.changes:
            rules.check_transition(old, new, by_hand=False)
        return family(store.all.values()), tuple(publisher.sent), acted if isinstance(acted, str) else None, next_work


class FamilySearch(Search):
    """A search through the states of a parent and its child."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario, FamilyMoves)

    @staticmethod
    def _check(state: Any) -> None:
        parent, child = state.tables.run, state.tables.child
        left = [x for x in state.effects if x not in state.undone]
        lives = child is not None and not child.status.is_end
        if parent.status.is_end and lives:
            raise Broken(f"the parent has ended as {parent.status} while its child is {child.status}")
        if parent.status in (RunStatus.FAILED, RunStatus.CANCELLED) and left:
            raise Broken(f"the parent has ended as {parent.status}; {', '.join(left)} was not undone")
        has_both = child is not None and child.status is RunStatus.COMPLETED is parent.status
        if has_both and state.undone:
            raise Broken(f"the parent has completed, and so has its child; {', '.join(state.undone)} was undone")
        for row in state.tables.steps:
            if row.kind is StepKind.CHILD:
                _check_row(row, child, state)

    def _rests_wrongly(self, state: Any) -> str | None:
        parent, child = state.tables.run, state.tables.child
        if str(parent.status) not in self._scenario.ends:
            return f"the parent comes to rest as {parent.status}"
        if not parent.status.is_end:
            return f"nothing moves a parent that is {parent.status}"
        return "the child is never told that it is heard" if child is not None and child.wake_at is not None else None


def _check_row(row: StepRecord, child: RunRecord | None, state: Any) -> None:
    """What the parent has on record of its child is so.

    Raises:
        Broken: it is not.
    """
    undo = next((x for x in state.tables.steps if x.key == row.key + "!undo"), None)
    if child is None and (row.task_id is not None or row.status is StepStatus.DONE):
        raise Broken(f"{row.key} is {row.status}, and its run does not exist")
    if child is None:
        return
    if row.status is StepStatus.DONE and undo is None and child.status is not RunStatus.COMPLETED:
        raise Broken(f"the parent has {row.key} done, the child is {child.status}")
    if row.status.is_end and row.status is not StepStatus.DONE and not child.status.is_end:
        raise Broken(f"the parent has {row.key} {row.status}, the child is {child.status}")
    left = [x for x in state.effects if x.startswith(f"{child.id}:") and x not in state.undone]
    if row.status.is_end and row.status is not StepStatus.DONE and left:
        raise Broken(f"the parent has {row.key} {row.status}, but {left[0]} is not undone")
    if state.tables.run.status.is_end and left and rules.has_lost(state.tables.steps, row.key):
        raise Broken(f"the parent has ended; {left[0]} lost a race and is not undone")
    if undo is not None and undo.status is StepStatus.DONE and left:
        raise Broken(f"the parent has its child undone, but {left[0]} is not")


def _acted(state: Any, key: str) -> Any:
    """The world after this step, or undo, has had its effect; a repeat changes nothing.

    Raises:
        Broken: an undo comes before that of a later step of the same or the other run.
    """
    if not key.endswith("!undo"):
        known = key in (*state.effects, *state.undone)
        return state if known else state._replace(effects=(*state.effects, key))
    undone = key.removesuffix("!undo")
    if undone in state.undone:
        return state
    later = state.effects[state.effects.index(undone) + 1 :] if undone in state.effects else ()
    if any("[" in x.key for x in state.tables.steps):  # what is given up in a join is undone while the body goes on
        later = tuple(x for x in later if x.partition(":")[0] == undone.partition(":")[0] and "[" not in x)
    if left := [x for x in later if x not in state.undone]:
        raise Broken(f"{undone} is undone before {left[-1]}, which came later")
    return state._replace(undone=(*state.undone, undone))


def _at_rest(state: Any) -> Any:
    """Without void messages, and in canonical form where nobody is at work who remembers anything."""
    state = state._replace(mail=tuple(x for x in state.mail if not _is_void(state.tables, x)))
    if state.at_work:
        return state
    return state._replace(tables=family(state.tables.runs.values(), later_s=0))


def _is_void(now: Family, note: Note) -> bool:
    """It can do nothing any more: its step is over, or all that is to be told of its run was heard."""
    one = now.runs[note.run_id]
    if note.step is not None:
        return not any(x.key == note.step and not x.status.is_end for x in one.steps)
    return one.run.status.is_end and one.run.wake_at is None and now.run.status.is_end


def _without(state: Any, note: Note) -> Any:
    left = list(state.mail)
    left.remove(note)
    return state._replace(mail=tuple(left))


def _who(run_id: str) -> str:
    return "parent" if run_id == RUN_ID else "child"
