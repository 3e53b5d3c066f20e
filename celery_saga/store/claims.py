"""Claims, renewals and puttings-off: compare-and-set on one row, taking no other lock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Table, Update, and_, bindparam, or_, update
from sqlalchemy.sql.elements import ColumnElement

from celery_saga.core.admission import may_begin
from celery_saga.core.focus import Focus
from celery_saga.core.ports import Claimed
from celery_saga.core.records import RunRecord, StepRecord
from celery_saga.core.status import RunStatus, StepStatus
from celery_saga.store.clock import Clock
from celery_saga.store.reading import Reading
from celery_saga.store.schema import Schema
from celery_saga.store.session import Tx

WORKING = tuple(s.value for s in RunStatus if not s.is_end and s is not RunStatus.SUSPENDED)
"""Statuses of runs that are live and not parked."""


ENDED = tuple(s.value for s in RunStatus if s.is_end)
"""Statuses of runs that have ended."""


def may_be_woken(run: Table) -> ColumnElement[bool]:
    """It is live and not parked, or it is a child that has ended and may have to tell its parent."""
    return or_(run.c.status.in_(WORKING), and_(run.c.parent_id.is_not(None), run.c.status.in_(ENDED)))


_AT_A_TIME = 500


class Claims:
    """Statements that touch one step or one run without the run's lock."""

    def __init__(self, schema: Schema, clock: Clock, reading: Reading) -> None:
        self._clock = clock
        self._reading = reading
        self._vault = schema.vault
        step, run = schema.step, schema.run
        mine: ColumnElement[bool] = and_(
            step.c.run_id == bindparam("of_run"),
            step.c.generation == bindparam("of_generation"),
            step.c.key == bindparam("of_key"),
        )
        scheduled = step.c.status == StepStatus.SCHEDULED.value
        self._claim = (
            update(step)
            .where(mine, scheduled, step.c.sends > 0)
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
        )
        self._claim_with_run = reading.with_run_of_claim(self._claim)
        self._renew = (
            update(step)
            .where(
                mine,
                step.c.status == StepStatus.RUNNING.value,
                step.c.claim_token == bindparam("my_token", type_=step.c.claim_token.type),
            )
            .values(lease_until=clock.later, wake_at=clock.later)
        )
        self._put_off = (
            update(step)
            .where(
                mine,
                step.c.status.in_((StepStatus.SCHEDULED.value, StepStatus.WAITING.value)),
                step.c.attempt == bindparam("old_attempt"),
                step.c.sends == bindparam("old_sends"),
            )
            .values(wake_at=clock.later)
        )
        self._put_off_run = _put_off_run(run, clock)
        self._leave_unsent = _leave_unsent(step, clock)

    def leave_unsent(self, tx: Tx, run_id: str, generation: int, keys: Sequence[str]) -> None:
        """These steps were not sent after all: a sweeper sends them now, for the first time."""
        for first in range(0, len(keys), _AT_A_TIME):
            of = {"of_run": run_id, "of_generation": generation, "keys": list(keys[first : first + _AT_A_TIME])}
            tx.run("leave unsent", self._leave_unsent, of | self._clock.binds())

    def claim(
        self,
        tx: Tx,
        run_id: str,
        generation: int,
        key: str,
        *,
        token: str,
        owner: str,
        lease_s: float,
        focus: Focus | None = None,
    ) -> Claimed | None:
        """Take a step and read its run; a step of a generation that is over is not there to be taken."""
        params = _of(run_id, generation, key) | {"new_token": token, "new_owner": owner} | self._clock.binds(lease_s)
        run = self._run_claimed_with(tx, params)
        if run is None:
            landed = tx.run("claim step", self._claim, params).rowcount == 1
            # After a connection lost at the commit, the claim may be ours already: the token tells.
            if not landed and not tx.again:
                tx.discard()
                return None
            run = self._reading.run_of_claim(tx, run_id, generation, key)
        if run is None or run.generation != generation:
            tx.discard()
            return None
        read = self._reading.rest(tx, run, focus=focus)
        self._vault.check(f"run {run_id!r}, step {key!r}")
        step = read.snapshot.steps.get(key)
        if step is None or step.claim_token != token or step.status is not StepStatus.RUNNING:
            tx.discard()
            return None
        if not may_begin(run, step):
            tx.discard()
            return None
        return Claimed(step, read.snapshot, read.now)

    def _run_claimed_with(self, tx: Tx, params: dict[str, Any]) -> RunRecord | None:
        """Take the step and read its run in one statement; None: not so, or it needs a slot, or it cannot be done here.

        The run is as it was when the statement began. Whether it has its slots must be known as of after the claim.
        """
        if self._claim_with_run is None:
            return None
        return self._reading.run_in(tx.run("claim step", self._claim_with_run, params))

    def renew(self, tx: Tx, run_id: str, generation: int, key: str, *, token: str, lease_s: float) -> RunRecord | None:
        """Prolong a lease under its token."""
        params = _of(run_id, generation, key) | {"my_token": token}
        if tx.run("renew lease", self._renew, params | self._clock.binds(lease_s)).rowcount != 1:
            tx.discard()
            return None
        return self._reading.run_small(tx, run_id)

    def put_off(self, tx: Tx, step: StepRecord, *, delay_s: float) -> None:
        """Send a scheduled step later, unless it was claimed, sent or put off since it was read."""
        params = _of(step.run_id, step.generation, step.key)
        params |= {"old_attempt": step.attempt, "old_sends": step.sends}
        tx.run("put off step", self._put_off, params | self._clock.binds(delay_s))

    def put_off_run(self, tx: Tx, run: RunRecord, *, delay_s: float) -> None:
        """Wake a run later, unless it has ended, is parked, or moved or was sent since it was read."""
        params = {"of_run": run.id, "old_version": run.state_version, "old_sends": run.sends}
        tx.run("put off run", self._put_off_run, params | self._clock.binds(delay_s))


def _leave_unsent(step: Table, clock: Clock) -> Update:
    these = and_(
        step.c.run_id == bindparam("of_run"),
        step.c.generation == bindparam("of_generation"),
        step.c.key.in_(bindparam("keys", expanding=True)),
    )
    sent_once = and_(step.c.status == StepStatus.SCHEDULED.value, step.c.sends == 1)
    return update(step).where(these, sent_once).values(wake_at=clock.now, sends=0, sent_at=None)


def _put_off_run(run: Table, clock: Clock) -> Update:
    unmoved = and_(run.c.state_version == bindparam("old_version"), run.c.sends == bindparam("old_sends"))
    live = and_(run.c.id == bindparam("of_run"), may_be_woken(run), run.c.wake_at.is_not(None))
    return update(run).where(live, unmoved).values(wake_at=clock.later)


def _of(run_id: str, generation: int, key: str) -> dict[str, Any]:
    return {"of_run": run_id, "of_generation": generation, "of_key": key}
