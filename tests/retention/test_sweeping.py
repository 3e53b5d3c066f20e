"""`saga_retention`: what is too old goes by itself, in one process of the fleet, and never before what is due."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from celery_saga import CelerySaga, DefinitionError
from celery_saga.core.status import RunStatus
from celery_saga.engine.purging import Tidier
from celery_saga.runtime.assembly import sweeper_services
from celery_saga.runtime.sweeper import SweeperLoop
from celery_saga.store import SqlStore
from celery_saga.testing.samples import LONG_AGO, a_run


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Celery]:
    made = Celery("kept", broker="memory://", set_as_current=False)
    CelerySaga(made, database_url=f"sqlite:///{tmp_path}/saga.db", retention=60, sweep_interval=0.02)
    CelerySaga.of(made).migrate()
    yield made
    CelerySaga.of(made).services.close()


@pytest.fixture
def store(app: Celery) -> SqlStore:
    return CelerySaga.of(app).store


def put(store: SqlStore, **fields: Any) -> str:
    old = {"status": RunStatus.COMPLETED, "ended_at": LONG_AGO}
    return store.insert_run(a_run(**{**old, **fields}))[0].id


def swept(app: Celery, until: threading.Event, trace: Any) -> None:
    """A sweeper's loop until the event is set."""
    services = sweeper_services(app)
    services.store.trace = trace
    loop = SweeperLoop(lambda: services)
    loop.start()
    try:
        assert until.wait(20)
    finally:
        loop.stop()


def test_a_sweeper_purges_what_is_older_than_the_setting(app: Celery, store: SqlStore) -> None:
    gone, kept = put(store), put(store, key="k")
    recent = put(store, ended_at=store.now() - timedelta(seconds=30))
    done = threading.Event()

    swept(app, done, lambda label: done.set() if label == "after:commit purge" else None)

    assert store.load(gone) is None and store.load(recent) is not None
    emptied = store.load(kept)
    assert emptied is not None and emptied.snapshot.run.purged_at is not None


def test_only_one_process_of_a_fleet_purges(app: Celery, store: SqlStore) -> None:
    run = put(store)
    store.beat("!first:1", host="first", pid=1, sagas=[], ttl_s=15)  # its name comes before every other one
    asked = threading.Event()

    swept(app, asked, lambda label: asked.set() if label == "after:load sweepers" else None)

    assert store.load(run) is not None


def test_each_turn_takes_a_small_part_and_then_it_rests(store: SqlStore) -> None:
    for _ in range(250):
        put(store)
    tidier = Tidier(store, 60)

    taken = [tidier.tidy(float(second)) for second in range(4) if tidier.is_due(float(second))]

    assert taken == [100, 100, 50]
    assert not tidier.is_due(50.0) and tidier.is_due(61.0)
    tidier.put_off(61.0)
    assert not tidier.is_due(100.0)


@pytest.mark.parametrize("retention", [0, -1, "long"])
def test_a_retention_that_is_none_is_refused(retention: Any) -> None:
    with pytest.raises(DefinitionError, match="saga_retention"):
        CelerySaga(Celery("x", set_as_current=False), retention=retention)
