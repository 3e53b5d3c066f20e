"""R103: timers and deadlines count elapsed time when clocks change; local times are read as Python does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from celery import Celery

from celery_saga import CelerySaga, Run, RunFailed, saga
from celery_saga.testing import Lab

BERLIN = ZoneInfo("Europe/Berlin")
SPRING, AUTUMN = datetime(2026, 3, 29, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
"""Half an hour before the clocks change in Berlin, at 01:00 UTC."""


@saga(name="clocks_sleep")
def sleeping(run: Run, seconds: float) -> datetime:
    run.sleep(seconds)
    return run.now()


@saga(name="clocks_until")
def until(run: Run, at: datetime) -> datetime:
    run.sleep_until(at)
    return run.now()


@saga(name="clocks_deadline", deadline=3600)
def limited(run: Run) -> None:
    run.wait_signal("never")


def lab_at(now: datetime) -> Lab:
    app = Celery("clocks", set_as_current=False)
    app.conf.timezone = "Europe/Berlin"
    CelerySaga(app, database_url="sqlite://", sagas=[sleeping, until, limited])
    return Lab(app, now=now)


@pytest.mark.parametrize("now", [SPRING, AUTUMN])
def test_r103_an_hour_of_sleep_is_3600_seconds(now: datetime) -> None:
    with lab_at(now) as lab:
        run = lab.start(sleeping, 3600)
        lab.advance(3599)
        early = run.refresh().status
        lab.advance(1)

        assert (early, run.refresh().status) == ("waiting", "completed")
        assert run.wait() == now + timedelta(seconds=3600)


@pytest.mark.parametrize("now", [SPRING, AUTUMN])
def test_r103_a_deadline_of_an_hour_is_3600_seconds(now: datetime) -> None:
    with lab_at(now) as lab:
        run = lab.start(limited)
        lab.advance(3599)
        early = run.refresh().status
        lab.advance(1)

        assert (early, run.refresh().status) == ("waiting", "failed")
        with pytest.raises(RunFailed) as failed:
            run.wait(0)
        assert "deadline" in str(failed.value).lower()


@pytest.mark.parametrize("now", [SPRING, AUTUMN])
def test_r103_a_delayed_start_of_an_hour_is_3600_seconds(now: datetime) -> None:
    with lab_at(now) as lab:
        run = lab.start(sleeping.options(countdown=3600), 0)
        lab.advance(3599)
        early = run.refresh().status
        lab.advance(1)

        assert (early, run.refresh().status) == ("queued", "completed")


@pytest.mark.parametrize(
    ("now", "fold", "instant"),
    [
        # 02:30 is left out: it is read with the offset from before, which is 03:30, or from after (fold=1), 01:30.
        pytest.param(SPRING, 0, datetime(2026, 3, 29, 1, 30, tzinfo=UTC), id="gap"),
        pytest.param(SPRING, 1, datetime(2026, 3, 29, 0, 30, tzinfo=UTC), id="gap, fold"),
        # 02:30 comes twice: the first, or the second (fold=1).
        pytest.param(AUTUMN, 0, datetime(2026, 10, 25, 0, 30, tzinfo=UTC), id="first"),
        pytest.param(AUTUMN, 1, datetime(2026, 10, 25, 1, 30, tzinfo=UTC), id="second"),
    ],
)
def test_r103_sleep_until_a_local_time_that_is_left_out_or_comes_twice(
    now: datetime, fold: int, instant: datetime
) -> None:
    local = datetime(now.year, now.month, now.day, 2, 30, tzinfo=BERLIN, fold=fold)

    with lab_at(now - timedelta(hours=1)) as lab:
        assert lab.start(until, local).wait() == instant
