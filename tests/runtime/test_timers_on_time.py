"""A sweeper looks when a timer is due that it saw coming, however long its interval is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from sqlalchemy import Engine, event

from celery_saga import CelerySaga
from celery_saga.core.records import RunRecord
from celery_saga.core.status import RunStatus
from celery_saga.engine import sweeper as ticks
from celery_saga.runtime import sweeper
from celery_saga.runtime.assembly import sweeper_services
from celery_saga.store import SqlStore
from celery_saga.testing.samples import a_run
from tests.workers import wait_until

SOON_S = 20
"""Much less than an interval."""


class Watched:
    """An app whose one sweeper looks once a minute."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self.store: SqlStore = CelerySaga.of(app).store

    def insert(self, in_s: float) -> RunRecord:
        """A run that nobody has woken yet."""
        run = a_run(status=RunStatus.QUEUED, wake_at=self.store.now() + timedelta(seconds=in_s))
        self.store.insert_run(run)
        return run

    def stored(self, run: RunRecord) -> RunRecord:
        loaded = self.store.load(run.id)
        assert loaded is not None
        return loaded.snapshot.run

    def await_woken(self, *runs: RunRecord) -> None:
        for run in runs:
            wait_until(lambda run=run: self.stored(run).sends == 1, SOON_S, "its wake-up")  # type: ignore[misc]

    @contextmanager
    def swept(self) -> Iterator[None]:
        loop = sweeper.SweeperLoop(lambda: sweeper_services(self._app))
        loop.start()
        try:
            yield
        finally:
            loop.stop()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    app = Celery("timed", broker="memory://", set_as_current=False)
    app.conf.task_default_queue = "timed"
    CelerySaga(app, database_url=f"sqlite:///{tmp_path}/saga.db", sweep_interval=60)
    CelerySaga.of(app).migrate()
    yield Watched(app)
    CelerySaga.of(app).services.close()


def test_a_start_to_come_is_sent_at_its_time(watched: Watched) -> None:
    runs = [watched.insert(2 + n) for n in range(2)]

    with watched.swept():
        watched.await_woken(*runs)

    for run in runs:
        sent_at = watched.stored(run).sent_at
        assert sent_at is not None and run.wake_at is not None and sent_at >= run.wake_at


def test_what_comes_due_between_the_sweep_and_the_look_ahead_is_not_slept_past(watched: Watched) -> None:
    looks: list[str] = []
    late: list[RunRecord] = []

    def come(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("SELECT EXISTS") and not late:
            looks.append(statement)
            if len(looks) == 2:  # after the first it looks again soon
                late.append(watched.insert(0))

    event.listen(Engine, "after_cursor_execute", come)
    try:
        with watched.swept():
            wait_until(lambda: late, SOON_S, "the sweep")
            watched.await_woken(late[0])
    finally:
        event.remove(Engine, "after_cursor_execute", come)


def test_more_than_one_turn_can_do_is_done_in_the_next_at_once(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticks, "_BATCH", 2)
    monkeypatch.setattr(sweeper, "_DRAIN_TICKS", 2)
    runs = [watched.insert(-1) for _ in range(9)]

    with watched.swept():
        watched.await_woken(*runs)


def test_a_sweeper_that_looks_seldom_still_tells_that_it_lives(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeper, "_BEAT_S", 0.1)
    monkeypatch.setattr(sweeper, "_SELDOM_BEAT_S", 0.2)

    with watched.swept():
        wait_until(watched.store.sweepers, SOON_S, "its first beat")
        (first,) = watched.store.sweepers()
        wait_until(lambda: watched.store.sweepers()[0]["seen_at"] > first["seen_at"], SOON_S, "another beat")


def test_what_failed_is_tried_again_soon_however_long_the_interval_is(tmp_path: Path) -> None:
    app = Celery("timed-late", broker="memory://", set_as_current=False)
    app.conf.task_default_queue = "timed-late"
    CelerySaga(app, database_url=f"sqlite:///{tmp_path}/saga.db", sweep_interval=60)
    watched = Watched(app)
    asked: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "saga_lane" in statement:
            asked.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        with watched.swept():
            wait_until(lambda: len(asked) >= 3, SOON_S, "its third try, without tables")
            CelerySaga.of(app).migrate()
            watched.await_woken(watched.insert(-1))
    finally:
        event.remove(Engine, "before_cursor_execute", note)
        CelerySaga.of(app).services.close()
