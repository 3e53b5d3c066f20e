"""A RabbitMQ with an alarm: it takes connections and holds every publisher back without an answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from tests.faults.asking import libpq
from tests.faults.crowd import WITH_PHASES, Crowd
from tests.faults.phases import plain
from tests.faults.world import World, check, world_with
from tests.servers import PrivateRabbit
from tests.workers import wait_until

STARTS_EACH = 5
PUBLISH_TIMEOUT_S = 1.0
A_LITTLE_S = 1.5  # the processes share two cores
_FROM_CROWD = "FROM saga_run WHERE starts_with(key, 'crowd')"
_OPEN = """SELECT pid, state, now() - state_change, query FROM pg_stat_activity WHERE datname = current_database()
           AND (starts_with(state, 'idle in transaction') AND clock_timestamp() - state_change > interval '1 s'
                OR wait_event_type = 'Lock' AND clock_timestamp() - query_start > interval '1 s')"""


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("clients", "before"), [(6, 12), (20, 40)], ids=["6 clients", "20 clients"])
def test_b06_while_a_broker_holds_publishers_back_nothing_waits_with_a_transaction_open(
    private_rabbit: PrivateRabbit, tmp_path: Path, clients: int, before: int
) -> None:
    broker = {"broker_url": private_rabbit.url}
    settings: dict[str, Any] = {"broker_settings": broker, "saga_publish_timeout": PUBLISH_TIMEOUT_S}

    with (
        world_with("rabbitmq", tmp_path, **settings) as world,
        Crowd(world, clients, "start", f"{STARTS_EACH}") as crowd,
    ):
        runs = [plain.start(f"before{n}") for n in range(before)]
        private_rabbit.ctl("set_vm_memory_high_watermark", "0.00000001")
        wait_until(lambda: "memory" in _alarms(private_rabbit), what="the alarm")
        # The runs' own messages came before the alarm; those of the steps that they order are held back.
        with world.worker(modules=WITH_PHASES), _watched(world) as seen:
            world.wait_sql("SELECT count(*) FROM saga_step WHERE status = 'scheduled'", before, timeout_s=60)
            crowd.go()
            wait_until(lambda: _of_crowd(world) >= clients, what="a run of each client")
            crowd.kill(crowd.pids()[: clients // 2])  # in the middle of their first message, or just behind it
            crowd.wait(40)
            took_s = [line["took_s"] for line in crowd.told]
            assert "memory" in _alarms(private_rabbit)

            private_rabbit.ctl("set_vm_memory_high_watermark", "0.6")
            runs += [plain.get(run_id) for (run_id,) in world.sql(f"SELECT id {_FROM_CROWD}")]
            statuses = world.wait_ended(runs, 60)

            assert seen.samples > 20
            assert seen.found == []
            assert len(took_s) >= clients // 2 * STARTS_EACH
            assert max(took_s) < PUBLISH_TIMEOUT_S + A_LITTLE_S
            assert statuses == {"completed": len(runs)}
            assert len(runs) >= before + clients // 2 * (STARTS_EACH + 1)
            check(world, runs)


def _alarms(rabbit: PrivateRabbit) -> str:
    return rabbit.ctl("eval", "rabbit_alarm:get_alarms().")


def _of_crowd(world: World) -> int:
    ((count,),) = world.sql(f"SELECT count(*) {_FROM_CROWD}")
    return int(count)


class _Watch:
    """Looks for transactions that stay open, every 50 ms."""

    def __init__(self, url: str) -> None:
        self.found: list[tuple[object, ...]] = []
        self.samples = 0
        self._url = url
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(20)

    def _look(self) -> None:
        with closing(psycopg2.connect(self._url)) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                while not self._over.wait(0.05):
                    cursor.execute(_OPEN)
                    self.found += cursor.fetchall()
                    self.samples += 1


@contextmanager
def _watched(world: World) -> Iterator[_Watch]:
    watch = _Watch(libpq(world.settings["saga_database_url"]))
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()
