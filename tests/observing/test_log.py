"""What is above INFO in the log of a worker, Celery's own records included, whatever happens to runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.places import Place, place_with
from tests.workers import wait_until

pytestmark = pytest.mark.servers

_STEP, _RUN = "celery_saga.step", "celery_saga.run"
_WARNING, _ERROR = ("WARNING", _STEP), ("ERROR", _RUN)

SCENARIOS: dict[str, tuple[Callable[[Any], Any], str, list[tuple[str, str]]]] = {
    "completes": (lambda shop: shop.order.start("good"), "completed", []),
    "a declared failure, undone": (lambda shop: shop.order.start("declined"), "failed", []),
    "the same inline": (lambda shop: shop.inline.start("declined"), "failed", []),
    "a failure that nobody declared, undone": (lambda shop: shop.order.start("fault"), "failed", [_WARNING]),
    "that inline": (lambda shop: shop.inline.start("fault"), "failed", [_WARNING]),
    "two attempts fail": (lambda shop: shop.order.start("again"), "completed", [_WARNING] * 2),
    "two with a declared error": (lambda shop: shop.order.start("declared-again"), "completed", [_WARNING] * 2),
    "the task asks to be tried again": (lambda shop: shop.asking.start(), "completed", [_WARNING]),
    "a time-out": (lambda shop: shop.slow.start(), "failed", [_WARNING]),
    "a bug of the body": (lambda shop: shop.buggy.start(), "suspended", [_ERROR]),
    "an undo fails": (lambda shop: shop.order.start("stuck"), "compensation_failed", [_WARNING, _WARNING, _ERROR]),
    "a child fails": (lambda shop: shop.parent.start("declined"), "failed", []),
    "begins again": (lambda shop: shop.rounds.start(1), "completed", []),
    "is cancelled": (lambda shop: _cancelled(shop.waiting.start()), "cancelled", []),
    "a timer and a signal": (lambda shop: _signalled(shop.waiting.start()), "completed", []),
}


def _cancelled(handle: Any) -> Any:
    handle.cancel()
    return handle


def _signalled(handle: Any) -> Any:
    handle.signal("go", "now")
    return handle


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with place_with("redis", tmp_path, module="tests.observing.shop") as found:
        yield found


def test_one_warning_for_a_failed_attempt_one_error_for_a_parked_run_and_nothing_else(place: Place) -> None:
    with place.worker(more={"C_FORCE_ROOT": "1"}):
        runs = {name: (begin(place.shop), status) for name, (begin, status, _) in SCENARIOS.items()}
        for name, (run, status) in runs.items():
            wait_until(lambda run=run, status=status: run.refresh().status == status, what=name, timeout_s=40)
    records = [json.loads(line) for line in place.calls()]

    of_run = {run.id: name for name, (run, _) in runs.items()}
    loud = [each for each in records if each["levelname"] not in ("DEBUG", "INFO")]
    found = Counter((of_run.get(each["saga_run"], each["text"]), each["levelname"], each["name"]) for each in loud)
    expected = Counter((name, *record) for name, (_, _, several) in SCENARIOS.items() for record in several)
    assert found == expected
    tried = [each for each in loud if of_run[each["saga_run"]] == "two attempts fail"]
    assert [(each["saga_step"], each["saga_attempt"]) for each in tried] == [("charge", 1), ("charge", 2)]
    of_users = [each for each in records if each["name"] == "tel.user"]
    assert ("tel_order", "reserve", 1) in {
        (each["saga_name"], each["saga_step"], each["saga_attempt"]) for each in of_users
    }
    ends = {each["saga_run"] for each in records if each["name"] == "celery_saga.run" and "TelDeclined" in each["text"]}
    assert runs["a declared failure, undone"][0].id in ends
    traced = [each for each in records if each["name"] == "celery.app.trace" and "raised" in each["text"]]
    assert {each["levelname"] for each in traced} == {"INFO"} and all(each["saga_run"] for each in traced)


@pytest.mark.heavy
def test_a_killed_child_is_one_warning_of_ours_beside_what_the_pool_says(place: Place) -> None:
    with place.worker(more={"C_FORCE_ROOT": "1"}):
        run = place.shop.order.start("killed")
        wait_until(lambda: run.refresh().status == "completed", what="the end", timeout_s=40)
    records = [json.loads(line) for line in place.calls()]

    loud = [(each["levelname"], each["name"]) for each in records if each["levelname"] not in ("DEBUG", "INFO")]
    assert loud.count(_WARNING) == 1
    assert {name for level, name in loud} <= {_STEP, "multiprocessing", "celery.concurrency.asynpool"}
