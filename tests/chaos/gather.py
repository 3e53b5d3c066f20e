"""Reads the evidence of a chaos out of the ledger and the sagas' database, whichever that is."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, create_engine, func, select, text
from sqlalchemy.pool import NullPool

from celery_saga.core import codec
from celery_saga.store.schema import Schema
from tests.chaos.evidence import Row, RunRow, StepRow
from tests.chaos.ledger import SELECT
from tests.faults.world import World
from tests.workers import Worker, is_alarm

MEANT = (
    ": compensation_failed",
    "BROKER_UNREACHABLE",
    "DATABASE_UNREACHABLE",
    "SCHEMA_NOT_ASKED",
)
"""What the plug-in says at ERROR because people should know it: undos that are used up, servers that are away."""


class Tables:
    """The sagas' tables, on a connection for each question."""

    def __init__(self, url: str) -> None:
        self._engine = create_engine(url, poolclass=NullPool)
        self._schema = Schema()

    def live(self) -> int:
        """How many runs have not ended."""
        run = self._schema.run.c
        with self._engine.connect() as connection:
            counted = select(func.count()).where(run.ended_at.is_(None), run.parent_id.is_(None))
            return int(connection.execute(counted).scalar_one())

    def execute(self, statement: str) -> None:
        """One statement, committed."""
        with self._engine.begin() as connection:
            connection.execute(text(statement))

    def evidence(self) -> dict[str, Any]:
        """Runs, steps, rows of transactional steps, and successes in the history."""
        with self._engine.connect() as connection:
            history = self._schema.history.c
            oks = select(history.run_id, history.step, func.count()).where(history.action == "ok")
            oks = oks.group_by(history.run_id, history.generation, history.step, history.kind).having(func.count() > 1)
            return {
                "runs": tuple(self._runs(connection)),
                "steps": tuple(self._steps(connection)),
                "oks": tuple(tuple(row) for row in connection.execute(oks)),
                "books": tuple(
                    tuple(row)
                    for row in connection.execute(
                        text("SELECT run, name, what, count(*) FROM chaos_books GROUP BY run, name, what")
                    )
                ),
            }

    def _runs(self, connection: Connection) -> Iterable[RunRow]:
        for row in connection.execute(select(self._schema.run).order_by(self._schema.run.c.created_at)):
            done = row.status == "completed" and row.result_text is not None
            yield RunRow(
                *(row.id, row.key, row.status, row.reason, _message(row.error_text), row.parent_id),
                created_at=row.created_at.timestamp(),
                ended_at=_seconds(row.ended_at),
                leased=row.lease_until is not None or row.claim_token is not None,
                result=codec.decode(row.result_text) if done else None,
            )

    def _steps(self, connection: Connection) -> Iterable[StepRow]:
        for row in connection.execute(select(self._schema.step)):
            yield StepRow(
                *(row.run_id, row.key, row.kind, row.status, row.attempt, row.failures, row.stalls, row.maybe, row.seq),
                ended_at=_seconds(row.ended_at),
                leased=row.lease_until is not None,
                has_undo=row.undoable,
            )


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _message(error_text: str | None) -> str | None:
    return None if error_text is None else str(json.loads(error_text).get("message"))


def rows(world: World) -> tuple[Row, ...]:
    """The whole ledger, oldest first."""
    return tuple(Row(*row) for row in world.ledger(SELECT))


def bad_lines(workers: Iterable[Worker]) -> tuple[str, ...]:
    """What workers logged as ERROR or worse, and nobody meant, each once."""
    found = {
        line
        for worker in workers
        for line in worker.text.splitlines()
        if is_alarm(line) and not any(word in line for word in MEANT)
    }
    return tuple(sorted(found))
