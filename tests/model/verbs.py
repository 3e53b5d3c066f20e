"""Executes the engine's real verbs on the tables of a state, and says what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from celery_saga.core import failure
from celery_saga.core.orders import Call, ChordSpec, StepSpec
from celery_saga.core.ports import Claimed, Loaded, Transition
from celery_saga.core.records import StepRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepStatus
from celery_saga.engine import chords, coordinator
from celery_saga.engine.callers import CallersEngine
from celery_saga.engine.engine import Engine
from celery_saga.engine.ports import TakesInline
from celery_saga.engine.world import never_inline
from tests.model import rules
from tests.model.sagas import Scenario
from tests.model.state import CAREFUL, HELD, NOW, RUN_ID, VERSION, ZOMBIE, Mail, Tables, tables
from tests.model.store import Drawn, ModelPublisher, ModelStore, Paused, Threw, holds


@dataclass(frozen=True)
class Done:
    """What came of one verb, or of one call of it.

    Args:
        tables: afterwards.
        sent: messages that went out.
        moved: whether the run's version was raised: what others have read is out of date.
        held: keys of the steps whose claim is the one it was before.
        value: what the verb returned; None while it is paused.
        next_call: where it is paused; None: it is through.
        claim_stands: whether the claim on the run, if there was one, is the one it was before.
        answers: of the calls made so far.
        landed: keys of the steps that this has made done.
        executed: steps that it has executed itself, and that have had their effect.
    """

    tables: Tables
    sent: tuple[Mail, ...]
    moved: bool
    held: frozenset[str]
    value: Any
    next_call: str | None
    claim_stands: bool
    answers: tuple[Any, ...]
    landed: tuple[str, ...]
    executed: tuple[StepRecord, ...] = ()

    @property
    def holds(self) -> tuple[Any, ...]:
        """What its claim on a step is; none of a verb that claims none."""
        return holds(self.answers)

    @property
    def tries(self) -> int:
        """Decisions of this coordination that came too late."""
        return sum(_is_moved(x) for x in self.answers)

    @property
    def token(self) -> str | None:
        """The last one that this verb has drawn."""
        return next((x.token for x in reversed(self.answers) if isinstance(x, Drawn)), None)

    @property
    def seen(self) -> Tables | None:
        """What its next call may go by."""
        return None if not self.answers or _is_moved(self.answers[-1]) else self.tables


def _is_moved(answer: Any) -> bool:
    return isinstance(answer, Threw) and isinstance(answer.error, coordinator.Moved)


def perform(
    scenario: Scenario,
    before: Tables,
    verb: Callable[[Engine], Any],
    *,
    under_way: int = 0,
    answers: tuple[Any, ...] = (),
    calls: int | None = None,
    lose_answer: bool = False,
    by_hand: bool = False,
    takes_inline: TakesInline = never_inline,
) -> Done:
    """Execute a verb up to its end, or `calls` calls to the store further than its `answers` go.

    Args:
        under_way: messages in the queues.
        by_hand: an operator does it, and may reopen what has ended.
        takes_inline: which steps are executed by whoever coordinates the run.
    Raises:
        Broken: a rule for transitions does not hold.
    """
    store = ModelStore(before, answers, calls=calls, lose_answer=lose_answer)
    publisher = ModelPublisher(store, under_way)
    engine = Engine(
        store,  # type: ignore[arg-type]
        publisher,
        scenario,
        scenario.limits,
        draw=lambda: 0.0,
        token=store.token,
        monotonic_s=lambda: 0.0,
        pause=lambda _: None,
        takes_inline=takes_inline,
    )
    value, next_call = None, None
    try:
        value = verb(engine)
    except Paused as paused:
        next_call = paused.next_call
    for old, new in store.changes:
        rules.check_transition(old, new, by_hand=by_hand or scenario.spec.retry is not None)
    return _done(before, store, publisher, value, next_call)


def _done(before: Tables, store: ModelStore, publisher: ModelPublisher, value: Any, next_call: str | None) -> Done:
    rows = store.rows
    after = tables(rows.run, rows.steps.values(), rows.signals, rows.volatile)
    moved = rows.run.state_version != VERSION
    claim, known = rows.run.claim_token, store.replayed
    was = {x.key: x.status for x in before.steps}
    claims = {x.claim_token: x.key for x in rows.steps.values() if x.claim_token not in (None, HELD)}
    store.answers = [_drawn(x, claims, claim) for x in store.answers]
    return Done(
        tables=after,
        sent=tuple(publisher.sent),
        moved=moved,
        held=frozenset(x.key for x in rows.steps.values() if x.claim_token == HELD),
        value=_as_stored(value, after, claim),
        next_call=next_call,
        claim_stands=claim == CAREFUL,
        answers=(
            *(with_claim(x, claim) for x in store.answers[:known]),
            *(_as_stored(x, after, claim) for x in store.answers[known:]),
        ),
        landed=tuple(
            x.idempotency_key
            for x in after.steps
            if x.status is StepStatus.DONE and was.get(x.key) not in (None, StepStatus.DONE)
        ),
        executed=tuple(store.executed),
    )


def _drawn(answer: Any, claims: dict[str | None, str], claim: str | None) -> Any:
    """A token with which a step was claimed just now, under the name that all present claims have."""
    if isinstance(answer, Drawn) and not answer.key and answer.token != claim and answer.token in claims:
        return Drawn(HELD, claims[answer.token])
    return answer


def robbed(answers: tuple[Any, ...], held: frozenset[str]) -> tuple[Any, ...]:
    """The answers of a verb once the claim on the step that it executes has been ended; else the same."""
    lost = {x.key for x in answers if isinstance(x, Drawn) and x.token == HELD and x.key not in held}
    return tuple(_robbed(x, lost) for x in answers) if lost else answers


def _robbed(answer: Any, lost: set[str]) -> Any:
    if isinstance(answer, Drawn) and answer.key in lost:
        return Drawn(ZOMBIE, answer.key)
    if isinstance(answer, Transition):
        mine = [x for x in answer.new.steps.values() if x.key in lost and x.claim_token == HELD]
        new = answer.new
        for step in mine:
            new = new.with_step(replace(step, claim_token=ZOMBIE))
        return replace(answer, new=new)
    return answer


def _as_stored(answer: Any, after: Tables, claim: str | None) -> Any:
    """An answer just given, as the tables now hold what it shows."""
    if isinstance(answer, Claimed):
        read = answer.snapshot
        steps = {key: step for key, step in after.snapshot.steps.items() if key in read.steps}
        seen = replace(after.snapshot, steps=steps, extent=read.extent, is_busy_elsewhere=read.is_busy_elsewhere)
        return Claimed(after.snapshot.steps[answer.step.key], seen, NOW)
    if isinstance(answer, Transition):
        return Transition(after.snapshot, after.snapshot, NOW)
    return with_claim(answer, claim)


def with_claim(answer: Any, claim: str | None) -> Any:
    """An answer as it looks now that `claim` is the claim on the run: every other token is that of one that is over."""
    if isinstance(answer, Drawn):
        return answer if answer.key else Drawn(CAREFUL if answer.token == claim else ZOMBIE)
    if isinstance(answer, Transition) and (token := answer.new.run.claim_token) is not None:
        token = CAREFUL if token == claim else ZOMBIE
        return replace(answer, new=answer.new.with_run(claim_token=token))
    return answer


_OUTDATED: dict[int, tuple[Any, Any]] = {}
_ZOMBIES: dict[int, tuple[Claimed, Claimed]] = {}


def forget_answers() -> None:
    _OUTDATED.clear()
    _ZOMBIES.clear()


def outdated(answer: Any) -> Any:
    """An answer as it looks once the run has moved on: its version is lower than the present one."""
    if isinstance(answer, Drawn | Threw):
        return answer
    known = _OUTDATED.get(id(answer))
    if known is None:
        known = _OUTDATED[id(answer)] = answer, _with_old_version(answer)
    return known[1]


def _with_old_version(answer: Any) -> Any:
    if isinstance(answer, Claimed | Loaded):
        return replace(answer, snapshot=_older(answer.snapshot))
    if isinstance(answer, Transition):
        return Transition(_older(answer.old), _older(answer.new), answer.now)
    return answer


def _older(s: Snapshot) -> Snapshot:
    return s if s.run.state_version < VERSION else s.with_run(state_version=s.run.state_version - 1)


def as_zombie(claimed: Claimed) -> Claimed:
    """A claim that has been ended, under a token that no row holds any more."""
    known = _ZOMBIES.get(id(claimed))
    if known is None:
        step = replace(claimed.step, claim_token=ZOMBIE)
        zombie = Claimed(step, _older(claimed.snapshot.with_step(step)), claimed.now)
        known = _ZOMBIES[id(claimed)] = claimed, zombie
    return known[1]


def coordinate(engine: Engine) -> None:
    engine.coordinate(RUN_ID)


def signal(engine: Engine) -> None:
    engine.signal(RUN_ID, "go", signal_id="1")


def signal_pay(engine: Engine) -> None:
    engine.signal(RUN_ID, "pay", signal_id="1")


def cancel_by_row(engine: Engine) -> None:
    """A caller asks for it in a transaction of its own: by a row, and by a message after the commit."""
    CallersEngine(engine, None).cancel(RUN_ID)
    store: Any = engine.store
    for do in store.after:
        do()


def hang(engine: Engine) -> None:
    """A task is hung on the signal."""
    chords.chord(engine.world, RUN_ID, Call("told"), StepSpec(chord=ChordSpec(("go",))))


def sweep(engine: Engine) -> None:
    engine.sweep()


def failure_of(exc: BaseException) -> failure.Failure:
    return failure.capture(exc)
