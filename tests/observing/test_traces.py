"""Runs in traces: real workers with OpenTelemetry's SDK, what they send, and what becomes of it when they die."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.observing.collector import Collector, Span, collecting
from tests.runtime.places import Place, place_with
from tests.workers import ROOT, Worker, wait_until

pytestmark = pytest.mark.servers

CONSUMER, INTERNAL, PRODUCER = 5, 1, 4


class House:
    """A place, a collector, and callers that trace."""

    def __init__(self, place: Place, collector: Collector) -> None:
        self.place, self.collector = place, collector

    def worker(self, *, mode: str = "", **options: Any) -> Worker:
        """One whose processes trace and count."""
        more = {"SHOP_COLLECTOR": self.collector.url, "SHOP_MODE": mode, "C_FORCE_ROOT": "1"}
        return self.place.worker(more=more, **options)

    def call(self, **words: Any) -> dict[str, str]:
        """What a caller of its own process has done, and where it was."""
        environment = {**os.environ, **self.place.environment, "SHOP_COLLECTOR": self.collector.url}
        done = subprocess.run(
            [sys.executable, "-m", "tests.observing.caller", json.dumps(words)],
            env={**environment, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
        return found

    def ends(self, run_id: str, status: str = "completed") -> None:
        """Wait for the end of a run, and for its span."""
        run = self.place.shop.app.saga.get(run_id)
        wait_until(lambda: run.refresh().status == status, what=status, timeout_s=40)
        self.arrives(
            lambda x: x.attributes.get("saga.run.id") == run_id and x.attributes.get("saga.run.status") == status
        )

    def arrives(self, claim: Callable[[Span], bool]) -> Span:
        """The first span of which this holds."""
        wait_until(lambda: any(claim(each) for each in self.collector.all()), what="a span")
        return next(each for each in self.collector.all() if claim(each))

    def run_span(self, run_id: str, generation: int = 1) -> Span:
        """The own span of a run."""
        found = self.collector.spans(saga__run__id=run_id, saga__run__generation=generation)
        (span,) = {each.id: each for each in found if each.name.startswith("saga ")}.values()
        return span


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with place_with("rabbitmq", tmp_path, module="tests.observing.shop") as place, collecting() as collector:
        yield House(place, collector)


@pytest.fixture
def redis_house(tmp_path: Path) -> Iterator[House]:
    with place_with("redis", tmp_path, module="tests.observing.shop") as place, collecting() as collector:
        yield House(place, collector)


def _steps(collector: Collector, run_id: str) -> dict[tuple[str, int], Span]:
    spans = sorted(collector.spans(saga__run__id=run_id), key=lambda each: each.start_ns)  # sent in any order
    found = [each for each in spans if "saga.step.key" in each.attributes]
    return {(each.attributes["saga.step.key"], each.attributes["saga.step.attempt"]): each for each in found}


def _ancestors(collector: Collector, span: Span) -> list[str]:
    by_id = {each.id: each for each in collector.all()}
    found = []
    while span.parent in by_id:
        span = by_id[span.parent]
        found.append(span.name)
    return found


def test_one_trace_from_the_caller_through_retries_workers_and_a_killed_child(house: House) -> None:
    with house.worker():
        calm = house.call(saga="order", args=["again"])
        house.ends(calm["run"])
        undone = house.call(saga="inline", args=["declined"])
        house.ends(undone["run"], "failed")
        killed = house.call(saga="order", args=["killed"])
        house.ends(killed["run"])

    collector = house.collector
    for call, status in ((calm, "completed"), (undone, "failed"), (killed, "completed")):
        run = house.run_span(call["run"])
        assert (run.trace, run.parent, run.kind) == (call["trace"], call["span"], INTERNAL)
        assert run.attributes["saga.run.status"] == status
        for step in _steps(collector, call["run"]).values():
            assert (step.trace, step.kind) == (run.trace, CONSUMER)
            assert run.name in _ancestors(collector, step)
            assert run.start_ns <= step.start_ns
    steps = _steps(collector, calm["run"])
    assert list(steps) == [("reserve", 1), ("charge", 1), ("charge", 2), ("charge", 3)]
    assert [each.is_error for each in steps.values()] == [False, True, True, False]
    assert steps["charge", 1].attributes["error.type"] == "tests.observing.shop.TelFault"
    assert steps["charge", 1].events == ["exception"]
    assert steps["charge", 1].attributes["celery.action"] == "run"  # it is the instrumentation's span
    failed = _steps(collector, undone["run"])
    assert list(failed) == [("reserve", 1), ("charge", 1), ("reserve!undo", 1)]
    assert failed["reserve!undo", 1].attributes["saga.step.undo_of"] == "reserve"
    assert failed["reserve!undo", 1].attributes["saga.step.kind"] == "undo"
    assert (failed["charge", 1].is_error, failed["charge", 1].events) == (False, ["exception"])  # declared
    assert house.run_span(undone["run"]).is_error
    again = _steps(collector, killed["run"])[("charge", 2)]
    assert again.events[0] == "saga.attempts.lost"
    assert not [x for x in collector.all() if x.name.startswith(("run/", "apply_async/")) and not x.parent]


def test_a_run_that_waits_for_a_timer_and_a_signal_across_two_workers(redis_house: House) -> None:
    house = redis_house
    with house.worker():
        call = house.call(saga="waiting")
        run = house.place.shop.app.saga.get(call["run"])
        wait_until(lambda: [x.kind for x in run.refresh().waiting_on] == ["signal"], what="the wait")
    sent = house.call(run=call["run"], signal="go")
    with house.worker():
        house.ends(call["run"])

    span = house.run_span(call["run"])
    assert span.trace == call["trace"]
    assert [each for each in span.events if each.startswith(("saga.timer", "saga.signal"))] == [
        *("saga.timer.ok", "saga.signal.signal"),
    ]
    (signal,) = house.collector.spans(saga__signal__name="go")
    assert (signal.name, signal.kind, signal.trace) == ("signal go", PRODUCER, sent["trace"])
    assert signal.links == [(span.trace, span.id)]
    assert _steps(house.collector, call["run"])["reserve", 1].trace == call["trace"]


@pytest.mark.heavy
def test_children_are_in_the_trace_and_what_begins_again_is_linked(redis_house: House) -> None:
    house = redis_house
    with house.worker():
        family = house.call(saga="parent", args=["good"])
        house.ends(family["run"])
        rounds = house.call(saga="rounds", args=[2])
        house.ends(rounds["run"])

    parent = house.run_span(family["run"])
    (child,) = house.collector.spans(saga__run__parent_id=family["run"])
    assert (child.trace, child.parent) == (family["trace"], parent.id)
    first, second, third = (house.run_span(rounds["run"], number) for number in (1, 2, 3))
    assert (first.trace, first.attributes["saga.run.status"]) == (rounds["trace"], "continued")
    assert (second.parent, second.links) == ("", [(first.trace, first.id)])
    assert (third.parent, third.links) == ("", [(second.trace, second.id)])
    assert len({first.trace, second.trace, third.trace}) == 3
    assert second.start_ns >= first.end_ns - 1_000_000
    steps = [x for x in house.collector.spans(saga__run__id=rounds["run"]) if "saga.step.key" in x.attributes]
    assert {(x.trace, x.attributes["saga.run.generation"]) for x in steps} == {
        *((first.trace, 1), (second.trace, 2), (third.trace, 3)),
    }


@pytest.mark.heavy
def test_without_the_instrumentation_and_from_a_caller_that_does_not_trace(redis_house: House) -> None:
    house = redis_house
    with house.worker(mode="bare"):
        run = house.place.shop.parent.start("again")
        house.ends(run.id)

    span = house.run_span(run.id)
    assert span.parent == ""
    (child,) = house.collector.spans(saga__run__parent_id=run.id)
    assert (child.trace, child.parent) == (span.trace, span.id)
    steps = _steps(house.collector, child.attributes["saga.run.id"])
    assert [(each.name, each.trace, each.parent, each.is_error) for each in steps.values()] == [
        ("run/tel.reserve", span.trace, child.id, False),
        ("run/tel.charge", span.trace, child.id, True),
        ("run/tel.charge", span.trace, child.id, True),
        ("run/tel.charge", span.trace, child.id, False),
    ]


def test_what_is_counted_and_that_one_process_reads_the_gauges(redis_house: House) -> None:
    house, points = redis_house, redis_house.collector.points

    def total(name: str, **wanted: str) -> float:
        """The sum over processes of the latest value of each series."""
        latest: dict[tuple[str, str], float] = {}
        for instance, told, value in points(name):
            if {key.replace("__", "."): text for key, text in wanted.items()}.items() <= told.items():
                latest[instance, str(sorted(told.items()))] = value
        return sum(latest.values())

    with house.worker():
        for number in ("good", "declined", "fault", "again"):
            house.place.shop.order.start(number)
        house.place.shop.waiting.start()
        house.place.shop.buggy.start()
        wait_until(lambda: total("saga.runs.ended", saga__name="tel_order") == 4, what="the ends", timeout_s=40)
        house.place.shop.order.start("killed")  # what a killed process has not sent yet is not counted
        wait_until(lambda: total("saga.runs.ended", saga__name="tel_order") == 5, what="the last", timeout_s=40)
        wait_until(lambda: total("saga.desk.runs") == 1, what="the desk", timeout_s=20)
        wait_until(
            lambda: total("saga.runs", saga__name="tel_waiting", saga__run__status="waiting") == 1, what="the live runs"
        )
        wait_until(lambda: total("saga.stalls", saga__name="tel_order") == 1, what="the stall")

    assert total("saga.runs.ended", saga__run__status="failed") == 2
    assert total("saga.step.attempts", saga__step__task="tel.charge", saga__step__outcome="failed") == 4
    assert total("saga.step.attempts", saga__step__task="tel.charge", saga__step__outcome="ok") == 3
    assert total("saga.undos", saga__step__outcome="done") == 2
    assert total("saga.run.duration", saga__name="tel_order") == 5  # its count
    assert total("saga.step.duration", saga__step__kind="undo") == 2
    assert len({instance for instance, _, _ in points("saga.desk.runs")}) == 1
    assert len({instance for instance, _, _ in points("saga.step.attempts")}) > 1
    assert points("saga.wakeup.overdue")
