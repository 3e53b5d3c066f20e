"""A RabbitMQ that restarts, cuts every connection, and takes no large message."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection, Exchange, Queue

from tests.faults.limits import large
from tests.faults.points import Fault
from tests.faults.sagas import two
from tests.faults.world import MODULES, World, check, world_with
from tests.servers import PrivateRabbit
from tests.workers import wait_until

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(240)]
MAXIMUM = 20_000
SLOTS = 8
HELD = [Fault(f"o{number}", "a", "before_effect", "hold") for number in range(SLOTS)]


@pytest.fixture(scope="module")
def rabbit() -> Iterator[PrivateRabbit]:
    with PrivateRabbit(f"max_message_size = {MAXIMUM}") as server:
        yield server


@pytest.fixture
def world(rabbit: PrivateRabbit, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    settings: dict[str, Any] = getattr(request, "param", {})
    with world_with("rabbitmq", tmp_path, broker_settings={"broker_url": rabbit.url}, **settings) as found:
        yield found


def _held(world: World) -> list[Any]:
    runs = [two.start(f"o{number}") for number in range(SLOTS)]
    world.wait_sql("SELECT count(*) FROM saga_step WHERE key = 'a' AND status = 'running'", SLOTS, timeout_s=40)
    return runs


def _release(world: World) -> None:
    for number in range(SLOTS):
        world.release(f"o{number}", "a")


@pytest.mark.parametrize("world", [{}, {"task_acks_late": True}], ids=["early", "late"], indirect=True)
def test_r047_cut_connections_repeat_no_step_that_runs(world: World, rabbit: PrivateRabbit) -> None:
    with world.worker(HELD, concurrency=SLOTS) as worker:
        runs = _held(world)
        rabbit.ctl("close_all_connections", "a test of ours")
        worker.wait_for_line("onnection")
        _release(world)
        assert world.wait_ended(runs, 60) == {"completed": SLOTS}
        assert len(world.effects()) == 2 * SLOTS
        check(world, runs)


@pytest.mark.parametrize("world", [{"task_acks_late": True}], ids=["late"], indirect=True)
def test_r046_a_restart_while_steps_run_repeats_none(world: World, rabbit: PrivateRabbit) -> None:
    with world.worker(HELD, concurrency=SLOTS):
        runs = _held(world)
        rabbit.kill()
        _release(world)
        world.wait_sql("SELECT count(*) FROM saga_step WHERE key = 'a' AND status = 'done'", SLOTS)
        rabbit.start()
        assert world.wait_ended(runs, 60) == {"completed": SLOTS}
        assert len(world.effects()) == 2 * SLOTS
        check(world, runs)


@pytest.mark.parametrize(
    "world",
    [{"task_acks_late": True, "worker_cancel_long_running_tasks_on_connection_loss": True}],
    ids=["late"],
    indirect=True,
)
def test_r049_with_tasks_cancelled_at_a_lost_connection_the_run_goes_on(world: World, rabbit: PrivateRabbit) -> None:
    with world.worker(HELD, concurrency=SLOTS) as first:
        runs = _held(world)
        rabbit.ctl("close_all_connections", "a test of ours")
        first.wait_for_line("onnection")
        _release(world)
        wait_until(lambda: not first.is_running or "Connected to amqp" in first.text.split("onnection")[-1], 40)
        if first.is_running:
            assert world.wait_ended(runs, 60) == {"completed": SLOTS}
    with world.worker(HELD, concurrency=SLOTS):
        assert world.wait_ended(runs, 60) == {"completed": SLOTS}
        check(world, runs)


def test_r064_values_above_the_brokers_maximum_are_in_no_message(world: World) -> None:
    value = "x" * (50 * MAXIMUM)
    with world.worker(modules=(*MODULES, "tests.faults.limits")):
        run = large.start("large", value)
        assert world.wait_ended([run], 30) == {"completed": 1}
        assert run.wait(1) == value
        check(world, [run])


def test_r065_a_client_whose_connections_were_cut_sends_its_next_start(world: World, rabbit: PrivateRabbit) -> None:
    first = two.start("first")
    assert world.depth() == 1
    rabbit.ctl("close_all_connections", "a test of ours")
    second = two.start("second")
    assert world.depth() == 2  # sent by itself: nobody sweeps
    with world.worker():
        assert world.wait_ended([first, second], 30) == {"completed": 2}
        check(world, [first, second])


def test_r069_who_may_declare_nothing_starts_and_works(rabbit: PrivateRabbit, tmp_path: Path) -> None:
    """Queue and exchange are there; neither the app nor the plug-in asks for any other."""
    with Connection(rabbit.url) as connection, connection.channel() as channel:
        Queue("celery", Exchange("celery"), "celery")(channel).declare()
    rabbit.ctl("add_user", "meek", "meek")
    rabbit.ctl("set_permissions", "-p", "/", "meek", "^$", ".*", ".*")
    settings: dict[str, Any] = {
        "broker_settings": {"broker_url": rabbit.url.replace("guest:guest", "meek:meek")},
        "worker_enable_remote_control": False,
    }
    with world_with("rabbitmq", tmp_path, **settings) as world:
        world.app.conf.task_queues = [Queue("celery", Exchange("celery", no_declare=True), no_declare=True)]
        with world.worker(more={"FAULTS_MEEK": "1"}) as worker:
            run = two.start("meek")
            assert world.wait_ended([run], 30) == {"completed": 1}
            assert "ACCESS_REFUSED" not in worker.text
            check(world, [run])
