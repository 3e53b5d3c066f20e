"""Records to rows and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from enum import Enum
from operator import attrgetter
from typing import Any

from sqlalchemy import FromClause, literal
from sqlalchemy.sql.elements import ColumnElement

from celery_saga.core.focus import region_of
from celery_saga.core.records import Action, HistoryRecord, RunRecord, SignalRecord, StepKind, StepRecord
from celery_saga.core.status import RunStatus, StepStatus

Record = RunRecord | StepRecord | SignalRecord | HistoryRecord

RUN_FIELDS = tuple(f.name for f in fields(RunRecord))
STEP_FIELDS = tuple(f.name for f in fields(StepRecord))
SIGNAL_FIELDS = tuple(f.name for f in fields(SignalRecord))
HISTORY_FIELDS = tuple(f.name for f in fields(HistoryRecord))

_RUN_STATUS, _RUN_OUTCOME = RUN_FIELDS.index("status"), RUN_FIELDS.index("outcome")
_STEP_KIND, _STEP_STATUS = STEP_FIELDS.index("kind"), STEP_FIELDS.index("status")
_HISTORY_ACTION = HISTORY_FIELDS.index("action")


def columns(
    table: FromClause, names: Sequence[str], *, without: frozenset[str] = frozenset()
) -> list[ColumnElement[Any]]:
    """The columns of a record in the order of its fields; those left out are read as NULL."""
    return [_null(table.c[name]) if name in without else table.c[name] for name in names]


def _null(column: ColumnElement[Any]) -> ColumnElement[Any]:
    return literal(None, column.type).label(column.name)


def run_from(row: Sequence[Any]) -> RunRecord:
    """The run of a row of `RUN_FIELDS`."""
    values = list(row)
    values[_RUN_STATUS] = RunStatus(values[_RUN_STATUS])
    if values[_RUN_OUTCOME] is not None:
        values[_RUN_OUTCOME] = RunStatus(values[_RUN_OUTCOME])
    return RunRecord(*values)


def step_from(row: Sequence[Any]) -> StepRecord:
    """The step of a row of `STEP_FIELDS`."""
    values = list(row)
    values[_STEP_KIND] = StepKind(values[_STEP_KIND])
    values[_STEP_STATUS] = StepStatus(values[_STEP_STATUS])
    return StepRecord(*values)


def signal_from(row: Sequence[Any]) -> SignalRecord:
    """The signal of a row of `SIGNAL_FIELDS`."""
    return SignalRecord(*row)


def history_from(row: Sequence[Any]) -> HistoryRecord:
    """The history row of a row of `HISTORY_FIELDS`."""
    values = list(row)
    values[_HISTORY_ACTION] = Action(values[_HISTORY_ACTION])
    return HistoryRecord(*values)


step_values = attrgetter(*STEP_FIELDS)
history_values = attrgetter(*HISTORY_FIELDS)
"""The values of a record in the order of its fields, choices as they are."""


def plain(value: Any) -> Any:
    """What a driver takes: choices by their value."""
    return value.value if isinstance(value, Enum) else value


def placed(step: StepRecord, place: int) -> dict[str, Any]:
    """The row of a new step, with what only the store knows: its place, its region, and what a statement asks of it."""
    own = {"place": place, "region": region_of(step.key), "undoable": has_undo(step.spec_text)}
    return values_of(step, STEP_FIELDS) | own


def with_undoable(changes: dict[str, Any]) -> dict[str, Any]:
    """Changes of a step's row, with what follows from them."""
    return changes | {"undoable": has_undo(changes["spec_text"])} if "spec_text" in changes else changes


def has_undo(spec_text: str) -> bool:
    """Whether a step's options hold an undo; a stray "undo" in them errs on the safe side."""
    return '"undo":' in spec_text


def values_of(record: Record, names: Sequence[str]) -> dict[str, Any]:
    """The row of a record, by column."""
    return {name: plain(getattr(record, name)) for name in names}
