"""Runs of real workers in a real Flower: what it shows, and what a search finds."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from celery_saga.client.handle import RunHandle
from celery_saga.runtime.showing.workers import Workers
from tests.flower.board import Board
from tests.runtime.places import Place, place_with
from tests.workers import Worker, wait_until

pytestmark = pytest.mark.servers


@dataclass
class Scene:
    """One Flower, and a worker that was started after a first run."""

    place: Place
    board: Board
    worker: Worker
    early: RunHandle[Any]
    pending: dict[str, Any]

    @property
    def shop(self) -> Any:
        return self.place.shop


@pytest.fixture(scope="module", params=[pytest.param("redis-threads", marks=pytest.mark.heavy), "rabbitmq-prefork"])
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    broker, pool = request.param.split("-")
    # On the one the settings say so, to clients too; on the other the worker's command line alone.
    told: dict[str, Any] = {"worker_send_task_events": True} if broker == "redis" else {}
    directory = tmp_path_factory.mktemp("flower")
    with (
        place_with(broker, directory, module="tests.flower.shop", task_send_sent_event=True, **told) as place,
        Board(place.module, place.environment, place.shop.app) as board,
    ):
        early = place.shop.order.start("early")
        pending = board.wait_for_state(early.id, "PENDING")
        options = ("-Q", "shop", *(() if told else ("-E",)))
        with place.worker(pool=pool, options=options) as worker:
            yield Scene(place, board, worker, early, pending)


def test_a_run_is_shown_before_any_worker_is_up(scene: Scene) -> None:
    pending = scene.pending

    assert (pending["name"], pending["args"], pending["worker"]) == ("saga.flower-order", "()", None)
    assert ast.literal_eval(pending["kwargs"]) == {"saga_run": scene.early.id, "key": "early", "version": 1}


def test_a_run_has_its_steps_as_children_and_a_search_for_its_id_finds_them(scene: Scene) -> None:
    run = scene.early
    shown = scene.board.wait_for_state(run.id, "SUCCESS")
    wait_until(lambda: scene.board.search(run.id, state="SUCCESS").__len__() == 3, what="the steps")
    by_name = {each["name"]: each for each in scene.board.search(run.id).values()}

    assert set(by_name) == {"saga.flower-order", "flower.reserve", "flower.ship"}
    assert scene.board.search(f"kwargs:saga_run={run.id}").keys() == scene.board.search(run.id).keys()
    assert ast.literal_eval(shown["result"]) == {"status": "completed", "steps": 2}
    assert shown["runtime"] > 0
    assert shown["worker"] == scene.worker.name
    shown = scene.board.task(run.id) or {}
    assert set(shown["children"]) == {each["uuid"] for each in by_name.values()} - {run.id}
    assert {by_name[name]["parent"] for name in ("flower.reserve", "flower.ship")} == {run.id}
    assert ast.literal_eval(by_name["flower.ship"]["kwargs"]) == {"saga_run": run.id, "step": "ship"}


def test_a_run_that_is_undone_is_compensating_and_then_failed(scene: Scene) -> None:
    run = scene.shop.order.start("none-held")
    undone = scene.board.wait_for_state(run.id, "COMPENSATING")
    scene.place.log.with_name("gate").touch()
    failed = scene.board.wait_for_state(run.id, "FAILURE")

    assert ast.literal_eval(undone["result"])["status"] == "compensating"
    assert ast.literal_eval(failed["exception"])["error"] == "tests.flower.shop.OutOfStock"
    wait_until(lambda: len(scene.board.search(f"{run.id} AND name:flower.release")) == 1, what="the undo")


def test_a_run_that_waits_is_waiting_and_goes_on(scene: Scene) -> None:
    run = scene.shop.approval.start()
    scene.board.wait_for_state(run.id, "WAITING")
    run.signal(scene.shop.GO, "held")

    assert scene.board.wait_for_state(run.id, "SUCCESS")["retries"] == 0


def test_a_cancel_that_no_worker_had_a_part_in_is_shown(scene: Scene) -> None:
    run = scene.shop.approval.start()
    scene.board.wait_for_state(run.id, "WAITING")
    run.cancel()

    assert "cancelled" in scene.board.wait_for_state(run.id, "REVOKED", timeout_s=40.0)["result"]


def test_a_step_that_is_tried_again_is_one_task_and_keeps_its_run(scene: Scene) -> None:
    run = scene.shop.retried.start()
    scene.board.wait_for_state(run.id, "SUCCESS")
    wait_until(lambda: len(scene.board.search(run.id, state="SUCCESS")) == 2, what="the step")

    (step,) = [each for each in scene.board.search(run.id).values() if each["uuid"] != run.id]
    assert step["retried"] and step["retries"] == 2
    assert ast.literal_eval(step["kwargs"]) == {"saga_run": run.id, "step": "flaky"}
    assert step["parent"] == step["root"] == run.id


def test_inline_steps_are_children_too(scene: Scene) -> None:
    run = scene.shop.inline.start("none")
    scene.board.wait_for_state(run.id, "FAILURE")
    wait_until(lambda: len(scene.board.search(run.id)) == 4, what="the steps")

    shown = scene.board.task(run.id) or {}
    assert len(shown["children"]) == 3


def test_there_are_no_ghosts_no_payloads_and_no_tasks_of_the_engine(scene: Scene) -> None:
    """After whatever ran before in this module, or, alone, after the first run."""
    scene.board.wait_for_state(scene.early.id, "SUCCESS")

    assert scene.board.workers() == {scene.worker.name}
    assert scene.board.search("secret") == {}
    assert scene.board.search("name:celery_saga") == {}


def test_who_is_no_worker_finds_the_name_of_one(scene: Scene) -> None:
    workers = Workers(scene.shop.app)
    try:
        assert workers.one("elsewhere:1") == workers.one("localhost:1") == scene.worker.name
    finally:
        workers.close()
