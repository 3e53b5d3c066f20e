"""What must hold of rollbacks, shields and the pivot, whatever is under way."""

from __future__ import annotations

from collections.abc import Iterable

from celery_saga.core.focus import is_inside
from celery_saga.core.orders import StepSpec
from celery_saga.core.records import StepKind, StepRecord
from celery_saga.core.shield import held
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunStatus, StepStatus
from tests.model.state import Broken, Tables, is_undo

_AT_WORK = (StepStatus.SCHEDULED, StepStatus.RUNNING)


def check_end(old: Snapshot, new: Snapshot) -> None:
    """The forward part ends by nobody's hand inside a shield, nor other than well after the pivot.

    Raises:
        Broken: it did.
    """
    if old.run.outcome is not None or new.run.outcome is None:
        return
    if old.run.pivoted and new.run.outcome is not RunStatus.COMPLETED:
        raise Broken(f"the run is to end as {new.run.outcome} although it has passed its pivot")
    if held(new.steps):
        raise Broken(f"the run is to end as {new.run.outcome} although it holds a shield")


def check_sections(now: Tables) -> None:
    """A rollback undoes what is quiet, and is over once all is undone; then only the body goes on.

    Raises:
        Broken: not so.
    """
    rows = {x.key: x for x in now.steps}
    for row in now.steps:
        if row.kind is StepKind.ROLLBACK:
            inside = [x for x in now.steps if x.kind is not StepKind.ROLLBACK and is_inside(x.key, row.undo_of or "")]
            if row.status is StepStatus.DONE:
                _check_through(row, inside, rows)
            elif row.status is StepStatus.WAITING:
                _check_open(row, inside, rows)


def rolled_with(steps: Iterable[StepRecord], step: StepRecord) -> str | None:
    """Prefix of the innermost rollback that this step lies in; None: of none."""
    around = [x.undo_of or "" for x in steps if x.kind is StepKind.ROLLBACK and is_inside(step.key, x.undo_of or "")]
    return max(around, key=len, default=None)


def _check_through(row: StepRecord, inside: list[StepRecord], rows: dict[str, StepRecord]) -> None:
    for step in inside:
        if step.status is StepStatus.RUNNING:
            raise Broken(f"{row.key} is done while an attempt of {step.key} runs")
        undo = rows.get(step.key + "!undo")
        if not is_undo(step) and _counts(step) and (undo is None or not undo.status.is_end):
            raise Broken(f"{row.key} is done although {step.key} is not undone")


def _check_open(row: StepRecord, inside: list[StepRecord], rows: dict[str, StepRecord]) -> None:
    known = [x for x in inside if is_undo(x) and rows[x.undo_of or ""].status is StepStatus.DONE]
    at_work = [x for x in known if x.status in _AT_WORK]
    running = [x for x in inside if x.status is StepStatus.RUNNING and not is_undo(x)]
    if at_work and running:
        raise Broken(f"{at_work[0].key} may start while an attempt of {running[0].key} runs")
    entered = rows[row.undo_of or ""]
    if entered.kind is not StepKind.MARK:
        return  # a part that has lost: its race goes on as soon as it is won
    onwards = [x.key for x in rows.values() if x.scope == entered.scope and x.ordinal > entered.ordinal]
    if onwards:
        raise Broken(f"the body went on to {onwards[0]} before scope {entered.key} was undone")


def _counts(step: StepRecord) -> bool:
    has_undo = StepSpec.from_text(step.spec_text).undo is not None
    return has_undo and (step.status is StepStatus.DONE or (step.status.is_end and step.maybe))
