"""A broker that dies with every message in it, and comes back empty."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from celery_saga import RunHandle
from tests.faults.phases import LATE, compensated, plain, queued
from tests.faults.points import Fault
from tests.faults.sagas import GO, patient
from tests.faults.world import MODULES, World, check, world_with
from tests.servers import PrivateRedis
from tests.workers import wait_until

EACH = 20
SHAPES = (*MODULES, "tests.faults.phases")
SLEEP_S = 10.0


def test_b05_a_hundred_runs_in_all_phases_survive_a_broker_that_loses_every_message(
    private_redis: PrivateRedis, tmp_path: Path
) -> None:
    plan = [Fault(f"running{n}", "b", "before_effect", "hold") for n in range(EACH)]
    plan += [Fault(f"undone{n}", "b!undo", "before_effect", "raise") for n in range(EACH)]
    broker = {"broker_url": private_redis.url}

    with world_with("redis", tmp_path, broker_settings=broker) as world:
        worker = world.worker(plan, modules=SHAPES, pool="threads", concurrency=EACH + 4)
        late = world.worker(modules=SHAPES, concurrency=1, options=("-Q", LATE))
        with worker:
            runs = _start(world)
            _wait_for_phases(world, runs)

            private_redis.kill()
            for n in range(EACH):
                world.release(f"running{n}", "b")
            # Checked in although there is nobody to tell.
            done = "SELECT count(*) FROM saga_step WHERE key = 'b' AND status = 'done' AND run_id = ANY(%s)"
            world.wait_sql(done, EACH, [run.id for run in runs["running"]])
            assert world.statuses(runs["waiting"]) == {"waiting": EACH}
            private_redis.start()

            with late:
                answers = Counter(run.signal(GO, "go") for run in runs["waiting"])
                everyone = [run for several in runs.values() for run in several]
                statuses = world.wait_ended(everyone, 30)

                assert answers == {"delivered": EACH}
                assert statuses == {"completed": 4 * EACH, "failed": EACH}
                assert world.statuses(runs["undone"]) == {"failed": EACH}
                _check_effects(world, runs)
                check(world, everyone, drained=lambda: world.depth("celery", LATE) == 0)


def _start(world: World) -> dict[str, list[RunHandle[str]]]:
    """The running ones last: they keep most of the worker's slots."""
    runs = {
        "waiting": [patient.start(f"waiting{n}") for n in range(EACH)],
        "sleeping": [patient.start(f"sleeping{n}", SLEEP_S) for n in range(EACH)],
        "queued": [queued.start(f"queued{n}") for n in range(EACH)],
        "running": [plain.start(f"running{n}") for n in range(EACH)],
    }
    # An undo that was refused is tried again after 8 s: until then the run is in the middle of its undos.
    return {**runs, "undone": [compensated.start(f"undone{n}") for n in range(EACH)]}


def _wait_for_phases(world: World, runs: dict[str, list[RunHandle[str]]]) -> None:
    def ids(name: str) -> list[str]:
        return [run.id for run in runs[name]]

    kinds = "SELECT count(*) FROM saga_step WHERE kind = %s AND status = 'waiting' AND run_id = ANY(%s)"
    world.wait_sql(kinds, EACH, "signal", ids("waiting"))
    world.wait_sql(kinds, EACH, "timer", ids("sleeping"))
    running = "SELECT count(*) FROM saga_step WHERE key = 'b' AND status = 'running' AND run_id = ANY(%s)"
    world.wait_sql(running, EACH, ids("running"))
    tried = "SELECT count(*) FROM saga_step WHERE key = 'b!undo' AND failures = 1 AND run_id = ANY(%s)"
    world.wait_sql(tried, EACH, ids("undone"))
    wait_until(lambda: world.depth(LATE) == EACH, what="queued runs in the broker")
    assert world.statuses(runs["undone"]) == {"compensating": EACH}
    assert world.statuses(runs["queued"]) == {"queued": EACH}
    assert world.statuses(runs["sleeping"]) == {"waiting": EACH}


def _check_effects(world: World, runs: dict[str, list[RunHandle[str]]]) -> None:
    expected = {
        "waiting": {"a": EACH, "b": EACH},
        "sleeping": {"a": EACH, "b": EACH},
        "queued": {"a": EACH},
        "running": {"a": EACH, "b": EACH},
        "undone": {"a": EACH, "b": EACH, "b!undo": EACH, "a!undo": EACH},
    }
    for name, counts in expected.items():
        assert Counter(effect.key for effect in world.effects(*runs[name])) == counts, name
