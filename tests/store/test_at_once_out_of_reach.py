"""What is one statement, on PostgreSQL, told as anything else is where the database cannot be reached."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from celery_saga.core.ports import Arrival
from celery_saga.core.snapshot import Snapshot
from celery_saga.errors import StoreUnavailable
from celery_saga.store import SqlStore, migrate, open_store
from celery_saga.testing.samples import a_run, a_step, new_id
from tests.servers import PrivatePostgres
from tests.servers.fresh import with_driver

NOW = datetime.now(UTC)
RUN = a_run()
BASIS = Snapshot(RUN, {"charge": a_step(RUN.id)})
WAYS: dict[str, Callable[[SqlStore], Any]] = {
    "claim": lambda store: store.claim(RUN.id, 1, "charge", token="t", owner="o", lease_s=9),
    "load": lambda store: store.load(RUN.id),
    "transact": lambda store: store.transact(RUN.id, _with_reason, basis=BASIS, at=NOW),
    "start": lambda store: store.start_run("checkout", _a_start, eta=None, look_s=30.0),
}


def _with_reason(s: Snapshot, now: datetime) -> Snapshot:
    return s.with_run(reason="x")


def _a_start(arrival: Arrival) -> Any:
    return a_run(id=new_id(), created_at=arrival.now, updated_at=arrival.now, wake_at=arrival.now)


@pytest.mark.parametrize("driver", ["psycopg2", "psycopg"])
def test_a_server_that_is_gone_before_a_connection_is_made(driver: str, private_postgres: PrivatePostgres) -> None:
    store = open_store(with_driver(private_postgres.url, driver), patience_s=0.0)
    migrate(store)
    for way in WAYS.values():  # their statements are made ready
        way(store)
    store.sessions.engine.dispose()
    private_postgres.kill()

    for way in WAYS.values():
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            way(store)
    store.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_pool_that_has_no_connection_left(url: str, way: str) -> None:
    store = open_store(url, engine_options={"pool_size": 1, "max_overflow": 0, "pool_timeout": 0.05})
    store.load(RUN.id)

    with store.sessions.engine.connect(), pytest.raises(StoreUnavailable, match="no connection"):
        WAYS[way](store)
    store.close()
