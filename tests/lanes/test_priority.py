"""The broker's priority is a hint that every message of a run carries, in the broker's own sense."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from celery.signals import before_task_publish

from celery_saga import Run, saga
from tests.faults.world import World, world_with
from tests.lanes.served import work

pytestmark = pytest.mark.servers


@saga(key="{order}")
def hinted(run: Run, order: str) -> None:
    run.group(work.si(order), work.si(order).set(priority=3))


@contextmanager
def _published() -> Iterator[list[Any]]:
    seen: list[Any] = []

    def on_publish(properties: dict[str, Any], headers: dict[str, Any], **_: object) -> None:
        if "task" in headers:  # else hooks are asked for theirs, before the run is there
            seen.append(properties.get("priority"))

    before_task_publish.connect(on_publish)
    try:
        yield seen
    finally:
        before_task_publish.disconnect(on_publish)


def _wire(world: World) -> list[int]:
    """Priorities of the messages that wait, as the broker has them."""
    found = []
    with world.app.connection_for_read() as connection, connection.channel() as channel:
        while (message := channel.basic_get("celery")) is not None:
            found.append(int(message.properties.get("priority") or 0))
            channel.basic_ack(message.delivery_tag)
    return sorted(found)


@pytest.mark.parametrize(("broker", "wire"), [("rabbitmq", [3, 7, 7]), ("redis", [0, 0, 3])])
def test_r036_every_message_of_a_run_carries_its_priority_and_a_steps_own_goes_before_it(
    broker: str, wire: list[int], tmp_path: Path
) -> None:
    with world_with(broker, tmp_path) as world, world.app.connection_for_write() as connection:
        world.app.amqp.default_queue.bind(connection.default_channel).declare()
        with _published() as seen:
            run = hinted.options(priority=7).start("x")
            world.saga.engine.coordinate(run.id)

        assert sorted(seen) == [3, 7, 7]  # the run, its two parts
        assert _wire(world) == wire  # on Redis the lowest number is first, and a message without one has 0


def test_a_run_without_priority_says_nothing(tmp_path: Path) -> None:
    with world_with("redis", tmp_path) as world, _published() as seen:
        hinted.start("x")

        assert seen == [None]
        assert world.depth() == 1


def test_a_priority_beyond_what_brokers_have_is_their_highest(tmp_path: Path) -> None:
    with world_with("redis", tmp_path), _published() as seen:
        hinted.options(priority=2_097_151).start("x")

    assert seen == [9]
