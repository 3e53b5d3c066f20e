"""A claim as one statement: takes the step, and gives its run with all steps that are not folded.

Run and steps come as they were when the statement began, so they are of one version; only the step that was taken is
as the claim has left it. A run that has moved meanwhile shows that by its version when the step is checked in.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    Executable,
    ScalarSelect,
    Table,
    Update,
    and_,
    bindparam,
    case,
    func,
    null,
    or_,
    select,
    type_coerce,
    union_all,
    update,
)

from celery_saga.core.focus import Extent
from celery_saga.core.ports import Claimed
from celery_saga.core.records import StepRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepStatus
from celery_saga.store.clock import Clock
from celery_saga.store.dialects import Database
from celery_saga.store.reading import is_light
from celery_saga.store.rows import RUN_FIELDS, STEP_FIELDS, run_from, step_from
from celery_saga.store.schema import Schema
from celery_saga.store.types import Instant

__all__ = ["ClaimAtOnce"]

_PLACE, _STEP = 0, 1
_RUN = _STEP + len(STEP_FIELDS)
_NOW = _RUN + len(RUN_FIELDS)
_WAITING = _NOW + 1


class ClaimAtOnce:
    """The statement, and what its rows mean; built once."""

    def __init__(self, schema: Schema, clock: Clock, database: Database) -> None:
        self._clock = clock
        self.statement: Executable = _build(schema, clock, database)
        self.give_back: Executable = _give_back(schema.step, clock)
        """Bound as the claim is: as if it had not been, and due at once."""

    def binds(
        self,
        run_id: str,
        generation: int,
        key: str,
        *,
        token: str,
        owner: str,
        lease_s: float,
        known: Snapshot | None = None,
    ) -> dict[str, Any]:
        """What to execute it with.

        Args:
            known: the run as it was seen last; while it is still that, its other steps are not read.
        """
        of = {"of_run": run_id, "of_generation": generation, "of_key": key}
        seen: dict[str, Any] = {"seen_version": -1, "seen_at": None}
        if known is not None:
            seen = {"seen_version": known.run.state_version, "seen_at": known.run.updated_at}
        return of | {"new_token": token, "new_owner": owner} | seen | self._clock.binds(lease_s)

    @staticmethod
    def claimed(key: str, rows: Sequence[list[Any]], known: Snapshot | None = None) -> tuple[Claimed, bool]:
        """What was claimed, and whether there are signals to be read; `known` as of `binds`."""
        taken = next(row for row in rows if row[_NOW] is not None)
        run = run_from(taken[_RUN:_NOW])
        if known is not None and (known.run.state_version, known.run.updated_at) == (run.state_version, run.updated_at):
            mine = step_from(taken[_STEP:_RUN])
            snapshot = Snapshot(run, {**known.steps, key: mine}, extent=known.extent)
            return Claimed(mine, snapshot, taken[_NOW]), taken[_WAITING] > 0
        steps: dict[str, StepRecord] = {}
        for row in sorted(rows, key=itemgetter(_PLACE)):
            step = step_from(row[_STEP:_RUN])
            steps[step.key] = step
        snapshot = Snapshot(run, steps, extent=Extent.LIVE if run.folded else Extent.ALL)
        return Claimed(steps[key], snapshot, taken[_NOW]), taken[_WAITING] > 0


def _give_back(step: Table, clock: Clock) -> Update:
    mine = and_(
        step.c.run_id == bindparam("of_run"),
        step.c.generation == bindparam("of_generation"),
        step.c.key == bindparam("of_key"),
        step.c.claim_token == bindparam("new_token", type_=step.c.claim_token.type),
    )
    free = {"claim_token": null(), "owner": null(), "lease_until": null(), "started_at": null()}
    scheduled = {"status": StepStatus.SCHEDULED.value, "attempt": step.c.attempt - 1, "wake_at": clock.now}
    return update(step).where(mine, step.c.status == StepStatus.RUNNING.value).values(scheduled | free)


def _signals_not_taken(signal: Table) -> ScalarSelect[int]:
    of_run = signal.c.run_id == bindparam("of_run", type_=signal.c.run_id.type)
    return select(func.count()).select_from(signal).where(of_run, signal.c.taken_by.is_(None)).scalar_subquery()


def _build(schema: Schema, clock: Clock, database: Database) -> Executable:
    run, step, signal = schema.run, schema.step, schema.signal
    of_run = step.c.run_id == bindparam("of_run", type_=step.c.run_id.type)
    of_generation = step.c.generation == bindparam("of_generation", type_=step.c.generation.type)
    key: Any = bindparam("of_key", type_=step.c.key.type)
    seen: Any = bindparam("seen_version", type_=run.c.state_version.type)
    seen_at: Any = bindparam("seen_at", type_=run.c.updated_at.type)
    taken = (
        update(step)
        .where(of_run, of_generation, step.c.key == key)
        .where(step.c.status == StepStatus.SCHEDULED.value, step.c.sends > 0)
        .where(run.c.id == step.c.run_id, run.c.generation == step.c.generation, run.c.admission == "")
        .values(
            status=StepStatus.RUNNING.value,
            attempt=step.c.attempt + 1,
            claim_token=bindparam("new_token", type_=step.c.claim_token.type),
            owner=bindparam("new_owner", type_=step.c.owner.type),
            # In the columns' order: the clock may go on between the two, and the wake-up must not be the earlier.
            lease_until=clock.later,
            wake_at=clock.later,
            started_at=clock.now,
        )
        .returning(
            step.c.place,
            *(step.c[name].label(f"step_{name}") for name in STEP_FIELDS),
            *(run.c[name].label(f"run_{name}") for name in RUN_FIELDS),
            type_coerce(clock.now, Instant()).label("now"),
            case((is_light(step), database.async_commit()), else_=null()).label("async_commit"),
        )
        .cte("taken")
    )
    mine = [taken.c[f"step_{name}"] for name in STEP_FIELDS] + [taken.c[f"run_{name}"] for name in RUN_FIELDS]
    first = select(taken.c.place, *mine, taken.c.now, _signals_not_taken(signal).label("waiting"))
    # Of the run, and of the time, the rows of the other steps say nothing.
    others = select(
        step.c.place,
        *(step.c[name] for name in STEP_FIELDS),
        *(null().label(f"run_{name}") for name in RUN_FIELDS),
        null().label("now"),
        null().label("waiting"),
    ).where(
        and_(step.c.run_id == taken.c.step_run_id, step.c.generation == taken.c.step_generation),
        and_(step.c.key != key, step.c.folded.is_(False)),
        or_(taken.c.run_state_version != seen, taken.c.run_updated_at.is_distinct_from(seen_at)),
    )
    found = union_all(first, others).subquery("found")
    return select(*found.c)
