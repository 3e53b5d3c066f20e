"""A run with its steps as one statement: what a decision is taken on, of one instant and in one round trip.

The run comes in the row without a step; the rows of steps say nothing of the run, which may have a long input.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any

from sqlalchemy import Executable, and_, bindparam, func, null, or_, select, type_coerce, union_all

from celery_saga.core.focus import Extent
from celery_saga.core.records import StepRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.store.clock import Clock
from celery_saga.store.rows import RUN_FIELDS, STEP_FIELDS, run_from, step_from
from celery_saga.store.schema import Schema
from celery_saga.store.slots import Slots
from celery_saga.store.types import Instant

__all__ = ["LoadAtOnce"]

_STEP = 1
_RUN = _STEP + len(STEP_FIELDS)
_NOW = _RUN + len(RUN_FIELDS)
_WAITING, _HELD_BACK = _NOW + 1, _NOW + 2


class LoadAtOnce:
    """The statement, and what its rows mean; built once."""

    def __init__(self, schema: Schema, clock: Clock, slots: Slots) -> None:
        self._clock = clock
        self.statement: Executable = _build(schema, clock, slots)

    def binds(self, run_id: str) -> dict[str, Any]:
        """What to execute it with."""
        return {"of_run": run_id} | self._clock.binds()

    @staticmethod
    def loaded(rows: Sequence[list[Any]]) -> tuple[Snapshot, datetime, bool, bool]:
        """The run with its steps that are not folded, and when; whether there are signals; whether it is held back."""
        head = next(row for row in rows if row[_NOW] is not None)
        run = run_from(head[_RUN:_NOW])
        steps: dict[str, StepRecord] = {}
        for row in sorted((row for row in rows if row is not head), key=itemgetter(0, _STEP + 2)):
            step = step_from(row[_STEP:_RUN])
            steps[step.key] = step
        snapshot = Snapshot(run, steps, extent=Extent.LIVE if run.folded else Extent.ALL)
        return snapshot, head[_NOW], head[_WAITING] > 0, bool(head[_HELD_BACK]) and not run.admission


def _build(schema: Schema, clock: Clock, slots: Slots) -> Executable:
    run, step, signal = schema.run, schema.step, schema.signal
    of_run: Any = bindparam("of_run", type_=run.c.id.type)
    untaken = select(func.count()).select_from(signal).where(signal.c.run_id == of_run, signal.c.taken_by.is_(None))
    head = select(
        null().label("place"),
        *(null().label(f"step_{name}") for name in STEP_FIELDS),
        *(run.c[name].label(f"run_{name}") for name in RUN_FIELDS),
        type_coerce(clock.now, Instant()).label("now"),
        untaken.scalar_subquery().label("waiting"),
        slots.is_held_back(run.c.saga, run.c.parent_id).label("held_back"),
    ).where(run.c.id == of_run)
    steps = (
        select(
            step.c.place,
            *(step.c[name] for name in STEP_FIELDS),
            *(null() for _ in RUN_FIELDS),
            *(null(), null(), null()),
        )
        .select_from(run.join(step, and_(step.c.run_id == run.c.id, step.c.generation == run.c.generation)))
        .where(run.c.id == of_run, or_(run.c.folded.is_(False), step.c.folded.is_(False)))
    )
    found = union_all(head, steps).subquery("found")
    return select(*found.c)
