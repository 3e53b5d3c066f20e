"""Undos that raise, die or lose their messages: still last in first out, each under one token, none forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from celery_saga import RunFailed
from tests.faults.points import Fault, Refused
from tests.faults.sagas import patient, s3, s3_continue, s3_hold
from tests.faults.world import World, check, check_quiet, check_tokens, world_with
from tests.servers import PrivateRedis
from tests.workers import wait_until

C_FAILS = Fault("*", "c", "before_effect", "raise", None)
QUICK_S = 0.2


@pytest.fixture(params=["redis", "rabbitmq"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with world_with(request.param, tmp_path, saga_sweep_interval=QUICK_S) as found:
        yield found


def test_b17_an_undo_that_raises_twice_is_tried_again_before_the_next_one(world: World) -> None:
    with world.worker([C_FAILS, Fault("o", "b!undo", "after_effect", "raise", 2)]):
        run = s3.start("o")
        assert world.wait_ended([run], 30) == {"failed": 1}

        assert [each.key for each in world.effects(run)] == ["a", "b", "b!undo", "b!undo", "b!undo", "a!undo"]
        step = world.step(run, "b!undo")
        assert (step.attempt, step.failures, step.stalls) == (3, 2, 0)
        check(world, [run])


def test_b17_when_an_undo_is_used_up_the_others_run_and_an_operator_repeats_it(world: World) -> None:
    with world.worker([C_FAILS, Fault("o", "b!undo", "after_effect", "raise", 3)]):
        run = s3_continue.start("o")
        with pytest.raises(RunFailed) as failed:
            run.wait(30)
        assert run.status == "compensation_failed"
        assert isinstance(failed.value.cause, Refused)
        assert "c of o" in str(failed.value.cause)  # the business error, not the undo's
        assert [each.key for each in world.effects(run)][2:] == ["b!undo", "b!undo", "b!undo", "a!undo"]
        assert world.saga.runs(attention=True).items[0].id == run.id
        check(world, [run])

        run.retry_undo("b", reason="mended", by="an operator")
        wait_until(lambda: run.refresh().status == "failed", what="the repeated undo")
        assert [each.key for each in world.effects(run)][6:] == ["b!undo"]
        check_tokens(world, [run])
        check_quiet(world)


def test_b17_a_run_that_holds_waits_for_a_person_before_any_other_undo(world: World) -> None:
    with world.worker([C_FAILS, Fault("o", "b!undo", "after_effect", "raise", 3)]):
        run = s3_hold.start("o")
        wait_until(lambda: run.refresh().status == "suspended", what="parked")
        assert [each.key for each in world.effects(run)][2:] == ["b!undo"] * 3
        assert world.sql("SELECT reason FROM saga_run") == [("undo_failed",)]

        run.retry_undo("b", reason="mended", by="an operator")
        assert world.wait_ended([run], 30) == {"failed": 1}
        assert [each.key for each in world.effects(run)][2:] == [*["b!undo"] * 4, "a!undo"]
        check(world, [run])


def test_b17_an_undo_whose_process_dies_after_its_effect_is_repeated_under_its_token(world: World) -> None:
    with world.worker([C_FAILS, Fault("o", "b!undo", "after_effect", "kill", 2)]):
        run = s3.start("o")
        assert world.wait_ended([run], 30) == {"failed": 1}

        tokens = {each.token for each in world.effects(run, key="b!undo")}
        assert len(world.effects(run, key="b!undo")) == 3
        assert tokens == {world.step(run, "b!undo").idempotency_key}
        check(world, [run])


def test_b17_a_second_cancel_in_the_middle_of_the_undos_changes_nothing(world: World) -> None:
    with world.worker([Fault("o", "a!undo", "before_effect", "hold")]):
        run = patient.start("o")
        wait_until(lambda: run.refresh().waiting_on and run.waiting_on[0].name == "go", what="a waiting run")
        assert run.cancel() == {"cancelled": True, "status": "compensating"}
        world.wait_sql("SELECT count(*) FROM saga_step WHERE key = 'a!undo' AND status = 'running'", 1)
        before = run.history(), world.sql("SELECT state_version FROM saga_run")

        assert run.cancel(reason="again") == {"cancelled": True, "status": "compensating"}

        assert (run.history(), world.sql("SELECT state_version FROM saga_run")) == before
        world.release("o", "a!undo")
        assert world.wait_ended([run], 20) == {"cancelled": 1}
        assert [each.key for each in world.effects(run)] == ["a", "a!undo"]
        assert run.cancel() == {"cancelled": True, "status": "cancelled"}
        check(world, [run])


def test_b17_a_broker_flushed_in_the_middle_of_the_undos_loses_none(
    private_redis: PrivateRedis, tmp_path: Path
) -> None:
    import redis

    settings = {"broker_url": private_redis.url}
    orders = [f"o{number}" for number in range(12)]
    plan = [C_FAILS, *(Fault(order, "b!undo", "before_effect", "hold") for order in orders[:2])]
    with (
        world_with("redis", tmp_path, broker_settings=settings, worker_prefetch_multiplier=1) as world,
        world.worker(plan),
    ):
        held = [s3.start(order) for order in orders[:2]]
        world.wait_sql("SELECT count(*) FROM saga_step WHERE key = 'b!undo' AND status = 'running'", 2)
        # Both slots are held in an undo, so what is sent now stays in the broker.
        runs = held + [s3.start(order) for order in orders[2:]]
        with redis.Redis.from_url(private_redis.url) as client:
            assert client.llen("celery") > 0
            client.flushall()
        for order in orders[:2]:
            world.release(order, "b!undo")
        assert world.wait_ended(runs, 40) == {"failed": 12}

        for run in runs:
            assert [each.key for each in world.effects(run)] == ["a", "b", "b!undo", "a!undo"]
        check(world, runs)
