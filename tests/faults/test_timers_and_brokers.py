"""What brokers do to tasks that wait there for their time: R numbers are those of the list of reports."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from celery import Celery

from celery_saga import CelerySaga, Run, saga
from celery_saga.core.lifecycle import Purpose
from celery_saga.runtime.assembly import relays_of
from tests.faults.many import fall_due, multiply
from tests.faults.sagas import patient, s3
from tests.faults.test_b02_visibility_timeout import IMPATIENT
from tests.faults.world import check, world_with
from tests.servers import fresh_rabbitmq_vhost, fresh_redis_place
from tests.workers import wait_until, workers


@pytest.mark.parametrize("sleep_s", [4, 11])
def test_a_timer_longer_than_the_visibility_timeout_fires_once_and_in_time(sleep_s: int, tmp_path: Path) -> None:
    """R038, R039: a task with an ETA was delivered again while the first worker still held it.

    The visibility time-out of 2 s is set for the workers alone, as where people raise it on one side only.
    """
    with fresh_redis_place() as place:
        plain = place.settings["broker_transport_options"]
        of_workers = {"broker_url": place.url, "broker_transport_options": {**plain, **IMPATIENT}}
        settings = {"broker_url": place.url, "broker_transport_options": plain}
        with world_with("redis", tmp_path, broker_settings=settings) as world:
            theirs = {"FAULTS_SETTINGS": json.dumps({**world.settings, **of_workers})}
            with workers(world.worker(more=theirs), world.worker(more=theirs)):
                runs = [patient.start(f"o{number}", sleep_s) for number in range(5)]
                timers = "SELECT count(*) FROM saga_step WHERE kind = 'timer' AND status = 'waiting'"
                world.wait_sql(timers, len(runs))
                wait_until(lambda: world.depth() == 0, what="no message waits with the timers")

                world.wait_ended(runs, sleep_s + 20)

                late = world.sql(
                    "SELECT max(extract(epoch FROM ended_at - due_at)) FROM saga_step WHERE kind = 'timer'"
                )
                assert float(late[0][0]) <= 2.0
                assert [len(world.effects(run, key="b")) for run in runs] == [1] * len(runs)
                check(world, runs)


def test_copies_of_a_message_that_waited_longer_than_the_visibility_timeout_are_one_attempt(tmp_path: Path) -> None:
    """R040, R041: at its time all processes executed a task; one that nobody had started was doubled each hour."""
    with fresh_redis_place() as place:
        options = {**place.settings["broker_transport_options"], **IMPATIENT, "visibility_timeout": 1}
        settings = {"broker_url": place.url, "broker_transport_options": options}
        with world_with("redis", tmp_path, broker_settings=settings, saga_queue="decisions") as world:
            with world.worker(options=("-Q", "decisions", "--no-saga-sweeper")):
                run = s3.start("o1")
                world.wait_sql("SELECT count(*) FROM saga_step WHERE status = 'scheduled'", 1)
            for _ in range(7):
                world.send_again(run, "a")
            world.wait_sql("SELECT now() > min(created_at) + interval '3 seconds' FROM saga_step", True)
            assert world.depth() == 8

            every = {"options": ("-Q", "celery,decisions"), "concurrency": 4}
            with workers(world.worker(**every), world.worker(**every)):
                assert world.wait_ended([run], 30) == {"completed": 1}
                wait_until(lambda: world.depth() == 0, what="the copies were delivered")
                assert [(each.key, each.attempt) for each in world.effects(run)] == [("a", 1), ("b", 1), ("c", 1)]
                check(world, [run])


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("count", [100, 20_000])
def test_sleeping_runs_are_rows_and_nothing_else(count: int, tmp_path: Path) -> None:
    """R042: tasks with an ETA are fetched without a limit, held in memory, and handed on when the worker dies."""
    with world_with("redis", tmp_path) as world, world.worker() as worker:
        asleep = "SELECT count(*) FROM saga_step WHERE kind = 'timer' AND status = 'waiting' AND wake_at > now()"
        first = min(50, count)
        for number in range(first):
            patient.start(f"o{number}", 3600.0)
        world.wait_sql(asleep, first, timeout_s=60)
        before = _resident_bytes(worker.pid)

        for number in range(first, count):
            patient.start(f"o{number}", 3600.0)
        world.wait_sql(asleep, count, timeout_s=3000)

        wait_until(lambda: world.depth() == 0, what="an empty broker")
        assert _resident_bytes(worker.pid) - before < 50 * 1024 * 1024


def test_a_worker_does_not_notice_twenty_thousand_runs_that_sleep(tmp_path: Path) -> None:
    """R042, at its size: one run is started, and its rows are there 20,000 times. Those whose time comes wake."""
    count, woken = 20_000, 20
    with world_with("redis", tmp_path, saga_sweep_interval=0.2) as world, world.worker() as worker:
        run = patient.start("o0", 3600.0)
        world.wait_sql("SELECT count(*) FROM saga_step WHERE kind = 'timer' AND status = 'waiting'", 1)
        before = _resident_bytes(worker.pid)

        multiply(world, run, count)
        fall_due(world, 0.0, *(f"o{number}" for number in range(1, woken + 1)))
        world.wait_sql("SELECT count(*) FROM saga_run WHERE status = 'completed'", woken, timeout_s=60)

        assert world.sql("SELECT count(*) FROM saga_run WHERE status = 'waiting'") == [(count + 1 - woken,)]
        wait_until(lambda: world.depth() == 0, what="an empty broker")
        assert _resident_bytes(worker.pid) - before < 50 * 1024 * 1024


def _resident_bytes(pid: int) -> int:
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    return sum(each.memory_info().rss for each in family)


def test_of_two_apps_in_one_process_each_uses_its_own_broker_backend_and_database(tmp_path: Path) -> None:
    """R037: in a thread, the app was not the one that one thought: here the other one is the thread's current app."""

    def body(run: Run, number: int) -> None:
        run.sleep(timedelta(hours=number))

    sagas = [saga(name="of_one_app")(body), saga(name="of_other_app")(body)]
    with fresh_redis_place() as place, fresh_rabbitmq_vhost() as vhost:
        kept = {"broker_url": vhost, "result_backend": f"db+sqlite:///{tmp_path}/results.db"}
        apps = [_app(tmp_path, of, settings) for of, settings in zip(sagas, (place.settings, kept), strict=True)]
        extensions: list[CelerySaga] = [app.saga for app in apps]  # type: ignore[attr-defined]
        try:
            together = threading.Barrier(8)

            def start_and_end(number: int) -> str:
                apps[1 - number % 2].set_current()
                together.wait(10)
                run = sagas[number % 2].start(number)
                together.wait(10)
                assert run.cancel()["cancelled"]
                return run.id

            with ThreadPoolExecutor(8) as pool:
                ids = list(pool.map(start_and_end, range(8)))
            for extension in extensions:
                for relay in relays_of(extension.services):
                    outbox = extension.services.store.outbox
                    wait_until(lambda x=relay, o=outbox: x.drain() >= 0 and not o.is_waiting(Purpose.RESULT))
                    relay.close()

            for number, extension in enumerate(extensions):
                assert {run.id for run in extension.runs()} == set(ids[number::2])
                states = [extension.app.AsyncResult(run_id).state for run_id in ids]
                assert states == [*("REVOKED", "PENDING"), *("PENDING", "REVOKED")][number * 2 :][:2] * 4
                assert _messages(extension.app) >= 4
        finally:
            for app, extension in zip(apps, extensions, strict=True):
                extension.services.close()
                app.close()
                if app.pool is not None:
                    app.pool.force_close_all()


def _messages(app: Celery) -> int:
    with app.connection_for_read() as connection, connection.channel() as channel:
        if connection.transport.driver_type == "redis":  # a passive declare knows no prefix of keys
            return int(channel._size("celery"))
        return int(channel.queue_declare("celery", passive=True).message_count)


def _app(folder: Path, of: Any, settings: Mapping[str, Any]) -> Celery:
    app = Celery(of.name, set_as_current=False)
    app.conf.update(settings)
    CelerySaga(app, database_url=f"sqlite:///{folder}/{of.name}.db", sagas=[of], publish_results=True).migrate()
    return app
