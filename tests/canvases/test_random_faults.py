"""Random canvases whose messages come in any order, or twice, and whose tasks fail: each ends, and is undone."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from celery_saga import DefinitionError, step
from celery_saga.core.records import StepKind
from celery_saga.definition.adopted import ADOPTED
from celery_saga.definition.canvas import read_canvas, to_plain
from celery_saga.definition.canvas.tree import Node, Task
from tests.canvases.shapes import Shape, shapes
from tests.scenarios.house import House

_SETTINGS = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


class Site:
    """One task with an undo, whose so many-th call fails; it takes the place of each task of a canvas."""

    def __init__(self, house: House) -> None:
        self.done: list[str] = []
        self.undone: list[str] = []
        self.calls = 0
        self.failing: int | None = None

        @house.task("site.work")
        def work(*_: object, **__: object) -> str:
            self.calls += 1
            if self.calls == self.failing:
                raise LookupError("here")
            self.done.append(str(self.calls))
            return str(self.calls)

        @house.task("site.undo")
        def undo(number: str) -> None:
            self.undone.append(number)

        (self.work,) = [read_canvas(step(work.s(), undo=undo.s()), "durable()", "")]

    def reset(self, failing: int | None) -> None:
        self.done.clear()
        self.undone.clear()
        self.calls, self.failing = 0, failing

    def takes_over(self, node: Node) -> Node:
        """The same canvas, of this task."""
        if isinstance(node, Task):
            return self.work
        return type(node)(tuple(self.takes_over(part) for part in node.parts))


@pytest.fixture
def site(house: House) -> Site:
    return Site(house)


def deliver_in_any_order(house: House, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311  # an order, no secret
    for _ in range(5000):
        if not house.messages:
            return
        house.deliver(house.messages.pop(dice.randrange(len(house.messages))))
    raise AssertionError("the run never comes to rest")


@_SETTINGS
@given(shapes, st.one_of(st.none(), st.integers(1, 6)), st.integers(0, 999), st.booleans())
def test_a_canvas_ends_and_what_it_did_is_kept_or_undone_whatever_comes_when(
    house: House, site: Site, shape: Shape, failing: int | None, seed: int, duplicate: bool
) -> None:
    try:
        node = read_canvas(shape.build(house.app), "durable()", "nothing was started")
    except (DefinitionError, AttributeError):
        assume(False)
    house.place.empty()
    house.messages.clear()
    house.duplicate = duplicate
    site.reset(failing)

    handle = ADOPTED.start(to_plain(site.takes_over(node)), [], {})
    deliver_in_any_order(house, seed)

    failed = failing is not None and site.calls >= failing
    assert handle.status == ("failed" if failed else "completed")
    assert Counter(site.undone) == (Counter(site.done) if failed else Counter())
    assert all(row.status.is_end for row in handle.steps() if row.kind in {StepKind.STEP, StepKind.UNDO})
    assert house.store.without_wake_up() == []
