"""Schedules in real workers: settings are synced, two sweepers fire each time once, and Celery's own beat works."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from celery_saga.core.schedules import FireOutcome
from tests.runtime.places import Place, place_with
from tests.schedules.beat import beating
from tests.workers import wait_until, workers

OFTEN = {"often": {"saga": "schedules_tick", "every": 0.2, "overlap": "allow", "catch_up": "all"}}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with place_with("redis", tmp_path, module="tests.schedules.project", saga_sweep_interval=0.05) as made:
        yield made


def test_two_sweepers_fire_each_nominal_time_once_and_settings_that_are_gone_fire_no_more(place: Place) -> None:
    saga: Any = place.shop.app.saga
    with_it = {"more": {"SHOP_SETTINGS": _settings(place, saga_schedules=OFTEN)}}
    with workers(place.worker(pool="solo", **with_it), place.worker(pool="threads", **with_it)):
        wait_until(lambda: len(_fires(saga)) >= 20, what="20 fires")
        fires = _fires(saga)[:20]
        wait_until(lambda: all(saga.get(fire.run_id).status == "completed" for fire in fires), what="their runs")
    later = _fires(saga)
    runs = {run.id: run for run in saga.runs(saga="schedules_tick", limit=10_000)}

    with place.worker(pool="solo", more={"SHOP_SETTINGS": _settings(place, saga_schedules={})}):
        wait_until(lambda: saga.schedules() == [], what="the schedule's removal")

    assert {fire.outcome for fire in later} == {FireOutcome.FIRED}
    nominal = [fire.nominal_at for fire in later]
    assert [at - nominal[0] for at in nominal] == [timedelta(seconds=0.2) * n for n in range(len(nominal))]
    assert {fire.run_id: fire.nominal_at for fire in later} == {id_: run.scheduled_for for id_, run in runs.items()}


@pytest.mark.heavy
def test_celerys_own_beat_starts_runs_by_the_task_of_the_saga(place: Place, tmp_path: Path) -> None:
    saga: Any = place.shop.app.saga
    options = ("-s", str(tmp_path / "beat"), "--max-interval=1")
    with place.worker(pool="solo"), beating(place.module, place.environment, *options):
        wait_until(lambda: len(_completed(saga)) >= 3, what="three runs")

    found = _completed(saga)
    assert {(run.result, run.scheduled_for) for run in found} == {("beat", None)}
    assert saga.schedules() == []


def _completed(saga: Any) -> list[Any]:
    ended = saga.runs(saga="schedules_tick", status="completed")
    return [saga.engine.run_of(run.id) for run in ended]


def _fires(saga: Any) -> list[Any]:
    found: list[Any] = saga.store.fires("schedules_tick", "often", limit=1000)[::-1]
    return found


def _settings(place: Place, **more: Any) -> str:
    return json.dumps(place.settings | more)
