"""A sweeper looks when a timer is due that it saw coming, however long its interval is."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from celery import Celery

from celery_saga import CelerySaga
from celery_saga.core.records import RunRecord
from celery_saga.core.status import RunStatus
from celery_saga.runtime.assembly import sweeper_services
from celery_saga.runtime.sweeper import SweeperLoop
from celery_saga.testing.samples import a_run
from tests.workers import wait_until


def test_a_start_to_come_is_sent_at_its_time(tmp_path: Path) -> None:
    app = Celery("timed", broker="memory://", set_as_current=False)
    CelerySaga(app, database_url=f"sqlite:///{tmp_path}/saga.db", sweep_interval=60)
    CelerySaga.of(app).migrate()
    store = CelerySaga.of(app).store
    due_at = store.now() + timedelta(seconds=2)
    runs = [a_run(status=RunStatus.QUEUED, wake_at=due_at + n * timedelta(seconds=1)) for n in range(2)]
    for run in runs:
        store.insert_run(run)

    def stored(run: RunRecord) -> RunRecord:
        loaded = store.load(run.id)
        assert loaded is not None
        return loaded.snapshot.run

    loop = SweeperLoop(lambda: sweeper_services(app))
    loop.start()
    try:
        for run in runs:
            wait_until(lambda run=run: stored(run).sends == 1, 20, "its wake-up")  # type: ignore[misc]
    finally:
        loop.stop()
        CelerySaga.of(app).services.close()
    for run in runs:
        sent_at = stored(run).sent_at
        assert sent_at is not None and run.wake_at is not None and sent_at >= run.wake_at
