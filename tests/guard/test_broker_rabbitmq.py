"""RabbitMQ: confirms, quorum queues, conflicting declarations, consumers and their time-out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from kombu import Connection, Exchange, Queue

from celery_saga.runtime.guard import Role, gather
from tests.guard.world import add_task, findings, make_app
from tests.servers import PrivateRabbit

CONFIRMS = {"confirm_publish": True}
QUORUM = {"x-queue-type": "quorum"}
TIMEOUT = {"RABBITMQ_CONSUMER_TIMEOUT", "RABBITMQ_CONSUMER_TIMEOUT_NO_LIMIT"}


def queue(name: str, **arguments: object) -> Queue:
    return Queue(name, Exchange(name), routing_key=name, queue_arguments=arguments or None)


def app_of(url: str, *queues: Queue, **settings: object) -> Celery:
    if queues:
        settings = {"task_queues": queues, "task_default_queue": queues[0].name, **settings}
    return make_app(url, **settings)


@pytest.fixture
def connection(rabbitmq_url: str) -> Iterator[Connection]:
    with Connection(rabbitmq_url) as opened:
        yield opened


def test_confirms_that_are_off_are_told_and_those_that_are_on_are_not(rabbitmq_url: str) -> None:
    assert "RABBITMQ_CONFIRMS_OFF" in findings(app_of(rabbitmq_url))
    assert "RABBITMQ_CONFIRMS_OFF" not in findings(app_of(rabbitmq_url, broker_transport_options=CONFIRMS))
    assert "RABBITMQ_CONFIRMS_OFF" not in findings(app_of("memory://"))


def test_a_configured_quorum_queue_needs_confirms(rabbitmq_url: str) -> None:
    orders = queue("orders", **QUORUM)

    dangerous = findings(app_of(rabbitmq_url, orders))
    safe = findings(app_of(rabbitmq_url, orders, broker_transport_options=CONFIRMS))

    assert "orders" in dangerous["RABBITMQ_QUORUM_WITHOUT_CONFIRMS"].sentence
    assert "RABBITMQ_CONFIRMS_OFF" not in dangerous
    assert "RABBITMQ_QUORUM_WITHOUT_CONFIRMS" not in safe


def test_a_quorum_queue_that_only_the_server_knows_of_is_found(rabbitmq_url: str, connection: Connection) -> None:
    queue("orders", **QUORUM)(connection.channel()).declare()

    found = findings(app_of(rabbitmq_url, queue("orders")))

    assert "orders" in found["RABBITMQ_QUORUM_WITHOUT_CONFIRMS"].sentence
    assert "orders" in found["RABBITMQ_QUEUE_CONFLICT"].sentence


def test_a_queue_that_exists_with_other_arguments_is_an_error_and_stays_as_it_is(
    rabbitmq_url: str, connection: Connection
) -> None:
    queue("orders", **{"x-max-priority": 9})(connection.channel()).declare()

    dangerous = findings(app_of(rabbitmq_url, queue("orders")))
    safe = findings(app_of(rabbitmq_url, queue("orders", **{"x-max-priority": 9})))

    assert "x-max-priority" in dangerous["RABBITMQ_QUEUE_CONFLICT"].sentence
    assert "RABBITMQ_QUEUE_CONFLICT" not in safe


def test_the_check_creates_no_queue(rabbitmq_url: str, connection: Connection) -> None:
    findings(app_of(rabbitmq_url, queue("orders")), role=Role.WORKER)

    with pytest.raises(connection.channel_errors, match="no queue 'orders'"):
        Queue("orders")(connection.channel()).queue_declare(passive=True)


def test_the_check_after_a_conflict_goes_on_with_the_next_queue(rabbitmq_url: str, connection: Connection) -> None:
    for name in ("first", "second"):
        queue(name, **{"x-max-priority": 9})(connection.channel()).declare()
    app = app_of(rabbitmq_url, queue("first"), queue("second"))

    facts = gather(app, role=Role.WORKER)

    assert {one.name for one in facts.broker.queues if one.conflict} == {"first", "second"}


def test_queues_that_were_not_reached_in_time_are_told(private_rabbit: PrivateRabbit) -> None:
    class Freezing(Queue):
        """Freezes the server between two questions."""

        def bind(self, channel: Any) -> Any:
            private_rabbit.freeze()
            return super().bind(channel)

    with Connection(private_rabbit.url) as connection:
        queue("second")(connection.channel()).declare()
    freezing = Freezing("second", Exchange("second"), routing_key="second")
    app = app_of(private_rabbit.url, queue("first"), freezing, queue("third"))

    try:
        facts = gather(app, role=Role.WORKER, timeout_s=1.0)
    finally:
        private_rabbit.thaw()

    assert [(one.name, one.unasked is None) for one in facts.broker.queues] == [
        ("first", True),
        ("second", False),
        ("third", False),
    ]


def test_a_queue_that_this_user_may_not_ask_about_is_told(private_rabbit: PrivateRabbit) -> None:
    url = private_rabbit.url
    with Connection(url) as connection:
        queue("orders")(connection.channel()).declare()
        exclusive = Queue("mine", exclusive=True, auto_delete=True)
        exclusive(connection.channel()).declare()

        found = findings(app_of(url, queue("mine"), queue("orders")))
        safe = findings(app_of(url, queue("orders")))

    assert "mine" in found["RABBITMQ_QUEUE_NOT_ASKED"].sentence
    assert "RABBITMQ_QUEUE_NOT_ASKED" not in safe


def test_quorum_queues_without_their_detection_are_an_error(rabbitmq_url: str) -> None:
    orders = queue("orders", **QUORUM)

    dangerous = findings(app_of(rabbitmq_url, orders, worker_detect_quorum_queues=False))
    safe = findings(app_of(rabbitmq_url, orders))
    classic = findings(app_of(rabbitmq_url, queue("orders"), worker_detect_quorum_queues=False))

    assert "RABBITMQ_QUORUM_GLOBAL_QOS" in dangerous
    assert "RABBITMQ_QUORUM_GLOBAL_QOS" not in safe
    assert "RABBITMQ_QUORUM_GLOBAL_QOS" not in classic


def test_what_quorum_queues_do_to_countdowns_is_told(rabbitmq_url: str) -> None:
    assert "RABBITMQ_QUORUM_DELAY" in findings(app_of(rabbitmq_url, queue("orders", **QUORUM)))
    assert "RABBITMQ_QUORUM_DELAY" in findings(app_of(rabbitmq_url, task_default_queue_type="quorum"))
    assert "RABBITMQ_QUORUM_DELAY" not in findings(app_of(rabbitmq_url, queue("orders")))


def test_a_coordinator_queue_that_nobody_consumes_is_told_to_clients(rabbitmq_url: str, connection: Connection) -> None:
    app = app_of(rabbitmq_url, queue("orders"))
    alone = findings(app)
    starting = findings(app, role=Role.WORKER)
    with connection.Consumer([queue("orders")], callbacks=[print]):
        consumed = findings(app)

    assert "-Q orders" in alone["RABBITMQ_NO_CONSUMER"].remedy
    assert "RABBITMQ_NO_CONSUMER" not in starting
    assert "RABBITMQ_NO_CONSUMER" not in consumed


def test_a_late_acking_task_that_may_outlast_the_consumer_timeout_is_told(rabbitmq_url: str) -> None:
    app = app_of(rabbitmq_url)
    add_task(app, "shop.report", acks_late=True, time_limit=1800)

    found = findings(app)["RABBITMQ_CONSUMER_TIMEOUT"]

    assert "shop.report" in found.sentence
    assert "Steps are safe" in found.sentence
    assert "cannot be seen from here" in found.sentence


def test_a_consumer_timeout_of_the_queue_counts(rabbitmq_url: str) -> None:
    patient, hasty = queue("orders", **{"x-consumer-timeout": 7_200_000}), queue("orders")
    for queues, told in ((patient, False), (hasty, True)):
        app = app_of(rabbitmq_url, queues)
        add_task(app, "shop.report", acks_late=True, time_limit=3600)
        assert ("RABBITMQ_CONSUMER_TIMEOUT" in findings(app)) is told


def test_a_late_acking_task_without_a_limit_is_told_by_another_code(rabbitmq_url: str) -> None:
    app = app_of(rabbitmq_url)
    add_task(app, "shop.report", acks_late=True)

    assert TIMEOUT & findings(app).keys() == {"RABBITMQ_CONSUMER_TIMEOUT_NO_LIMIT"}


def test_tasks_that_ack_when_accepted_or_end_in_time_bear_the_consumer_timeout(rabbitmq_url: str) -> None:
    app = app_of(rabbitmq_url)
    add_task(app, "shop.early", time_limit=86_400)
    add_task(app, "shop.late", acks_late=True, time_limit=1799)

    assert not TIMEOUT & findings(app).keys()
