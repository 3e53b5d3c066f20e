"""What must hold of every transition, of every state, and of the outside world."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from celery_saga.core.attention import FAILING_AFTER
from celery_saga.core.focus import is_inside
from celery_saga.core.headers import completing
from celery_saga.core.orders import StepSpec
from celery_saga.core.records import StepKind, StepRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RUN_TABLE, STEP_TABLE, RunEvent, RunStatus, StepEvent, StepStatus
from tests.model.section_rules import check_end, check_sections, rolled_with
from tests.model.state import LIVE, Broken, Outside, State, Tables, is_undo

_BY_HAND = {StepEvent.REOPENED, StepEvent.REWAITED, StepEvent.RESOLVED, StepEvent.SKIPPED}
_RUN_BY_HAND = {RunEvent.RESUMED, RunEvent.UNDO_REOPENED, RunEvent.RESTARTED}
_GIVEN_UP = (StepStatus.FAILED, StepStatus.LOST)


# -- transitions ---------------------------------------------------------------------------------------------------
def check_transition(old: Snapshot, new: Snapshot, *, by_hand: bool) -> None:
    """Both machines kept to their tables, rows were only moved forward, the history has no gap."""
    numbers = [old.run.history_seq, *(x.seq for x in new.history)]
    if any(b != a + 1 for a, b in pairwise(numbers)) or new.run.history_seq != numbers[-1]:
        raise Broken(f"the history has a gap: {numbers} up to {new.run.history_seq}")
    by_hand = by_hand or old.run.restart  # what an operator began goes on by itself
    _check_run(old, new, by_hand=by_hand)
    if not by_hand:
        check_end(old, new)
    same = new.run.generation == old.run.generation
    for key, step in new.steps.items():
        before = old.steps.get(key)
        if before is None:
            if is_undo(step):
                _check_undo(new, step)
        elif before.born == step.born:
            _check_step(before, step, by_hand=by_hand or not same)
    if same and (gone := old.steps.keys() - new.steps.keys()):
        raise Broken(f"steps vanished: {sorted(gone)}")


def _check_run(old: Snapshot, new: Snapshot, *, by_hand: bool) -> None:
    edges = {(a, b) for (a, event), b in RUN_TABLE.items() if by_hand or event not in _RUN_BY_HAND}
    if not _leads(old.run.status, new.run.status, edges):
        raise Broken(f"the run went from {old.run.status} to {new.run.status}")


def _check_step(old: StepRecord, new: StepRecord, *, by_hand: bool) -> None:
    edges = {(a, b) for (a, event), b in STEP_TABLE.items() if by_hand or event not in _BY_HAND}
    if not _leads(old.status, new.status, edges):
        raise Broken(f"step {new.key} went from {old.status} to {new.status}")
    if not by_hand and (new.attempt, new.failures, new.stalls) < (old.attempt, 0, 0):
        raise Broken(f"step {new.key} was written over: attempt {old.attempt} became {new.attempt}")
    if old.status is StepStatus.RUNNING is new.status and old.claim_token != new.claim_token:
        raise Broken(f"the claim of step {new.key} was taken away while it ran")


def _leads(a: object, b: object, edges: set[tuple[object, object]]) -> bool:
    """From a to b along at most three edges: one transaction may take several events."""
    reached = {a}
    for _ in range(3):
        reached |= {y for x, y in edges if x in reached}
    return b in reached


def _check_undo(s: Snapshot, undo: StepRecord) -> None:
    """An undo is ordered only after those of all steps that ended later."""
    step = s.steps[undo.undo_of or ""]
    if step.status is not StepStatus.DONE:
        return  # an unknown outcome: at once
    prefix = rolled_with(s.steps.values(), step)
    for other in s.steps.values():
        if prefix is not None and not is_inside(other.key, prefix):
            continue
        if is_undo(other) or other is step or (other.seq or 0) < (step.seq or 0) or not needs_reversal(other):
            continue
        reversal = s.steps.get(other.key + "!undo")
        if reversal is None or not reversal.status.is_end:
            raise Broken(f"the undo of {step.key} was ordered before that of {other.key}, which ended later")


def has_undo(step: StepRecord) -> bool:
    return StepSpec.from_text(step.spec_text).undo is not None


def needs_reversal(step: StepRecord) -> bool:
    """It succeeded or may have."""
    return has_undo(step) and (step.status is StepStatus.DONE or (step.status.is_end and step.maybe))


# -- states --------------------------------------------------------------------------------------------------------
def check_tables(now: Tables) -> None:
    """What the rows must look like at any time, whatever is under way."""
    run = now.run
    check_sections(now)
    _check_desk(now)
    if run.status.is_end:
        live = [f"{x.key} {x.status}" for x in now.steps if x.status in LIVE]
        if live:
            raise Broken(f"the run has ended as {run.status} while there is {', '.join(live)}")
        if unheard := [x.key for x in now.steps if x.status is StepStatus.CANCELLED and _is_complete_chord(x)]:
            raise Broken(
                f"the run has ended as {run.status}; the signals of {unheard[0]} had come, and nobody was told"
            )
        return
    idle = (StepStatus.HELD, StepStatus.SCHEDULED, StepStatus.WAITING)
    others = (StepKind.ROLLBACK, StepKind.CHORD)
    forward_kinds = [x for x in now.steps if not is_undo(x) and (x.kind not in others or _is_listening(x))]
    if run.outcome is not None and (late := [x.key for x in forward_kinds if x.status in idle]):
        raise Broken(f"the forward part has ended, but {', '.join(late)} may still start")
    busy = (StepStatus.SCHEDULED, StepStatus.RUNNING)
    at_work = [x for x in now.steps if is_undo(x) and x.status in busy and not is_undone_early(now.steps, x)]
    forward = [x for x in forward_kinds if x.status is StepStatus.RUNNING]
    if at_work and forward:
        raise Broken(f"{at_work[0].key} may start while an attempt of {forward[0].key} runs")
    if run.status is not RunStatus.SUSPENDED and not _will_wake(now):
        raise Broken("the run is stuck: nothing live has a wake-up and no signal is waited for")


def _check_desk(now: Tables) -> None:
    """Who needs a person is on the desk, and nobody else but a run that goes forward and was only looked at in part."""
    run = now.run
    tried = any(is_undo(x) and x.status in LIVE and x.failures + x.stalls >= FAILING_AFTER for x in now.steps)
    needs = run.status in (RunStatus.SUSPENDED, RunStatus.COMPENSATION_FAILED) or (tried and not run.status.is_end)
    if needs and run.attention_at is None:
        raise Broken(f"the run is {run.status} ({run.reason}), and nobody is told that it needs a person")
    if not needs and run.attention_at is not None and not run.status.is_forward:
        raise Broken(f"the run is {run.status}, and on the desk although it needs nobody")


def _will_wake(now: Tables) -> bool:
    if now.run.wake_at is not None or any(x.wake_at is not None for x in now.signals if x.taken_by is None):
        return True
    if any(x.wake_at is not None for x in now.steps if x.status in LIVE):
        return True
    waits = [x for x in now.steps if x.kind is StepKind.SIGNAL and x.status is StepStatus.WAITING]
    return now.run.status is RunStatus.WAITING and bool(waits) and not any(completing(x, now.signals) for x in waits)


def _is_listening(step: StepRecord) -> bool:
    return step.kind is StepKind.CHORD and step.status is StepStatus.WAITING


def _is_complete_chord(step: StepRecord) -> bool:
    chord = StepSpec.from_text(step.spec_text).chord
    return chord is not None and chord.is_complete


def check_outside(state: State) -> None:
    """What an ended run leaves behind in the world."""
    run, outside = state.tables.run, state.outside
    for attempt in state.attempts:
        if run.status.is_end and not attempt.is_zombie and not attempt.answers:
            raise Broken(f"the run has ended as {run.status} while an attempt of {attempt.step} lives")
    by_hand = _left_to_people(state.tables)
    left = [x for x in outside.effects if x not in outside.undone and f"{x}!undo" not in by_hand]
    if run.status in (RunStatus.FAILED, RunStatus.CANCELLED) and left and not run.skip_undos:
        raise Broken(f"the run has ended as {run.status}; {', '.join(left)} had its effect and was not undone")
    lost = [x.idempotency_key for x in state.tables.steps if has_lost(state.tables.steps, x.key)]
    if run.status is RunStatus.COMPLETED and (forgotten := [x for x in left if x in lost]):
        raise Broken(f"the run has completed; {', '.join(forgotten)} lost a race and was not undone")
    if run.status is RunStatus.COMPLETED and not run.skip_undos:
        done = [x for x in state.tables.steps if x.kind is StepKind.STEP and x.status is StepStatus.DONE]
        undone = {x.undo_of for x in now_undone(state.tables)}
        kept = sorted(x.idempotency_key for x in done if has_undo(x) and x.key not in undone)
        # What an aborted join has left behind stays on the stack, its outcome unknown or not.
        unknown = [x.idempotency_key for x in state.tables.steps if x.status is StepStatus.CANCELLED and x.maybe]
        if sorted(x for x in left if x not in unknown) != kept:
            raise Broken(f"the run has completed with {kept} done, but {left} is what is left of its effects")
        missing = [x.idempotency_key for x in done if not has_undo(x) and x.idempotency_key not in outside.bare]
        if missing:
            raise Broken(f"the run has completed, but {missing} had no effect")


# -- the outside world ---------------------------------------------------------------------------------------------
def act(outside: Outside, step: StepRecord, now: Tables) -> Outside:
    """The world after an attempt of `step` has had its effect.

    An undo that is used up is given up: the remaining ones follow all the same, and the run ends as such.

    Raises:
        Broken: an undo came before a later one, or under a second key.
    """
    key = step.idempotency_key
    if is_undo(step):
        return _reverse(outside, key, _left_to_people(now), is_early=is_undone_early(now.steps, step))
    if key in (*outside.effects, *outside.bare, *outside.undone):
        return outside
    if has_undo(step):
        return Outside((*outside.effects, key), outside.bare, outside.undone, outside.undo_keys, outside.checkpoints)
    return Outside(outside.effects, (*outside.bare, key), outside.undone, outside.undo_keys, outside.checkpoints)


def _left_to_people(now: Tables) -> set[str]:
    """Keys of the undos that are used up, or were closed by hand without an attempt."""
    undos = [x for x in now.steps if is_undo(x)]
    return {x.idempotency_key for x in undos if x.status in _GIVEN_UP or (x.status.is_end and not x.attempt)}


def _in_one_join(a: str, b: str) -> bool:
    """They may have had their effects in any order: what counts is the order of their checkpoints."""
    return "[" in a and a.partition("[")[0] == b.partition("[")[0]


def now_undone(now: Tables) -> list[StepRecord]:
    return [x for x in now.steps if is_undo(x) and x.status is StepStatus.DONE]


def is_rolled_back(steps: Iterable[StepRecord], key: str) -> bool:
    """The step lies in a part that lost a race, or in a scope that was left."""
    rolled = [x.undo_of or "" for x in steps if x.kind is StepKind.ROLLBACK]
    return any(is_inside(key, prefix) for prefix in rolled)


def has_lost(steps: Sequence[StepRecord], key: str) -> bool:
    """The step lies in a part of a race that another part has won."""
    for join in steps:
        if join.kind is StepKind.JOIN and '"race"' in join.spec_text and join.status is StepStatus.DONE:
            done = [x for x in steps if x.join_key == join.key and x.status is StepStatus.DONE]
            winner = min(done, key=lambda x: x.seq or 0)
            if key.startswith(join.key + "[") and not is_inside(key, winner.key):
                return True
    return False


def is_undone_early(steps: Iterable[StepRecord], undo: StepRecord) -> bool:
    """It was ordered while the run went forward: for an unknown outcome, or in a rollback."""
    rows = {x.key: x for x in steps}
    undone = rows.get(undo.undo_of or "")
    is_unknown = undone is not None and undone.status is not StepStatus.DONE
    return is_unknown or is_rolled_back(rows.values(), undo.undo_of or "")


def _reverse(outside: Outside, undo_key: str, left_out: set[str], *, is_early: bool) -> Outside:
    key = undo_key.removesuffix("!undo")
    if undo_key in outside.undo_keys:
        return outside
    if key in outside.undone:
        raise Broken(f"{key} is undone twice, under {undo_key} as well")
    if key in outside.effects and not is_early:
        later = outside.effects[outside.effects.index(key) + 1 :]
        alone = [x for x in later if not _in_one_join(x, key)]
        if left := [x for x in alone if x not in outside.undone and f"{x}!undo" not in left_out]:
            raise Broken(f"{key} is undone before {left[-1]}, which came later")
    return Outside(
        outside.effects, outside.bare, (*outside.undone, key), (*outside.undo_keys, undo_key), outside.checkpoints
    )


def checked_in(outside: Outside, keys: tuple[str, ...]) -> Outside:
    """The world after these steps were checkpointed.

    Raises:
        Broken: one of them had been before.
    """
    for key in keys:
        if key in outside.checkpoints:
            raise Broken(f"{key} is checkpointed a second time")
    done = tuple(sorted((*outside.checkpoints, *keys)))
    return Outside(outside.effects, outside.bare, outside.undone, outside.undo_keys, done)
