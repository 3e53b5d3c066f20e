"""A body with a bug is deployed while 1,000 runs wait: they park, keep what they did, and go on after the fix."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.many import fall_due, multiply
from tests.faults.sagas import BODY, GO, patient
from tests.faults.world import APP, check, world_with
from tests.workers import ROOT, wait_until

WAITING, SLEEPING = 500, 500
ALL = WAITING + SLEEPING


@pytest.mark.heavy
@pytest.mark.timeout(900)
def test_live_runs_park_on_a_bug_and_complete_after_the_fix_and_a_bulk_resume(tmp_path: Path) -> None:
    with world_with("redis", tmp_path) as world:
        with world.worker():
            asleep = patient.start("s", 3600.0)
            waiting = [patient.start(f"w{number}") for number in range(WAITING)]
            world.wait_sql("SELECT count(*) FROM saga_run WHERE status = 'waiting'", WAITING + 1, timeout_s=300)
        multiply(world, asleep, SLEEPING - 1)
        everyone = [patient.get(run_id) for (run_id,) in world.sql("SELECT id FROM saga_run")]

        with world.worker(more={BODY: "buggy"}):
            fall_due(world, 10.0)
            for run in waiting:
                run.signal(GO, "on")
            parked = "SELECT count(*) FROM saga_run WHERE status = 'suspended' AND reason = 'body_error'"
            world.wait_sql(parked, ALL, timeout_s=300)
            wait_until(lambda: world.depth() == 0, what="an empty broker")
        assert {each.key for each in world.effects()} == {"a"}  # nothing undone, nothing done
        assert all("somebody forgot an argument" in str(run.refresh().error) for run in (waiting[7], asleep))

        with world.worker():
            told = _celery_saga(world.environment(), "resume", "--saga", "patient", "--reason-code", "body_error")
            assert f"{ALL} parked runs were resumed" in told
            assert world.wait_ended(everyone, 300) == {"completed": ALL}
            assert [each.key for each in world.effects(waiting[7])] == ["a", "b"]
            assert len(world.effects(key="b")) == ALL
            check(world, everyone)


def _celery_saga(environment: dict[str, str], *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "celery", "-A", APP, "saga", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
