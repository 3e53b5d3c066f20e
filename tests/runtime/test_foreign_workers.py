"""Workers without celery_saga: on the same queue by accident, and as places for remote steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from celery_saga import RunFailed, StepTimeout
from tests.runtime.places import Place, place_with
from tests.workers import wait_until, workers

pytestmark = pytest.mark.servers
FOREIGN = "tests.runtime.foreign"


@pytest.fixture(params=["redis", "rabbitmq"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    settings = {
        "task_routes": {"foreign.*": {"queue": "abroad"}},
        "result_backend": f"db+sqlite:///{tmp_path}/results.db",
        "saga_lease": 1.0,
    }
    with place_with(request.param, tmp_path, **settings) as found:
        yield found


def test_a_worker_without_the_plug_in_rejects_steps_unread_and_all_runs_complete(place: Place) -> None:
    with workers(place.worker(concurrency=1), place.worker(app=FOREIGN, concurrency=1)) as (_, foreign):
        runs = [place.shop.checkout.start(f"o{n}", 500) for n in range(2)]
        assert [run.wait(60) for run in runs] == ["ch-500"] * 2
        foreign.wait_for_line("celery_saga.")

    assert [line for line in place.calls() if "STOLEN" in line] == []
    assert sum(line.startswith("charge") for line in place.calls()) == 2


def test_a_remote_step_runs_on_a_worker_without_the_plug_in(place: Place) -> None:
    with workers(place.worker(concurrency=1), place.worker(app=FOREIGN, options=("-Q", "abroad"), concurrency=1)):
        assert place.shop.remotely.start("hey").wait(20) == "HEY"
        run = place.shop.remotely.start("bad")
        with pytest.raises(RunFailed) as failed:
            run.wait(20)

    assert isinstance(failed.value.cause, ValueError)
    assert str(failed.value.cause) == "no shouting"
    assert place.calls() == ["shout hey", "shout bad"]


def test_a_remote_step_that_nobody_takes_times_out(place: Place) -> None:
    with place.worker(concurrency=1):
        run = place.shop.remotely.start("hey")
        with pytest.raises(RunFailed) as failed:
            run.wait(20)

    assert isinstance(failed.value.cause, StepTimeout)
    wait_until(lambda: run.refresh().status == "failed", what="failed")
