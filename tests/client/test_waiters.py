"""Waiting for runs: one thread for all, a notification where there is one, and asking wherever there is none."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, text, update

from celery_saga import RunHandle, RunNotFound, WaitTimeout
from celery_saga.core.records import Action
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunEvent
from celery_saga.definition.registry import Registry
from celery_saga.engine.engine import Engine
from celery_saga.store import SqlStore, migrate, open_store
from celery_saga.store.ear import Place, ring_statement
from celery_saga.store.rows import RUN_FIELDS, values_of
from celery_saga.store.waiters import Waiters
from celery_saga.testing.samples import a_run
from tests.servers import PrivatePostgres
from tests.workers import wait_until


class Nowhere:
    """A publisher without a broker."""

    def publish(self, messages: Any) -> int:
        return len(messages)

    def depth(self, message: Any, *, sent_s: float | None = None) -> int:
        return 0


def engine_on(store: SqlStore) -> Engine:
    return Engine(store, Nowhere(), Registry((), max_payload_bytes=1 << 20))


def complete(s: Snapshot, now: datetime) -> Snapshot:
    return s.move_run(RunEvent.COMPLETED, ended_at=now, result_text='"done"', wake_at=None).note(
        now, Action.END, "run", detail="completed"
    )


def note(s: Snapshot, now: datetime) -> Snapshot:
    return s.note(now, Action.OK, "step", step="x")


def waiting_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "saga-waiters"]


@pytest.fixture(
    params=[
        "sqlite",
        "postgresql",
        pytest.param("psycopg", marks=pytest.mark.heavy),
        pytest.param("mariadb", marks=pytest.mark.heavy),
    ]
)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/sagas.db"
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def store(url: str) -> Iterator[SqlStore]:
    made = open_store(url)
    migrate(made)
    yield made
    made.close()
    wait_until(lambda: not waiting_threads(), what="the end of the thread")


@pytest.fixture
def other(url: str, store: SqlStore) -> Iterator[SqlStore]:
    """Another process's store, as far as waiting is concerned."""
    made = open_store(url)
    yield made
    made.close()


def handle_on(store: SqlStore) -> RunHandle[str]:
    run = a_run()
    store.insert_run(run)
    return RunHandle(engine_on(store), run.id, created=False)


def later(delay_s: float, do: Callable[[], object]) -> threading.Timer:
    timer = threading.Timer(delay_s, do)
    timer.start()
    return timer


def test_who_waits_sees_the_end_that_another_process_commits(store: SqlStore, other: SqlStore) -> None:
    run = handle_on(store)
    timer = later(0.2, lambda: engine_on(other).world.change(run.id, complete))

    assert run.wait(10) == "done"
    timer.join()


def test_who_waits_in_vain_is_told_when_the_time_is_over(store: SqlStore) -> None:
    run = handle_on(store)

    begun_s = time.monotonic()
    with pytest.raises(WaitTimeout, match=r"within 0\.2 s: it is running"):
        run.wait(0.2)
    with pytest.raises(WaitTimeout, match=r"within 0\.1 s"):
        asyncio.run(run.wait_async(0.1))
    with pytest.raises(WaitTimeout):
        run.wait(0)
    assert time.monotonic() - begun_s < 2.0


def test_a_run_that_is_not_there_is_told_to_both_kinds_of_waiters(store: SqlStore) -> None:
    nobody: RunHandle[str] = RunHandle(engine_on(store), a_run().id, created=False)

    with pytest.raises(RunNotFound):
        nobody.wait(5)
    with pytest.raises(RunNotFound):
        asyncio.run(nobody.wait_async(5))


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_a_thousand_wait_in_one_loop_with_few_threads(store: SqlStore, other: SqlStore) -> None:
    records = [a_run() for _ in range(1000)]
    run = store.schema.run
    with other.sessions.engine.begin() as connection:
        connection.execute(insert(run), [values_of(record, RUN_FIELDS) for record in records])
    engine = engine_on(store)
    most = 0

    def end_all() -> None:
        with other.sessions.engine.begin() as connection:
            connection.execute(update(run).values(status="completed", result_text='"done"'))

    async def all_of_them() -> list[str]:
        nonlocal most
        handles: list[RunHandle[str]] = [RunHandle(engine, record.id, created=False) for record in records]
        tasks = [asyncio.create_task(handle.wait_async(60)) for handle in handles]
        while len(store.waiters._watches) < len(tasks):
            await asyncio.sleep(0.01)
        await asyncio.to_thread(end_all)
        while not all(task.done() for task in tasks):
            most = max(most, threading.active_count())
            await asyncio.sleep(0.01)
        return [task.result() for task in tasks]

    before = threading.active_count()
    assert asyncio.run(all_of_them()) == ["done"] * 1000
    assert 0 < most - before <= 1 + min(32, (os.cpu_count() or 1) + 4)  # one for all who wait, and the loop's own


def test_events_come_once_and_in_order_while_they_are_written(store: SqlStore, other: SqlStore) -> None:
    run = handle_on(store)
    engine = engine_on(other)

    def write() -> None:
        for _ in range(30):
            engine.world.change(run.id, note)
        engine.world.change(run.id, complete)

    writer = threading.Thread(target=write)
    writer.start()
    early = [row.seq for row in run.events()]
    writer.join()

    async def follow(after: int) -> list[int]:
        return [row.seq async for row in run.events_async(after)]

    assert early == list(range(1, 32))
    assert asyncio.run(follow(0)) == early
    assert asyncio.run(follow(29)) == [30, 31]


def test_events_of_many_runs_are_followed_in_one_loop_while_they_are_written(store: SqlStore, other: SqlStore) -> None:
    runs = [handle_on(store) for _ in range(50)]

    async def seqs(run: RunHandle[str]) -> list[int]:
        return [row.seq async for row in run.events_async()]

    async def all_of_them() -> list[list[int]]:
        tasks = [asyncio.create_task(seqs(run)) for run in runs]
        engine = engine_on(other)

        def write() -> None:
            for change in (note, note, complete):
                for run in runs:
                    engine.world.change(run.id, change)

        await asyncio.to_thread(write)
        return await asyncio.gather(*tasks)

    assert asyncio.run(all_of_them()) == [[1, 2, 3]] * 50


def test_nobody_waits_any_more_so_nothing_is_left(store: SqlStore) -> None:
    run = handle_on(store)
    with pytest.raises(WaitTimeout):
        run.wait(0.1)

    async def cancelled() -> None:
        task = asyncio.create_task(run.wait_async(60))
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(cancelled())
    assert store.waiters._watches == {}
    store.close()
    assert waiting_threads() == []


def _wait_in_child(store: SqlStore, run_id: str, answer: Any) -> None:
    run: RunHandle[str] = RunHandle(engine_on(store), run_id, created=False)
    answer.send(run.wait(20))
    store.close()


def test_a_forked_child_waits_with_a_thread_of_its_own(store: SqlStore, other: SqlStore) -> None:
    run = handle_on(store)
    with pytest.raises(WaitTimeout):
        run.wait(0.3)
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_wait_in_child, args=(store, run.id, theirs))
    child.start()
    timer = later(0.5, lambda: engine_on(other).world.change(run.id, complete))

    assert run.wait(20) == "done"
    assert ours.poll(20) and ours.recv() == "done"
    child.join(10)
    timer.join()
    assert child.exitcode == 0


# -- PostgreSQL tells -------------------------------------------------------------------------------------------------
@pytest.fixture(params=["postgresql", "psycopg"])
def telling(request: pytest.FixtureRequest) -> Iterator[SqlStore]:
    made = open_store(request.getfixturevalue(f"{request.param}_url"))
    migrate(made)
    yield made
    made.close()


def is_live(waiters: Waiters) -> bool:
    return waiters._ear is not None and waiters._ear.is_live


def listeners(store: SqlStore) -> int:
    found = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
        "AND query LIKE '%advisory_lock_shared%'"
    )
    with store.sessions.engine.connect() as connection:
        return int(connection.execute(text(found)).scalar_one())


def test_an_end_is_heard_long_before_it_would_be_asked_for(telling: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    from celery_saga.store import waiters

    monkeypatch.setattr(waiters, "_HEARD_FIRST_S", 30.0)
    monkeypatch.setattr(waiters, "_HEARD_LONGEST_S", 30.0)
    other = open_store(telling.sessions.engine.url.render_as_string(hide_password=False))
    runs = [handle_on(telling) for _ in range(5)]
    with pytest.raises(WaitTimeout):
        runs[0].wait(0.5)
    threads = [threading.Thread(target=run.wait, args=(25,)) for run in runs]
    for thread in threads:
        thread.start()
    wait_until(lambda: is_live(telling.waiters), what="listening")
    assert listeners(telling) == 1  # one for all who wait

    begun_s = time.monotonic()
    for run in runs:
        engine_on(other).world.change(run.id, complete)
    for thread in threads:
        thread.join(25)
    assert time.monotonic() - begun_s < 5.0
    other.close()


def test_the_connection_is_closed_once_nobody_waits(telling: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    from celery_saga.store import waiters

    monkeypatch.setattr(waiters, "_LINGER_S", 0.2)
    run = handle_on(telling)
    with pytest.raises(WaitTimeout):
        run.wait(0.5)

    wait_until(lambda: not waiting_threads() and listeners(telling) == 0, what="the end")


def test_nobody_is_notified_where_nobody_listens(telling: SqlStore) -> None:
    """NOTIFY takes a lock of the whole database: it is for those who wait, and costs others one statement."""
    ring = ring_statement(Place(""))

    def told() -> bool:
        with telling.sessions.engine.connect() as connection:
            return connection.execute(ring, {"run_id": "x"}).scalar_one() is not None

    before = told()
    run = handle_on(telling)
    thread = threading.Thread(target=lambda: run.wait(20))
    thread.start()
    wait_until(lambda: is_live(telling.waiters), what="listening")
    during = told()
    engine_on(telling).world.change(run.id, complete)
    thread.join()

    assert (before, during) == (False, True)


def test_where_notifications_do_not_come_through_runs_are_asked_for(
    telling: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind PgBouncer in transaction mode: LISTEN is accepted, and nothing ever comes."""
    from celery_saga.store import ear

    monkeypatch.setattr(ear, "_TEST_S", 0.3)
    monkeypatch.setattr(ear.Ear, "take", lambda self: [])
    run = handle_on(telling)
    timer = later(1.0, lambda: engine_on(telling).world.change(run.id, complete))
    started_s = time.monotonic()

    assert run.wait(10) == "done"
    assert time.monotonic() - started_s < 3.0
    wait_until(lambda: telling.waiters._ear is None, what="giving up")
    assert listeners(telling) == 0
    timer.join()


@pytest.mark.heavy
def test_a_restart_of_the_database_is_survived_and_listened_through_again() -> None:
    with PrivatePostgres() as server:
        store = open_store(server.url, patience_s=30.0)
        migrate(store)
        run, next_run = handle_on(store), handle_on(store)
        got: list[str] = []
        thread = threading.Thread(target=lambda: got.append(run.wait(60)))
        thread.start()
        wait_until(lambda: is_live(store.waiters), what="listening")
        server.kill()
        server.start()
        engine_on(store).world.change(run.id, complete)
        thread.join(60)
        assert got == ["done"]
        timer = later(2.0, lambda: engine_on(store).world.change(next_run.id, complete))
        threading.Thread(target=lambda: got.append(next_run.wait(60))).start()
        wait_until(lambda: is_live(store.waiters), what="listening again")
        wait_until(lambda: got == ["done", "done"], what="the second end")
        timer.join()
        store.close()
    gc.collect()
