"""Events on real brokers: in order, with what they say, at least once, and waiting while nobody takes them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection, Exchange, Queue

from celery_saga.core.lifecycle import Announcement, Purpose
from celery_saga.runtime.announcer import Announcer, routing_key
from tests.announcing.house import House, house_with
from tests.servers import PrivateRabbit, PrivateRedis, fresh_rabbitmq_vhost, fresh_redis_place
from tests.workers import wait_until

pytestmark = pytest.mark.servers


class Listener:
    """A service that has bound a queue of its own to the exchange."""

    def __init__(self, house: House, pattern: str = "saga.#") -> None:
        options = house.app.conf.broker_transport_options
        self._connection = Connection(house.app.conf.broker_url, transport_options=options)
        exchange = Exchange("saga.events", type="topic", durable=True)
        self._queue = Queue("listener", exchange, routing_key=pattern, durable=True)(self._connection.channel())
        self._queue.declare()

    def take(self, count: int) -> list[Any]:
        """So many messages, as they come; then there is none left."""
        found: list[Any] = []
        end_s = time.monotonic() + 10.0
        while len(found) < count and time.monotonic() < end_s:
            message = self._queue.get()
            if message is not None:
                message.ack()
                found.append(message)
        assert self._queue.get() is None
        return found

    def all(self) -> list[dict[str, Any]]:
        """Whatever is there."""
        found = []
        while (message := self._queue.get()) is not None:
            message.ack()
            found.append(json.loads(message.body))
        return found

    def bodies(self, count: int) -> list[dict[str, Any]]:
        return [json.loads(message.body) for message in self.take(count)]

    def close(self) -> None:
        self._connection.release()


@pytest.fixture(params=["rabbitmq", "redis"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    url = f"sqlite:///{tmp_path}/sagas.db"
    if request.param == "rabbitmq":
        with fresh_rabbitmq_vhost() as vhost, house_with(url, broker_url=vhost, saga_events=True) as found:
            yield found
    else:
        with fresh_redis_place() as place, house_with(url, **place.settings, saga_events=True) as found:
            yield found


@pytest.fixture
def listener(house: House) -> Iterator[Listener]:
    made = Listener(house)
    yield made
    made.close()


def test_events_come_in_the_order_of_each_run_with_their_routing_keys(house: House, listener: Listener) -> None:
    runs = [house.order.start(number) for number in ("o1", "none", "o2")]
    assert house.drain() == 7

    messages = listener.take(7)
    of = {run.id: [] for run in runs}
    for message in messages:
        body = json.loads(message.body)
        assert message.delivery_info["routing_key"] == f"saga.order.{body['event']}"
        assert message.properties["message_id"] == body["id"]
        assert message.content_type == "application/json"
        assert message.properties["delivery_mode"] == 2
        of[body["run_id"]].append(body["event"])
    good, bad = ["started", "completed"], ["started", "compensating", "failed"]
    assert list(of.values()) == [good, bad, good]
    seqs = [json.loads(message.body)["seq"] for message in messages]
    assert seqs == sorted(seqs)
    assert house.saga.store.outbox.next(Purpose.EVENT, limit=10) == []


def test_a_service_gets_only_what_it_has_bound(house: House) -> None:
    failures = Listener(house, "saga.order.failed")
    house.order.start("none")
    house.order.start("o1")
    house.drain()

    assert [body["event"] for body in failures.bodies(1)] == ["failed"]
    failures.close()


def test_events_that_nobody_listens_to_are_gone_and_hold_nothing_up(house: House) -> None:
    house.order.start("o1")

    assert house.drain() == 2
    assert house.drain() == 0


def test_payloads_are_shown_only_where_asked_for(house: House, listener: Listener) -> None:
    house.order.start("o1")
    house.drain()
    hidden = listener.bodies(2)
    services = house.saga.services
    object.__setattr__(services.settings, "expose_args", True)
    house.order.start("o2")
    house.drain()
    shown = listener.bodies(2)

    assert not {"input", "result"} & (hidden[0].keys() | hidden[1].keys())
    assert shown[0]["input"] == {"number": "o2"} and shown[1]["result"] == "s-o2"


def test_who_dies_between_publishing_and_deleting_lets_events_come_again_with_their_ids(
    house: House, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.order.start("o1")
    relay = house.relay()
    died = RuntimeError("died before the delete")

    def die(label: str) -> None:
        if label == "before:delete outbox":
            raise died

    house.saga.store.trace = die
    with pytest.raises(RuntimeError):
        relay.drain()
    relay.close()
    house.saga.store.trace = None
    # The lease of the dead relay is still on: nobody else publishes before it is over.
    assert house.drain() == 0
    with house.saga.store.sessions.engine.connect() as connection:
        connection.exec_driver_sql("UPDATE saga_relay SET lease_until = '2000-01-01T00:00:00.000000'")
        connection.commit()
    assert house.drain() == 2

    bodies = listener.bodies(4)
    assert [body["event"] for body in bodies] == ["started", "completed"] * 2
    assert len({body["id"] for body in bodies}) == 2


def test_two_relays_publish_nothing_twice_and_mix_nothing_up(house: House, listener: Listener) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def start_some(_: int) -> None:
        for _ in range(10):
            house.order.start("none")

    relays = [house.relay() for _ in range(2)]
    start_some(0)
    with ThreadPoolExecutor(2) as pool:
        counts = list(pool.map(lambda relay: relay.drain(), relays))
    counts.append(house.drain())
    for relay in relays:
        relay.close()

    bodies = listener.bodies(30)
    assert sum(counts) == 30
    assert len({body["id"] for body in bodies}) == 30
    by_run: dict[str, list[str]] = {}
    for body in bodies:
        by_run.setdefault(body["run_id"], []).append(body["event"])
    assert set(map(tuple, by_run.values())) == {("started", "compensating", "failed")}


def test_a_name_that_amqp_has_no_room_for_is_cut() -> None:
    key = routing_key("ä" * 200, "compensation_failed")

    assert len(key.encode()) <= 255
    assert key.startswith("saga.ää") and key.endswith("ä.compensation_failed")


@pytest.mark.parametrize("broker", [PrivateRedis, pytest.param(PrivateRabbit, marks=pytest.mark.heavy)])
def test_while_the_broker_is_away_events_wait_and_runs_go_on(tmp_path: Path, broker: Callable[[], Any]) -> None:
    url = f"sqlite:///{tmp_path}/sagas.db"
    with broker() as server, house_with(url, broker_url=server.url, saga_events=True) as house:
        listener = Listener(house)
        listener.close()
        server.kill()
        relay = house.relay()
        run = house.order.start("o1")
        begun_s = time.monotonic()
        assert relay.drain() == 0
        assert time.monotonic() - begun_s < 8.0
        assert run.status == "completed"
        assert len(house.saga.store.outbox.next(Purpose.EVENT, limit=10)) == 2
        server.start()
        listener = Listener(house)
        wait_until(lambda: relay.drain() == 2, timeout_s=40, what="the events")
        relay.close()
        # One that was on its way when the time was over may come twice, with one id.
        found = {body["id"]: body["event"] for body in listener.all()}
        assert list(found.values()) == ["started", "completed"]
        listener.close()


@pytest.mark.heavy
def test_while_rabbitmq_holds_publishers_back_nothing_counts_as_sent(tmp_path: Path) -> None:
    """Confirms: a frame in a socket is not a message that is kept."""
    url = f"sqlite:///{tmp_path}/sagas.db"
    with PrivateRabbit() as rabbit, house_with(url, broker_url=rabbit.url, saga_events=True) as house:
        listener = Listener(house)
        rabbit.ctl("set_vm_memory_high_watermark", "0.00000001")
        house.order.start("o1")
        announcer = Announcer(house.app, house.saga.services.settings, house.saga.store)
        batch: list[Announcement] = house.saga.store.outbox.next(Purpose.EVENT, limit=10)
        begun_s = time.monotonic()
        sent = announcer.deliver(batch)
        took_s = time.monotonic() - begun_s
        rabbit.ctl("set_vm_memory_high_watermark", "0.6")

        assert sent == 0
        assert took_s < 7.0
        announcer.close()
        listener.close()


class Lock:
    """A codec whose key can be lost."""

    is_lost = False

    def encode(self, text: str) -> str:
        return text[::-1]

    def decode(self, text: str) -> str:
        if self.is_lost:
            raise ValueError("no key")
        return text[::-1]


def test_a_payload_that_cannot_be_read_holds_no_event_up(tmp_path: Path) -> None:
    lock = Lock()
    with fresh_redis_place() as place:
        settings = {**place.settings, "saga_events": True, "saga_expose_args": True, "saga_codec": lock}
        with house_with(f"sqlite:///{tmp_path}/sagas.db", **settings) as house:
            listener = Listener(house)
            house.order.start("o1")
            lock.is_lost = True
            assert house.drain() == 2
            bodies = listener.bodies(2)
            listener.close()

    assert [body["event"] for body in bodies] == ["started", "completed"]
    assert not any("input" in body or "result" in body for body in bodies)
