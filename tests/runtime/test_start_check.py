"""A worker checks its deployment once it is ready, and says in its log what is dangerous."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest

from tests.guard.world import closed_port
from tests.runtime.places import Place, place_with

pytestmark = pytest.mark.servers


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with place_with("redis", tmp_path) as found:
        yield found


def test_each_finding_is_logged_at_its_level_with_its_remedy(place: Place) -> None:
    place.settings |= {"task_protocol": 1, "worker_prefetch_multiplier": 4, "task_time_limit": 400}

    with place.worker(concurrency=1) as worker:
        error = worker.wait_for_line("TASK_PROTOCOL_1")
        warning = worker.wait_for_line("PREFETCH_BEHIND_LONG_STEPS")
        info = worker.wait_for_line("REVOKES_IN_MEMORY")

    assert ": ERROR/" in error and "Remove `task_protocol`" in error
    assert ": WARNING/" in warning and "reserves 4 messages for each slot" in warning
    assert ": INFO/" in info


def test_the_worker_is_asked_for_its_own_pool_queues_and_tables(place: Place) -> None:
    _drop_tables(place)

    with place.worker(pool="threads", concurrency=3, options=("-Q", "elsewhere")) as worker:
        assert ": ERROR/" in worker.wait_for_line("SCHEMA_ABSENT")
        assert "elsewhere" in worker.wait_for_line("SAGA_QUEUE_NOT_CONSUMED")
        assert "The threads pool" in worker.wait_for_line("POOL_IGNORES_TIME_LIMITS")


def test_a_worker_of_greenlets_on_rabbitmq_checks_itself_and_works(tmp_path: Path) -> None:
    with place_with("rabbitmq", tmp_path, driver="psycopg") as place, place.worker(pool="gevent") as worker:
        assert "The gevent pool" in worker.wait_for_line("POOL_IGNORES_TIME_LIMITS")
        assert place.shop.checkout.start("o1", 5).wait(20) == "ch-5"

        assert "GREEN_POOL_NOT_PATCHED" not in worker.text
        assert "UNREACHABLE" not in worker.text


def test_the_workers_own_connections_are_not_taken_for_ones_from_before_the_fork(place: Place) -> None:
    with place.worker() as worker:
        run = place.shop.checkout.start("o1", 5)
        assert run.wait(20) == "ch-5"
        worker.wait_for_line("REVOKES_IN_MEMORY")

        assert "ENGINE_BEFORE_FORK" not in worker.text


def test_a_worker_whose_database_is_down_is_ready_and_says_so(place: Place) -> None:
    with closed_port() as port:
        place.settings["saga_database_url"] = f"postgresql://nobody@127.0.0.1:{port}/none"
        with place.worker(options=("--no-saga-sweeper",)) as worker:
            line = worker.wait_for_line("DATABASE_UNREACHABLE")

    assert ": ERROR/" in line and "refused" in line


def test_a_worker_without_a_database_says_so(place: Place) -> None:
    place.settings.pop("saga_database_url")

    with place.worker() as worker:
        line = worker.wait_for_line("DATABASE_URL_ABSENT")

    assert ": ERROR/" in line and "saga_database_url" in line


def _drop_tables(place: Place) -> None:
    url = place.settings["saga_database_url"].replace("+psycopg2", "")
    connection = psycopg2.connect(url)
    with connection, connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    connection.close()
