"""Whom task events of runs cost something, and whom not: brokers that refuse, that are away, that nobody listens to."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from kombu import Connection, Exchange

from celery_saga import CelerySaga, Run, saga
from celery_saga.client import binding
from celery_saga.core.lifecycle import Purpose
from celery_saga.runtime.assembly import relays_of, reminder_of
from celery_saga.runtime.settings import read, sends_sent_events
from tests.announcing.house import House, house_with
from tests.servers import fresh_rabbitmq_vhost


@saga(name="flower-client")
def started_by_a_client(run: Run) -> None:
    """Nothing to do."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/sagas.db"


def task_relays(house: House) -> list[Any]:
    return [each for each in relays_of(house.saga.services) if each._purpose is Purpose.TASK]


def told(house: House) -> list[str]:
    return [each.event for each in house.saga.store.outbox.next(Purpose.TASK, limit=100)]


@pytest.mark.parametrize(
    ("settings", "shows", "sends_sent"),
    [
        ({}, False, False),
        ({"task_send_sent_event": True}, False, True),
        ({"worker_send_task_events": True}, True, True),
        ({"worker_send_task_events": True, "task_send_sent_event": True, "saga_send_events": False}, False, False),
        ({"saga_send_events": "yes"}, True, True),
        ({"worker_send_task_events": True, "task_always_eager": True}, False, False),
    ],
)
def test_the_settings_of_celery_say_it_unless_ours_does(
    settings: dict[str, Any], shows: bool, sends_sent: bool
) -> None:
    app = Celery("flower-settings", set_as_current=False)
    app.conf.update(settings)

    assert read(app).send_events is shows
    assert sends_sent_events(app, read(app)) is sends_sent


def test_switched_off_nothing_is_written_and_nobody_sweeps_for_it(url: str) -> None:
    with house_with(url, saga_send_events=False) as house:
        statements: list[str] = []
        house.saga.store.trace = statements.append
        house.order.start("none")

        assert house.saga.store.outbox.wanted is None
        assert not [each for each in statements if "outbox" in each]
        assert (relays_of(house.saga.services), reminder_of(house.saga.services)) == ([], None)


def test_each_new_status_is_a_row_and_each_run_is_told_once_in_a_batch(url: str) -> None:
    with house_with(url, saga_send_events=True, broker_url="memory://") as house:
        house.order.start("none")

        assert told(house) == ["queued", "running", "compensating", "failed"]


@pytest.fixture
def nobody() -> Iterator[str]:
    """The URL of a broker where nothing listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"redis://127.0.0.1:{bound.getsockname()[1]}/0"


def test_while_the_broker_is_away_runs_go_on_and_what_is_to_be_told_stays(url: str, nobody: str) -> None:
    with house_with(url, saga_send_events=True, broker_url=nobody) as house:
        house.saga.services.worker_name = "w@h"
        run = house.order.start("o1")
        (relay,) = task_relays(house)

        assert relay.drain() == 0
        relay.close()
        assert run.status == "completed"
        assert told(house)[-1] == "completed"


def test_without_a_worker_to_name_nothing_is_told_and_nothing_lost(url: str, nobody: str) -> None:
    with house_with(url, saga_send_events=True, broker_url=nobody) as house:
        house.order.start("o1")
        (relay,) = task_relays(house)

        assert relay.drain() == 0
        assert "no worker" in relay._deliverer.trouble
        relay.close()
        assert told(house)


@pytest.mark.servers
def test_where_nobody_listens_no_queue_is_left_with_events(url: str) -> None:
    with fresh_rabbitmq_vhost() as vhost, house_with(url, saga_send_events=True, broker_url=vhost) as house:
        house.saga.services.worker_name = "w@h"
        for number in range(20):
            house.order.start(f"o{number}")
        (relay,) = task_relays(house)
        sent = relay.drain()
        relay.close()
        listed = subprocess.run(
            ["rabbitmqctl", "--quiet", "list_queues", "-p", vhost.rpartition("/")[2], "name", "messages"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )

        assert sent == 60
        assert told(house) == []
        assert [line for line in listed.stdout.splitlines() if line and not line.startswith("name")] == []


@pytest.mark.servers
def test_an_exchange_that_refuses_events_neither_fails_nor_holds_up_who_starts(url: str) -> None:
    with fresh_rabbitmq_vhost() as vhost:
        with Connection(vhost) as connection:
            Exchange("celeryev", type="headers", durable=True)(connection.channel()).declare()
        app = Celery("flower-refused", broker=vhost, set_as_current=False)
        app.conf.update(saga_database_url=url, saga_send_events=True, task_default_queue="shop")
        sagas = CelerySaga(app)
        sagas.migrate()
        before = binding.set_resolver(lambda _: sagas)
        try:
            begun_s = time.monotonic()
            for _ in range(3):
                started_by_a_client.start()
            took_s = time.monotonic() - begun_s
            with Connection(vhost) as connection:
                waiting = connection.channel().queue_declare("shop", passive=True).message_count
        finally:
            binding.set_resolver(before)
            sagas.services.close()
            app.close()

    assert waiting == 3
    assert took_s < 5.0
