"""Progress: what is written, when, and under whose token."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from celery_saga import Run, Saga, SagaError, current_step, saga
from celery_saga.client import progress
from celery_saga.client.progress import Progress
from celery_saga.core.attempts import Failed, Succeeded
from celery_saga.core.failure import capture
from celery_saga.core.ports import Claimed
from celery_saga.runtime.attempt import Attempt
from celery_saga.runtime.reports import EVERY_S, Reports
from celery_saga.store import SqlStore
from tests.definition.passes import NOW
from tests.scenarios.house import House
from tests.servers import fresh_mariadb_database, fresh_postgresql_database
from tests.workers import wait_until


@contextmanager
def _database(kind: str) -> Iterator[str]:
    if kind == "sqlite":
        yield "sqlite://"
    else:
        with fresh_postgresql_database("psycopg2") if kind == "postgresql" else fresh_mariadb_database() as url:
            yield url


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def house(request: pytest.FixtureRequest) -> Iterator[House]:
    with _database(request.param) as url, House(url) as built:
        yield built


def long_saga(house: House) -> Saga[[], None]:
    @house.task("progress.long")
    def long() -> None:
        pass

    @saga(name="progress_long")
    def progress_long(run: Run) -> None:
        run.step(long.si())

    house.add(progress_long)
    return progress_long


def report(house: House, claimed: Claimed, text: str, *, token: str | None = None) -> bool:
    step = claimed.step
    mine = step.claim_token or ""
    return house.store.report_progress(step.run_id, step.generation, step.key, token=token or mine, progress_text=text)


def test_a_running_attempt_writes_it_and_nothing_else_moves(house: House) -> None:
    handle = long_saga(house).start()
    claimed = house.claim_next()
    before = house.store.load(handle.id)
    house.now += timedelta(seconds=5)

    landed = report(house, claimed, '[1, 4, "w\\u00f6rking \\u0000"]')

    after = house.store.load(handle.id)
    assert landed and before is not None and after is not None
    assert handle.progress == {"long": Progress(1, 4, "wörking \x00", house.now)}
    assert after.snapshot.run == before.snapshot.run
    assert house.finish(claimed), "its check-in is not disturbed"
    assert handle.progress["long"].current == 1


def test_without_the_token_or_after_the_end_nothing_is_written(house: House) -> None:
    handle = long_saga(house).start()
    claimed = house.claim_next()

    assert not report(house, claimed, "[1, null, null]", token="somebody else's")
    assert house.finish(claimed)
    assert not report(house, claimed, "[1, null, null]")
    assert handle.progress == {}


def test_what_is_not_written_goes_along_with_the_check_in(house: House) -> None:
    long = long_saga(house)
    for outcome in (Succeeded("null", "[2, 2, null]"), Failed(capture(LookupError()), None, False, "[2, 2, null]")):
        handle = long.start()
        claimed = house.claim_next()

        house.engine.check_in(claimed, outcome)

        assert handle.progress == {"long": Progress(2, 2, None, house.now)}
        house.drain()


# -- the thread that writes ------------------------------------------------------------------------------------------
class Counting:
    """Counts the reports that a store writes, and can make one wait."""

    def __init__(self, store: SqlStore) -> None:
        self.written: list[float] = []
        self.entered, self.go = threading.Event(), threading.Event()
        self.go.set()
        store.trace = self

    def __call__(self, point: str, *_: Any) -> None:
        if point == "before:report progress":
            self.written.append(time.monotonic())
            self.entered.set()
            assert self.go.wait(10)


@pytest.fixture
def fast() -> Iterator[House]:
    with House("sqlite://") as built:
        yield built
        built.store.trace = None


def attempt_of(house: House) -> Attempt:
    services: Any = None
    return Attempt(None, house.claim_next(), services)


def test_at_most_one_write_a_second_and_the_first_at_once(fast: House) -> None:
    handle = long_saga(fast).start()
    attempt, reports, counting = attempt_of(fast), Reports(fast.store), Counting(fast.store)

    begun_s = time.monotonic()
    number = 0
    while len(counting.written) < 3 and time.monotonic() - begun_s < 30:
        number += 1
        reports.put(attempt, f"[{number}, null, null]")
        time.sleep(0.001)
    number += 1
    reports.put(attempt, f"[{number}, null, null]")  # too early to be written by itself
    last = reports.take(attempt)

    gaps = [after - before for before, after in zip(counting.written, counting.written[1:], strict=False)]
    assert len(counting.written) == 3
    assert counting.written[0] - begun_s < EVERY_S
    assert all(gap >= EVERY_S * 0.98 for gap in gaps)
    assert last == f"[{number}, null, null]"
    assert handle.progress["long"].current > 1


def test_a_report_whose_write_is_under_way_still_goes_along_with_the_end(fast: House) -> None:
    long_saga(fast).start()
    attempt, reports, counting = attempt_of(fast), Reports(fast.store), Counting(fast.store)
    counting.go.clear()

    reports.put(attempt, "[1, null, null]")
    assert counting.entered.wait(5)

    assert reports.take(attempt) == "[1, null, null]"
    counting.go.set()


def test_a_report_that_is_written_does_not_go_along(fast: House) -> None:
    handle = long_saga(fast).start()
    attempt, reports = attempt_of(fast), Reports(fast.store)

    reports.put(attempt, "[1, null, null]")
    wait_until(lambda: bool(handle.progress), 5, "the report is there")
    wait_until(lambda: reports._of[id(attempt)].text is None, 5, "its thread knows it")

    assert reports.take(attempt) is None


def test_a_database_that_is_away_costs_the_task_nothing(fast: House) -> None:
    long_saga(fast).start()
    attempt, reports = attempt_of(fast), Reports(fast.store)
    failed = threading.Event()

    def broken(point: str, *_: Any) -> None:
        if point == "before:report progress":
            failed.set()
            raise ConnectionError("away")

    fast.store.trace = broken
    begun_s = time.perf_counter()
    reports.put(attempt, "[1, null, null]")
    took_s = time.perf_counter() - begun_s

    assert failed.wait(5)
    fast.store.trace = None
    assert took_s < 1.0  # the store alone would try again for 5 s
    assert reports.take(attempt) == "[1, null, null]"


# -- what can be reported --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((1,), "[1, null, null]"),
        ((0.5, 1), "[0.5, 1, null]"),
        ((Decimal("2.0"), 4.0, "half"), '[2, 4, "half"]'),
        ((3, None, "x" * 500), f'[3, null, "{"x" * 200}"]'),
        ((3, None, "\ud800"), '[3, null, "?"]'),
    ],
)
def test_numbers_and_a_line_of_text_are_taken(given: tuple[Any, ...], text: str) -> None:
    current, total, message = (*given, None, None)[:3]

    assert progress.text_of(current, total, message, step="s") == text


@pytest.mark.parametrize("given", [("1", None), (float("nan"), None), (1, float("inf")), (None, 3), (True, 3)])
def test_what_cannot_be_shown_is_logged_and_left_out(given: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "celery_saga.step"):
        assert progress.text_of(given[0], given[1], None, step="s") is None

    assert "the report was left out" in caplog.text


@pytest.mark.parametrize(
    ("current", "total", "fraction"), [(1, 4, 0.25), (5, 4, 1.0), (-1, 4, 0.0), (1, None, None), (1, 0, None)]
)
def test_the_part_that_is_done_is_between_0_and_1(current: float, total: float | None, fraction: float | None) -> None:
    assert Progress(current, total, None, NOW).fraction == fraction


def test_outside_a_step_it_says_so() -> None:
    with pytest.raises(SagaError, match=r"current_step\.progress was read outside a step"):
        current_step.progress(1)
