"""What a worker knows of how far its queues have come."""

from __future__ import annotations

import time
from typing import Any

import pytest
from kombu import Queue

from celery_saga.runtime.received import Received, place_of, sent_to


def test_what_was_sent_before_the_latest_that_came_is_overtaken() -> None:
    received, now_s = Received(), time.time()
    assert not received.is_overtaken("celery 0", 0.0)
    received.note({"run": "r", "sent": ["celery 0", now_s - 10]})
    received.note({"run": "r", "sent": ["celery 0", now_s - 20]})  # a redelivery

    assert received.is_overtaken("celery 0", now_s - 15)
    assert not received.is_overtaken("celery 0", now_s - 10)
    assert not received.is_overtaken("celery 3", now_s - 15)  # each priority has an order of its own


def test_a_clock_that_is_ahead_does_not_overtake_what_is_sent_later() -> None:
    received = Received()
    received.note({"sent": ["celery 0", time.time() + 3600]})

    assert not received.is_overtaken("celery 0", time.time() + 0.001)


@pytest.mark.parametrize(
    "sent",
    [None, 7, [], ["q", 1, 2], [7, 1.0], ["q", "1"], ["q", True], ["q", None], ["q", float("nan")], ["q", -1.0], {}],
    ids=str,
)
def test_what_no_publisher_of_ours_says_is_not_noted(sent: Any) -> None:
    received = Received()
    received.note({"sent": sent})
    received.note(sent)

    assert not any(received.is_overtaken(place, 0.0) for place in ("q", "7"))


def test_strangers_cannot_fill_the_memory_nor_end_the_worker() -> None:
    received = Received()
    received.note({"sent": ["q", 10**400]})
    received.note({"sent": ["q" * 10_000, 1.0]})
    for number in range(3000):
        received.note({"sent": [f"q{number}", 1.0]})

    assert received.is_overtaken("q", 1.0)
    assert not received.is_overtaken("q" * 10_000, 0.5)
    assert sum(received.is_overtaken(f"q{number}", 0.5) for number in range(3000)) == 999


def test_a_place_is_a_queue_and_a_priority() -> None:
    assert place_of({"queue": Queue("orders"), "priority": 3}) == place_of({"queue": "orders", "priority": 3})
    assert place_of({"queue": "orders", "priority": 3}) != place_of({"queue": "orders"})
    assert place_of({"exchange": "x", "routing_key": "k"}) != place_of({"exchange": "x", "routing_key": "l"})
    place, at_s = sent_to({"queue": "orders"})
    assert place == place_of({"queue": "orders"})
    assert abs(at_s - time.time()) < 60
