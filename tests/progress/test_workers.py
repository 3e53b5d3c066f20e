"""Steps report their progress from real workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from celery_saga.client.waiting import pauses_s
from tests.runtime.places import Place, place_with

TOTAL = 5000


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with place_with("redis", tmp_path, module="tests.progress.app") as made:
        yield made


def eventually(look: Callable[[], Any]) -> Any:
    for pause_s in pauses_s(20):
        if found := look():
            return found
        time.sleep(pause_s)
    raise AssertionError("it never came")


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo", "gevent"])
def test_progress_is_seen_while_the_step_runs_and_its_last_word_with_its_end(place: Place, pool: str) -> None:
    with place.worker(pool=pool):
        handle = place.shop.counted.start(TOTAL)

        middle = eventually(lambda: (x := handle.progress.get("count")) and x.current >= TOTAL // 2 and x)
        assert (middle.total, middle.message, middle.fraction) == (TOTAL, f"number {TOTAL // 2}", 0.5)
        (waiting,) = handle.waiting_on
        assert (waiting.kind, waiting.name, waiting.until) == ("step", "count", None)
        versions = handle.refresh()._engine.store.load(handle.id).snapshot.run.state_version
        (place.log.parent / "go").touch()
        spent_s = handle.wait(20)

    last = handle.progress["count"]
    assert (last.current, last.total, last.fraction, last.message) == (TOTAL, TOTAL, 1.0, f"number {TOTAL}")
    assert last.at >= middle.at
    assert handle._engine.store.load(handle.id).snapshot.run.state_version == versions + 1
    assert spent_s / TOTAL < 0.001


def test_a_step_that_fails_keeps_how_far_it_came(place: Place) -> None:
    with place.worker():
        handle = place.shop.breaking.start()
        eventually(handle.ready)

    assert handle.status == "failed"
    assert (handle.progress["failing"].current, handle.progress["failing"].message) == (1.5, None)
