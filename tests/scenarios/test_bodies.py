"""Bodies: retries of the run, what is remembered, rich types, pinned versions, parking on failure."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from celery_saga import Retry, Run, RunFailed, saga
from tests.scenarios.house import House


class Bench:
    """Tasks that count their calls and fail as often as they are told to."""

    def __init__(self, house: House, *names: str) -> None:
        self.calls: list[str] = []
        self.fail: Counter[str] = Counter()
        for name in names:
            setattr(self, name, self._task(house, name))

    def _task(self, house: House, name: str) -> Any:
        @house.task(f"bench.{name}")
        def run() -> str:
            self.calls.append(name)
            if self.fail[name] > 0:
                self.fail[name] -= 1
                raise RuntimeError("flaky")
            return {"s1": "one", "s2": "two"}.get(name, name)

        return run

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def test_a15_a_retry_of_the_run_runs_only_the_failed_step_again(house: House) -> None:
    bench = Bench(house, "s1", "s2")
    bench.fail["s2"] = 1

    @saga(name="twice", retry=Retry(max_attempts=3, delay=0))
    def twice(run: Run) -> dict[str, str]:
        return {"a": run.step(bench.s1.si()), "b": run.step(bench.s2.si())}

    house.add(twice)
    handle = twice.start()
    house.drain()

    assert bench.calls == ["s1", "s2", "s2"]
    assert handle.wait(1) == {"a": "one", "b": "two"}


def test_a16_ten_attempts_of_a_body_run_each_step_once(house: House) -> None:
    bench = Bench(house, "x", "y", "z")
    seen: list[int] = []

    @saga(name="stubborn", retry=Retry(max_attempts=10, delay=0), errors=[LookupError])
    def stubborn(run: Run) -> None:
        for task in (bench.x, bench.y, bench.z):
            run.step(task.si())
        seen.append(1)
        raise LookupError("always")

    house.add(stubborn)
    handle = stubborn.start()
    house.drain()

    assert bench.calls == ["x", "y", "z"]
    assert len(seen) == 10
    assert handle.status == "failed"


def test_a17_without_options_a_step_is_tried_once(house: House) -> None:
    bench = Bench(house, "s1")
    bench.fail["s1"] = 5

    @saga(name="once")
    def once(run: Run) -> None:
        run.step(bench.s1.si())

    house.add(once)
    handle = once.start()
    house.drain()

    assert bench.calls == ["s1"]
    with pytest.raises(RunFailed, match="flaky"):
        handle.wait(1)


def test_a22_rich_types_keep_value_and_type(house: House) -> None:
    @house.task("seven")
    def seven() -> dict[str, int]:
        return {"value": 7}

    when = datetime(2026, 5, 1, 12, tzinfo=UTC)
    seen: list[tuple[object, object, int]] = []

    @saga(name="rich")
    def rich(run: Run, data: dict[str, Any]) -> dict[str, Any]:
        total = data["n"] + run.step(seven.si())["value"]
        seen.append((data["when"], data["tags"], data["big"]))
        return {"total": total, "when": data["when"], "tags": data["tags"], "big": data["big"]}

    house.add(rich)
    given = {"when": when, "tags": {"a", "b"}, "n": 42, "big": 2**80}
    handle = rich.start(given)
    house.drain()

    assert handle.wait(1) == {"total": 49, "when": when, "tags": {"a", "b"}, "big": 2**80}
    assert seen[-1] == (when, {"a", "b"}, 2**80)
    assert type(seen[-1][1]) is set


def test_a25_a_run_stays_with_the_version_it_started_with(house: House) -> None:
    bench = Bench(house, "old", "new")

    @saga(name="versioned", version=1)
    def v1(run: Run) -> str:
        run.wait_signal("go")
        return str(run.step(bench.old.si()))

    house.add(v1)
    handle = v1.start()
    house.drain()

    @saga(name="versioned", version=2)
    def v2(run: Run) -> str:
        run.wait_signal("go")
        return str(run.step(bench.new.si()))

    house.add(v2)
    fresh = v2.start()
    house.drain()
    handle.signal("go")
    fresh.signal("go")
    house.drain()

    assert (handle.wait(1), fresh.wait(1)) == ("old", "new")
    assert (handle.refresh().version if hasattr(handle, "version") else 1) == 1


def test_a30_on_failure_suspend_parks_and_resume_tries_the_step_again(house: House) -> None:
    bench = Bench(house, "a", "b", "undo_a")
    bench.fail["b"] = 1

    @saga(name="careful", on_failure="suspend")
    def careful(run: Run) -> str:
        run.step(bench.a.si(), undo=bench.undo_a.si())
        return str(run.step(bench.b.si()))

    house.add(careful)
    handle = careful.start()
    house.drain()
    parked = (handle.status, list(bench.calls), str(handle.error))
    house.advance(3600)
    untouched = list(bench.calls)

    handle.resume(by="operator", reason="fixed")
    house.drain()

    assert parked[:2] == ("suspended", ["a", "b"])
    assert "flaky" in parked[2]
    assert untouched == ["a", "b"]
    assert bench.calls == ["a", "b", "b"]
    assert handle.wait(1) == "b"
