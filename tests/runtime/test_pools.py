"""What each pool must keep up while steps are long, children are forked, and tasks are missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.places import place_with
from tests.workers import wait_until, workers

pytestmark = pytest.mark.servers


@pytest.mark.parametrize(("pool", "driver"), [("threads", "psycopg2"), ("solo", "psycopg2"), ("gevent", "psycopg")])
def test_a_step_longer_than_the_lease_starts_once(pool: str, driver: str, tmp_path: Path) -> None:
    with place_with("redis", tmp_path, driver=driver) as place, place.worker(pool=pool):
        run = place.shop.trouble.start("slow")
        assert run.wait(20) == "waited"

        assert [line.split()[:2] for line in place.calls()] == [["slow", "1"], ["slow", "ends"]]
        assert [(step.attempt, step.stalls) for step in run.steps()] == [(1, 0)]


def test_children_that_are_forked_anew_for_each_task_do_not_hang(tmp_path: Path) -> None:
    often = ("--max-tasks-per-child", "2")
    with (
        place_with("redis", tmp_path, saga_sweep_interval=0.05) as place,
        place.worker(concurrency=2, options=often),
    ):
        runs = [place.shop.checkout.start(f"o{n}", 500) for n in range(4)]
        results = [run.wait(60) for run in runs]

        assert results == ["ch-500"] * 4
        assert {step.stalls for run in runs for step in run.steps()} == {0}


def test_a_worker_that_lacks_the_task_leaves_the_step_to_one_that_has_it(tmp_path: Path) -> None:
    with place_with("redis", tmp_path, saga_lease=1.0) as place:
        lacking = place.worker(more={"SHOP_MODE": "without_kinds"}, concurrency=1)
        with workers(lacking):
            run = place.shop.kind_of.start("classy")
            lacking.wait_for_line("needs the task 'kinds.classy'")
            status = run.status
        with place.worker(concurrency=1):
            assert run.wait(30) == 4

        assert status in {"queued", "running"}
        assert [(step.attempt, step.stalls) for step in run.steps()] == [(1, 0)]


def test_a_router_that_refuses_our_names_is_told_at_start(tmp_path: Path) -> None:
    strict = ["tests.runtime.shop:only_the_shops"]
    with place_with("redis", tmp_path, task_routes=strict) as place, place.worker(concurrency=1) as worker:
        told = "ROUTE_REFUSED: The app's routing refuses celery_saga.coordinate"
        wait_until(lambda: told in worker.text, what="told")
