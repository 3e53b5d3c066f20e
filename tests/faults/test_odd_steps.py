"""Tasks that do to their own message what Celery lets them do."""

from __future__ import annotations

from pathlib import Path

from tests.faults.limits import marked, replaced
from tests.faults.world import MODULES, check, world_with
from tests.servers import PrivateRedis


def test_a_step_that_replaces_itself_fails_and_one_that_marks_itself_failed_does_not(
    private_redis: PrivateRedis, tmp_path: Path
) -> None:
    """R019, R020: what follows a replaced task never started, or started twice; R083: the mark counts for nothing."""
    broker = {"broker_url": private_redis.url, "result_backend": private_redis.url}
    modules = (*MODULES, "tests.faults.limits")
    with world_with("redis", tmp_path, broker_settings=broker) as world, world.worker(modules=modules):
        runs = {"replaced": replaced.start("r"), "marked": marked.start("m")}
        assert world.wait_ended(list(runs.values()), 20) == {"failed": 1, "completed": 1}

        assert "self.replace() cannot be used in a step" in str(runs["replaced"].error)
        assert runs["marked"].wait(1) == "m"
        assert [each.key for each in world.effects(runs["replaced"])] == ["a", "b", "a!undo"]
        check(world, list(runs.values()))
