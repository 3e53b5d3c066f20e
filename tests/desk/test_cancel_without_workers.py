"""A cancel is written, not told to workers: it holds without any, during timers, and costs no broadcast."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from kombu import Queue

from celery_saga import RunHandle
from tests.faults.phases import plain
from tests.faults.sagas import GO, patient
from tests.faults.world import MODULES, World, world_with

pytestmark = pytest.mark.servers

SHAPES = (*MODULES, "tests.faults.phases")
EACH = 5


def test_r112_what_was_cancelled_without_a_worker_does_not_start_with_one_and_is_undone(tmp_path: Path) -> None:
    with world_with("redis", tmp_path) as world:
        with world.worker(modules=SHAPES):
            begun = [patient.start(f"begun{n}") for n in range(EACH)]
            waiting = "SELECT count(*) FROM saga_step WHERE kind = 'signal' AND status = 'waiting'"
            world.wait_sql(waiting, EACH)
        for run in begun:
            run.signal(GO, "go")  # the wake-up for `b` waits in the broker
        fresh = [plain.start(f"fresh{n}") for n in range(EACH)]

        answers = [run.cancel() for run in (*begun, *fresh)]
        with world.worker(modules=SHAPES):
            last = plain.start("last")
            statuses = world.wait_ended([*begun, *fresh, last], 30)

        assert Counter((each["cancelled"], each["status"]) for each in answers) == {
            (True, "compensating"): EACH,
            (True, "cancelled"): EACH,
        }
        assert statuses == {"cancelled": 2 * EACH, "completed": 1}
        assert _effects(world, begun) == {"a": EACH, "a!undo": EACH}
        assert _effects(world, fresh) == {}


def test_r113_a_cancel_during_a_timer_lets_nothing_start_at_its_time(tmp_path: Path) -> None:
    with world_with("redis", tmp_path) as world, world.worker(modules=SHAPES):
        sleeping = [patient.start(f"sleeping{n}", 3.0) for n in range(EACH)]
        witness = patient.start("witness", 4.0)
        world.wait_sql("SELECT count(*) FROM saga_step WHERE kind = 'timer' AND status = 'waiting'", EACH + 1)

        for run in sleeping:
            run.cancel()
        # Its timer ends after theirs.
        statuses = world.wait_ended([*sleeping, witness], 30)

        assert statuses == {"cancelled": EACH, "completed": 1}
        assert _effects(world, sleeping) == {"a": EACH, "a!undo": EACH}
        assert _effects(world, [witness]) == {"a": 1, "b": 1}


@pytest.mark.parametrize("cancels", [200, pytest.param(10_000, marks=pytest.mark.heavy)])
def test_r121_cancels_of_finished_runs_broadcast_nothing(tmp_path: Path, cancels: int) -> None:
    with world_with("rabbitmq", tmp_path) as world:
        with world.worker(modules=SHAPES):
            runs = [plain.start(f"done{n}") for n in range(EACH)]
            assert world.wait_ended(runs, 30) == {"completed": EACH}
        spy = Queue("spy", world.app.control.mailbox.exchange, durable=False, auto_delete=False)
        with world.app.connection_for_write() as connection, connection.channel() as channel:
            spy(channel).declare()
            before = world.depth("celery")

            answers = Counter(str(runs[n % EACH].cancel()) for n in range(cancels))
            heard, queued = world.depth("spy"), world.depth("celery") - before
            world.app.control.revoke("what a broadcast looks like")

            assert answers == {str({"cancelled": False, "status": "completed"}): cancels}
            assert (heard, queued) == (0, 0)
            assert world.depth("spy") == 1


def _effects(world: World, runs: list[RunHandle[Any]]) -> Counter[str]:
    return Counter(effect.key for effect in world.effects(*runs))
