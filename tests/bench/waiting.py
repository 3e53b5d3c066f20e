"""What it costs that ends are told to those who wait: `python -m tests.bench.waiting`, on PostgreSQL alone.

Ends of runs a second by four processes, where nobody listens, where one does, and with the NOTIFY inside the run's
transaction, as a comparison. How soon a waiter has a result is a measure of `python -m tests.bench`.
"""

from __future__ import annotations

import multiprocessing
import statistics
import threading
import time
from datetime import datetime
from typing import Any

from sqlalchemy import text

from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunEvent
from celery_saga.store import SqlStore, migrate, open_store
from celery_saga.store.ear import Place
from celery_saga.testing.samples import a_run
from tests.servers import fresh_postgresql_database

PROCESSES, ROUNDS = 4, 150


def complete(s: Snapshot, now: datetime) -> Snapshot:
    """The end of a run, and nothing else."""
    return s.move_run(RunEvent.COMPLETED, ended_at=now, wake_at=None)


def end_runs(url: str, way: str, ids: list[str], ready: Any) -> None:
    """One process that ends runs."""
    store = open_store(url)
    place = Place("")
    ready.wait()
    for run_id in ids:
        if way == "inside":
            notify_inside(store, place, run_id)
        else:
            store.transact(run_id, complete)
            if way != "without":
                store.waiters.ring(run_id)
    store.close()


def notify_inside(store: SqlStore, place: Place, run_id: str) -> None:
    """As it would be with the NOTIFY in the transaction of the transition."""

    def work(tx: Any) -> None:
        store._transitions.transact(tx, run_id, complete)
        tx.run("notify", text("SELECT pg_notify(:channel, :run)"), {"channel": place.channel, "run": run_id})

    store.sessions.write("transact", work)


def throughput(way: str) -> float:
    """Ends of runs a second: without, silent (nobody listens), heard, inside."""
    with fresh_postgresql_database() as url:
        store = open_store(url)
        migrate(store)
        ids = [[store.insert_run(a_run())[0].id for _ in range(ROUNDS)] for _ in range(PROCESSES)]
        heard = (
            store.waiters.watch(store.insert_run(a_run())[0].id, lambda: None) if way in {"heard", "inside"} else None
        )
        while heard is not None and not (store.waiters._ear and store.waiters._ear.is_live):
            threading.Event().wait(0.05)
        context = multiprocessing.get_context("spawn")
        ready = context.Barrier(PROCESSES + 1)
        team = [context.Process(target=end_runs, args=(url, way, each, ready)) for each in ids]
        for each in team:
            each.start()
        ready.wait()
        begun_s = time.perf_counter()
        for each in team:
            each.join()
        took_s = time.perf_counter() - begun_s
        if heard is not None:
            heard.close()
        store.close()
    return PROCESSES * ROUNDS / took_s


def main() -> None:
    """Print the rates, and what they are of the first."""
    found: dict[str, list[float]] = {}
    for _ in range(3):
        for way in ("without", "silent", "heard", "inside"):
            found.setdefault(way, []).append(throughput(way))
    base = statistics.median(found["without"])
    for way, several in found.items():
        print(f"ends of runs, {way}: {statistics.median(several):.0f}/s, {statistics.median(several) / base:.2f}")


if __name__ == "__main__":
    main()
