"""Redis takes messages for lost while their steps run, and delivers them again to every worker."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from re import findall

from tests.faults.points import Fault
from tests.faults.sagas import s3
from tests.faults.world import LEASE_S, SWEEP_S, check, world_with
from tests.servers import fresh_redis_place
from tests.workers import Worker, wait_until, workers

IMPATIENT = {"visibility_timeout": 2, "unacked_restore_interval": 0.5, "unacked_restore_throttle": 1}


def _most_received(*several: Worker) -> int:
    text = "\n".join(worker.text for worker in several)
    return max(Counter(findall(r"\[([0-9a-f-]{36})\] received", text)).values(), default=0)


def test_b02_a_redelivered_step_does_not_run_again_and_resumes_when_its_holder_dies(tmp_path: Path) -> None:
    held = [f"held{number}" for number in range(4)]
    plan = [Fault(order, "b", "after_effect", "hold") for order in held]
    with fresh_redis_place() as place:
        options = {**place.settings["broker_transport_options"], **IMPATIENT}
        settings = {"broker_url": place.url, "broker_transport_options": options}
        with (
            world_with("redis", tmp_path, broker_settings=settings) as world,
            workers(world.worker(plan), world.worker(plan)) as both,
        ):
            holding = {order: s3.start(order) for order in held}
            for run in holding.values():
                world.wait_effect(run, "b")
            others = [s3.start(f"other{number}") for number in range(8)]
            wait_until(lambda: _most_received(*both) > 1, what="a message was delivered twice")
            for _ in range(2):
                world.send_again(holding["held0"], "b")
            for order in held[1:]:
                world.release(order, "b")
            world.wait_ended([*others, *(holding[order] for order in held[1:])], 20)
            wait_until(lambda: world.received(holding["held0"], "b") >= 3, what="the duplicates were delivered")
            wait_until(lambda: world.depth() == 0, what="an empty broker")
            assert [effect.attempt for effect in world.effects(holding["held0"], key="b")] == [1]

            (effect,) = world.effects(holding["held0"], key="b")
            holder = next(worker for worker in both if effect.pid in worker.children())
            begun_s = time.monotonic()
            holder.kill()
            world.wait_ended([holding["held0"]], LEASE_S + 2 * SWEEP_S + 4)
            took_s = time.monotonic() - begun_s

            runs = [*others, *holding.values()]
            assert world.statuses(runs) == {"completed": 12}
            assert took_s > 0.5  # by the end of its lease: nobody was told of the death
            step = world.step(holding["held0"], "b")
            assert (step.attempt, step.stalls, step.failures) == (2, 1, 0)
            found = Counter(each.key for run in runs[:-4] + runs[-3:] for each in world.effects(run))
            assert found == {"a": 11, "b": 11, "c": 11}
            check(world, runs)
