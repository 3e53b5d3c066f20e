"""`celery saga consume` on real brokers: acknowledged after the commit, refused into the dead letters, never killed."""

from __future__ import annotations

import base64
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection, Exchange, Queue

from celery_saga.runtime.consumer import InboxConsumer
from tests.announcing.house import House, house_with
from tests.servers import PrivatePostgres, fresh_rabbitmq_vhost, fresh_redis_place
from tests.workers import ROOT, wait_until

pytestmark = pytest.mark.servers

DIES = """
import os, signal
import kombu.message
def die(self, *args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)
if os.environ["DIES"] == "yes":
    kombu.message.Message.ack = die  # after the commit, before the broker knows
from tests.announcing.consuming_app import app
from celery_saga.runtime.consumer import run_consumer
run_consumer(app)
"""


class Post:
    """A service that is not Python: puts bodies into the queue, and looks at the dead letters."""

    def __init__(self, app: Any) -> None:
        conf = app.conf
        self._connection = Connection(conf.broker_url, transport_options=conf.broker_transport_options)
        channel = self._connection.channel()
        self._queues = {}
        for name in ("saga.inbox", "saga.inbox.dead"):
            queue = Queue(name, Exchange(name, type="direct", durable=True), routing_key=name, durable=True)(channel)
            queue.declare()
            self._queues[name] = queue
        self._producer = self._connection.Producer()

    def send(self, *messages: Any) -> None:
        for message in messages:
            body = message if isinstance(message, bytes) else json.dumps(message).encode()
            self._producer.publish(
                body,
                exchange="saga.inbox",
                routing_key="saga.inbox",
                content_type="application/x-whatever",
                content_encoding="binary",
                delivery_mode=2,
                message_id="sent-by-post",
            )

    def dead(self, count: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []

        def take() -> bool:
            while (message := self._queues["saga.inbox.dead"].get()) is not None:
                message.ack()
                found.append(json.loads(message.body))
                assert message.headers["saga-code"] == found[-1]["code"]
            return len(found) >= count

        wait_until(take, what=f"{count} dead letters")
        return found

    def is_empty(self) -> bool:
        return self._queues["saga.inbox"].get() is None

    def close(self) -> None:
        self._connection.release()


@pytest.fixture(params=["rabbitmq", "redis"])
def broker(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    if request.param == "rabbitmq":
        with fresh_rabbitmq_vhost() as vhost:
            yield {"broker_url": vhost}
    else:
        with fresh_redis_place() as place:
            options = {**place.settings.get("broker_transport_options", {}), "visibility_timeout": 2}
            yield {**place.settings, "broker_transport_options": options}


@pytest.fixture
def house(broker: dict[str, Any], tmp_path: Path) -> Iterator[House]:
    with house_with(f"sqlite:///{tmp_path}/sagas.db", **broker) as found:
        yield found


@pytest.fixture
def post(house: House) -> Iterator[Post]:
    made = Post(house.app)
    yield made
    made.close()


@contextmanager
def consuming(house: House, **options: Any) -> Iterator[threading.Thread]:
    consumer = InboxConsumer(house.app, **options)
    thread = threading.Thread(target=consumer.run)
    thread.start()
    try:
        yield thread
    finally:
        consumer.stop()
        thread.join(15)
        assert not thread.is_alive()


def test_messages_are_done_and_refusals_are_put_aside_with_code_and_body(
    house: House, post: Post, caplog: pytest.LogCaptureFixture
) -> None:
    run = house.approval.start()
    refused = [b"\xff\x00", {"start": {"saga": "none"}}, {"run_id": run.id, "signal": "stop"}]
    with consuming(house):
        post.send(*refused, {"start": {"saga": "order", "args": ["o1"], "key": "o1"}})
        post.send({"run_id": run.id, "signal": "go", "id": "1", "value": "yes"})
        wait_until(lambda: run.refresh().status == "completed", what="the signal")
        dead = post.dead(3)

    assert house.order.find(key="o1").result == "s-o1"
    assert [each["code"] for each in dead] == ["INVALID_ARGUMENT", "UNKNOWN_SAGA", "SIGNAL_NOT_EXPECTED"]
    assert base64.b64decode(dead[0]["body_base64"]) == refused[0]
    assert [json.loads(each["body"]) for each in dead[1:]] == refused[1:]
    assert "Traceback" not in json.dumps(dead)
    assert caplog.text.count("message 'sent-by-post' was refused: ") == len(dead)
    assert post.is_empty()


def test_no_body_kills_it(house: House, post: Post) -> None:
    draw = random.Random(7)
    bodies = [bytes(draw.randrange(256) for _ in range(draw.randrange(40))) for _ in range(60)]
    words = ['{"start":', '"saga"', ":", "{", "}", '"order"', "[", "]", "1e999", '"\\ud800"', ",", "null", '"signal"']
    bodies += ["".join(draw.choices(words, k=draw.randrange(12))).encode() for _ in range(60)]
    with consuming(house) as thread:
        post.send(*bodies, {"start": {"saga": "order", "args": ["last"], "key": "last"}})
        dead = post.dead(len(bodies))
        wait_until(lambda: "ship last" in house.calls, what="the one that is right")
        assert thread.is_alive()

    assert len(dead) == len(bodies)
    assert {each["code"] for each in dead} == {"INVALID_ARGUMENT"}


def test_an_error_of_ours_is_put_aside_too(house: House, post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(type(house.saga.engine), "start", explode)
    with consuming(house):
        post.send({"start": {"saga": "order", "args": ["o1"]}})
        (dead,) = post.dead(1)

    assert dead["code"] == "INTERNAL"
    assert "secret" not in json.dumps(dead)


def test_it_holds_no_more_messages_than_it_may(house: House, post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    from celery_saga.runtime import consumer as module

    goes_on, seen = threading.Event(), threading.Event()

    def slow(*args: Any) -> Any:
        seen.set()
        goes_on.wait(20)
        return real(*args)

    real = module.take
    monkeypatch.setattr(module, "take", slow)
    with consuming(house, prefetch=3):
        post.send(*({"start": {"saga": "order", "args": [str(number)]}} for number in range(10)))
        assert seen.wait(10)
        inbox = post._queues["saga.inbox"]
        taken = []
        while (message := inbox.get()) is not None:
            taken.append(message)
        left = len(taken)
        for message in taken:
            message.requeue()
        goes_on.set()
        wait_until(lambda: len(house.calls) == 20, what="all of them")

    assert left >= 7


@pytest.fixture
def environment(broker: dict[str, Any], tmp_path: Path) -> dict[str, str]:
    said = {"saga_database_url": f"sqlite:///{tmp_path}/sagas.db", **broker}
    return {**os.environ, "CONSUMING_SETTINGS": json.dumps(said), "CONSUMING_LOG": str(tmp_path / "calls.log")}


def test_killed_between_commit_and_acknowledgement_it_counts_once(
    house: House, post: Post, environment: dict[str, str], tmp_path: Path
) -> None:
    run = house.approval.start()
    started = {"start": {"saga": "tell", "args": ["a"], "key": "a"}}
    log = tmp_path / "calls.log"
    log.touch()
    for message in (started, {"run_id": run.id, "signal": "go", "id": "1", "value": "yes"}):
        post.send(message)
        dying = subprocess.Popen([sys.executable, "-c", DIES], cwd=ROOT, env={**environment, "DIES": "yes"})
        assert dying.wait(30) == -signal.SIGKILL
    living = subprocess.Popen([sys.executable, "-c", DIES], cwd=ROOT, env={**environment, "DIES": "no"})
    try:
        post.send({"start": {"saga": "tell", "args": ["b"], "key": "b"}})
        wait_until(lambda: "b" in log.read_text(), what="the next message", timeout_s=60)
        # What was not acknowledged comes again: at once on RabbitMQ, after the visibility time-out on Redis.
        wait_until(lambda: _unacked(house) == 0, what="the acknowledgements", timeout_s=60)
        dead = post._queues["saga.inbox.dead"].get()
    finally:
        living.send_signal(signal.SIGTERM)
        assert living.wait(20) == 0

    assert log.read_text().split() == ["a", "b"]
    assert run.refresh().result == "yes"
    assert dead is None  # also the signal of a run that has ended meanwhile is recognised


def _unacked(house: House) -> int:
    """What a consumer has and has not acknowledged, or what waits."""
    with house.app.connection_for_read() as connection:
        channel = connection.channel()
        if connection.transport.driver_type == "redis":
            return int(channel.client.hlen(channel.unacked_key)) + int(channel._size("saga.inbox"))
        from subprocess import check_output

        vhost = connection.virtual_host
        words = ["rabbitmqctl", "--quiet", "-p", vhost, "list_queues", "name", "messages", "--no-table-headers"]
        lines = check_output(words, text=True).splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("saga.inbox\t"))


@pytest.mark.heavy
def test_while_the_database_is_away_messages_wait_and_nothing_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    with PrivatePostgres() as server, fresh_redis_place() as place, house_with(server.url, **place.settings) as house:
        post = Post(house.app)
        with consuming(house):
            server.kill()
            post.send({"start": {"saga": "order", "args": ["o1"], "key": "o1"}})
            wait_until(lambda: "the inbox waits for the database" in caplog.text, what="a try", timeout_s=30)
            server.start()
            wait_until(lambda: "ship o1" in house.calls, what="the start", timeout_s=60)
        assert post._queues["saga.inbox.dead"].get() is None
        post.close()
