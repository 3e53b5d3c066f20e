"""Joins: a set of parts and one end, which fires when enough of them are in; a counter on its row, never a scan.

Theory of operation. The join's row waits; each part is a step of its own (`map[3]`), a function of the body (a row of
kind `part`, decided by itself in the scope `map[3]/`), another run, or of a race a wait for a signal, which is in with
what it takes: were that two transactions, another arm could win in between, and the signal would be gone. What ends
reports to what waits for it: a part to its join, a join and any other step to the part it lies in, or to the run.
`abort` ends the join with the first part that fails, `race` with the first that succeeds; the others are then
abandoned: what has not started is cancelled, what runs is recorded when it ends, and its undo is kept, or in a race
executed at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from celery_saga.core import codec
from celery_saga.core.focus import Extent
from celery_saga.core.orders import StepSpec
from celery_saga.core.owners import wake_owner
from celery_saga.core.parking import release
from celery_saga.core.records import StepKind, StepRecord
from celery_saga.core.replacing import replace
from celery_saga.core.rollback import begin_rollback
from celery_saga.core.shield import recounted
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.stack import need_stacks
from celery_saga.core.status import StepEvent, StepStatus
from celery_saga.core.undo import is_undo_pending

_NOT_STARTED = (StepStatus.HELD, StepStatus.SCHEDULED, StepStatus.WAITING)


def ended(s: Snapshot, key: str, now: datetime, resend_s: float) -> Snapshot:
    """A step has ended, or its undo has: who waits for it learns that."""
    step = s.steps[key]
    if step.kind is StepKind.CHORD:
        return s  # nobody waits for it
    if step.kind is StepKind.UNDO and step.undo_of is not None:
        undone = s.step(step.undo_of)
        if undone is not None and undone.status is StepStatus.DONE:
            return s  # of a rollback, which wakes who waits for it when all is undone
        step = step if undone is None else undone
    if step.join_key is None or step.kind is StepKind.UNDO:
        return wake_owner(s, step.key, now, resend_s)
    if not step.status.is_end or is_undo_pending(s, step):
        return s
    return _part_in(s, step, now, resend_s)


def _part_in(s: Snapshot, part: StepRecord, now: datetime, resend_s: float) -> Snapshot:
    join = s.step(part.join_key or "")
    if join is None or join.status is not StepStatus.WAITING:
        return s
    how = StepSpec.from_text(join.spec_text).on_failure
    join = replace(join, join_left=join.join_left - 1)
    s = s.with_step(join)
    succeeded = part.status is StepStatus.DONE
    if succeeded and how == "race":
        return _fire(s, join, now, resend_s)
    if not succeeded and (how == "abort" or (how == "race" and join.join_left == 0)):
        return _fail(s, join, part, now, resend_s)
    if join.join_left == 0:
        return _fire(s, join, now, resend_s)
    return _release_next(s, join, now, resend_s)


def _fire(s: Snapshot, join: StepRecord, now: datetime, resend_s: float) -> Snapshot:
    s = s.move_step(join.key, StepEvent.FIRED, wake_at=None, due_at=None, ended_at=now)
    # Where the last arm wins, nothing is left to cancel, but those that failed before it have lost too.
    is_race = StepSpec.from_text(join.spec_text).on_failure == "race"
    s = _abandon(s, join, now) if join.join_left or is_race else s
    return wake_owner(s, join.key, now, resend_s)


def _fail(s: Snapshot, join: StepRecord, part: StepRecord, now: datetime, resend_s: float) -> Snapshot:
    s = s.move_step(join.key, StepEvent.FAILED, error_text=part.error_text, wake_at=None, due_at=None, ended_at=now)
    s = _abandon(s, join, now) if join.join_left else s
    return wake_owner(s, join.key, now, resend_s)


def _abandon(s: Snapshot, join: StepRecord, now: datetime) -> Snapshot:
    """The other parts are not waited for any more; a race undoes them."""
    s.need(Extent.LIVE)
    inside = join.key + "["
    # A rollback in there goes on: its scope was left, whatever becomes of the part around it.
    s = cancel(s, (x for x in s.steps.values() if x.key.startswith(inside) and x.kind is not StepKind.ROLLBACK))
    s = recounted(s)
    if StepSpec.from_text(join.spec_text).on_failure != "race":
        return s
    won = winner(s, join)
    lost = [x.key for x in s.steps.values() if x.join_key == join.key and (won is None or x.key != won.key)]
    need_stacks(s, lost)
    for part in lost:
        s = begin_rollback(s, part, now)
    return s


def winner(s: Snapshot, join: StepRecord) -> StepRecord | None:
    """The part of a race that came in first; None: none has."""
    done = [x for x in s.steps.values() if x.join_key == join.key and x.status is StepStatus.DONE]
    return min(done, key=lambda x: x.seq or 0, default=None)


def cancel(s: Snapshot, steps: Iterable[StepRecord]) -> Snapshot:
    """Cancel what of these has not started, and parts that are only being decided; in one go, they may be many."""
    moved: dict[str, StepRecord] = {}
    seq = s.run.step_seq
    for step in steps:
        is_pass = step.kind is StepKind.PART and step.status is StepStatus.RUNNING
        if step.kind is StepKind.UNDO or not (step.status in _NOT_STARTED or is_pass):
            continue
        if step.kind is StepKind.CHILD and step.status is StepStatus.WAITING:
            continue  # it is told, and waited for
        if step.kind is StepKind.CHORD and step.status is not StepStatus.WAITING:
            continue  # its signals have all come: it is executed all the same
        seq += 1
        moved[step.key] = replace(
            step, status=StepStatus.CANCELLED, wake_at=None, due_at=None, claim_token=None, lease_until=None, seq=seq
        )
    return s.with_run(step_seq=seq).with_steps(moved) if moved else s


def _release_next(s: Snapshot, join: StepRecord, now: datetime, resend_s: float) -> Snapshot:
    """The next held part may start, where the number in flight is bounded."""
    number = join.join_next
    while number < join.join_total:
        part = s.step(part_key(join, number))
        number += 1
        if part is not None and part.status is StepStatus.HELD:
            s = s.with_step(replace(join, join_next=number))
            return release(s, part, now, resend_s)
    return s if number == join.join_next else s.with_step(replace(join, join_next=number))


def part_key(join: StepRecord, number: int) -> str:
    """Key of a part, by its number from 0."""
    names = names_of(join)
    return f"{join.key}[{names[number] if names else number}]"


def names_of(join: StepRecord) -> list[str] | None:
    """Names of a join's parts in order, where their keys hold them; None: they are numbered."""
    return None if join.task == "map" else list(codec.decode(join.args_text)[0]) or None


def fold(s: Snapshot, key: str, result_text: str) -> Snapshot:
    """A join that is over gets its result, and passes need not see what ended inside it any more.

    What still runs, waits, or has an undo that is not through stays in sight.

    Raises:
        Incomplete: the snapshot holds too few steps to tell what ended inside it.
    """
    if key not in s.steps:
        s.need(Extent.LIVE)
    s = s.with_step(replace(s.steps[key], result_text=result_text))
    inside = key + "["
    folded = {
        x.key: replace(x, folded=True)
        for x in s.steps.values()
        if x.key.startswith(inside) and x.status.is_end and not x.folded and not _is_used_up(x)
    }
    return s.with_steps(folded).with_run(folded=True) if folded else s


def _is_used_up(step: StepRecord) -> bool:
    return step.kind is StepKind.UNDO and step.status in (StepStatus.FAILED, StepStatus.LOST)
