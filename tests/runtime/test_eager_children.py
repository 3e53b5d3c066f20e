"""Children where runs are executed in their caller's process, and sagas as Celery's signatures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import chain

from celery_saga import DefinitionError, Run, saga
from tests.runtime.places import Place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    settings = {
        "task_always_eager": True,
        "broker_url": "redis://127.0.0.1:1/0",  # nobody is there
        "saga_database_url": f"sqlite:///{tmp_path}/sagas.db",
    }
    found = Place(settings, tmp_path)
    yield found
    found.close()


def test_a_wait_for_a_run_drives_the_children_of_its_children(place: Place) -> None:
    @saga(name="eager_leaf")
    def leaf(run: Run, word: str) -> str:
        run.sleep(0.05)
        return word

    @saga(name="eager_middle")
    def middle(run: Run) -> str:
        run.sleep(0.05)
        return run.child(leaf.options(countdown=0.05), "deep")

    @saga(name="eager_root")
    def root(run: Run) -> str:
        return run.child(middle)

    handle = root.start()
    before = handle.status

    assert handle.wait(10) == "deep"
    assert before == "waiting"


def test_a_signature_of_a_saga_starts_a_run_where_celery_executes_it(place: Place) -> None:
    @saga(name="eager_signed")
    def signed(run: Run, number: int) -> int:
        return number + 1

    def number() -> int:
        return 5

    five = place.shop.app.task(name="eager.five", shared=False)(number)

    alone, chained = signed.s(1).delay().get(), chain(five.s(), signed.s()).delay().get()

    assert signed.get(alone).wait(5) == 2
    assert signed.get(chained).wait(5) == 6


def test_a_saga_in_a_durable_canvas_is_refused(place: Place) -> None:
    @saga(name="eager_canvassed")
    def canvassed(run: Run) -> None: ...

    with pytest.raises(DefinitionError, match="a canvas holds tasks, not sagas"):
        place.shop.app.saga.durable(chain(canvassed.s(), canvassed.s()))
