"""Half of the workers on a queue have the same tasks and no celery_saga."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.sagas import s3
from tests.faults.world import PLAIN_APP, check, world_with
from tests.workers import workers


@pytest.mark.timeout(240)
@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_all_runs_complete_and_no_worker_without_the_plug_in_calls_a_task(broker: str, tmp_path: Path) -> None:
    fleet = {"saga_lease": 0.5, "saga_sweep_interval": 0.2}
    with world_with(broker, tmp_path, **fleet) as world:
        pairs = [(world.worker(concurrency=1), world.worker(app=PLAIN_APP, concurrency=1)) for _ in range(2)]
        plain = [pair[1] for pair in pairs]
        with workers(*pairs[0], *pairs[1]):
            runs = [s3.start(f"o{number}") for number in range(20)]
            assert world.wait_ended(runs, 180) == {"completed": 20}

            assert world.effects(key="stolen") == []
            assert all("celery_saga." in worker.text for worker in plain)  # they took part
            check(world, runs)
