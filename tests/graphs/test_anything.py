"""Whatever graph is taken, its runs come to an end or are parked with a reason that names the state."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest

from celery_saga import Saga
from celery_saga.core.status import RunStatus
from celery_saga.definition.graph.check import all_faults
from celery_saga.errors import DefinitionError
from tests.graphs.corpus import GOOD
from tests.graphs.test_check import damage
from tests.scenarios.house import House

ROUNDS = 20
INPUTS: list[Any] = [
    None,
    [1, 2, 3],
    {
        "id": "i1",
        "order": {"id": "o1"},
        "lines": [{"sku": "a"}],
        "items": [1, 2],
        "cents": 5,
        "currency": "EUR",
        "express": True,
        "other": True,
        "at": 5,
    },
]


def _tasks(value: Any) -> Iterator[str]:
    """Every text that may be the name of a task."""
    if isinstance(value, dict):
        for entry in value.values():
            yield from _tasks(entry)
    elif isinstance(value, list):
        for item in value:
            yield from _tasks(item)
    elif isinstance(value, str):
        yield value


def _taken(draw: random.Random) -> dict[str, Any]:
    while True:
        given = copy.deepcopy(GOOD[draw.choice(list(GOOD))])
        for _ in range(draw.choice((0, 1, 1, 2))):
            damage(given, draw)
        if not all_faults(given):
            return given


@pytest.mark.parametrize("seed", range(3))
def test_a_run_of_any_graph_that_is_taken_ends_or_is_parked_with_the_name_of_the_state(seed: int) -> None:
    draw = random.Random(seed)
    seen: set[str] = set()
    for number in range(ROUNDS):
        given = {**_taken(draw), "name": f"any-{seed}-{number}"}
        with House("sqlite://", duplicate=draw.random() < 0.5) as house:
            seen.add(_followed(house, given, draw))

    assert len(seen) > 1


def _followed(house: House, given: dict[str, Any], draw: random.Random) -> str:
    """The status in which a run of this graph comes to rest."""
    chances = random.Random(draw.random())

    def work(*args: Any, **kwargs: Any) -> Any:
        if chances.random() < 0.3:
            raise chances.choice((LookupError("gone"), TimeoutError("slow")))
        return chances.choice(({"id": 1, "done": True}, {"done": False, "by": "x"}, [1], None, "text"))

    for name in set(_tasks(given)):
        house.task(name)(work)
    saga = Saga.from_graph(given)
    house.add(saga)
    handle = saga.start(draw.choices(INPUTS, [1, 1, 4])[0])
    house.drain(limit=5000)
    for name in saga.signals:
        if not handle.refresh().status.is_end and draw.random() < 0.7:
            handle.signal(name, {"by": "boss"})
    house.drain(limit=5000)
    for _ in range(6):
        house.advance(10**7)
    _check(house, handle, given)
    return str(handle.refresh().status)


def _check(house: House, handle: Any, given: dict[str, Any]) -> None:
    run = house.engine.run_of(handle.id)
    if run.status is RunStatus.SUSPENDED:
        error = handle.refresh().error
        told = str(error)
        is_ours = isinstance(error, DefinitionError) and told.startswith("state ") and run.reason == "body_error"
        assert is_ours or run.reason == "undo_unknown", (run.reason, told, given)
    elif not run.status.is_end:
        # Only a wait without time-out is left, or a loop that goes on for ever.
        assert run.status in {RunStatus.WAITING, RunStatus.RUNNING, RunStatus.QUEUED}, (run, given)
