"""A durable canvas gives what Celery gives: random canvases, nested in any way, against Celery's own eager result."""

from __future__ import annotations

import itertools
from typing import Any

import celery
import pytest
from celery import Celery
from hypothesis import HealthCheck, assume, given, settings

from celery_saga import DefinitionError, Saga
from celery_saga.core.records import StepKind
from celery_saga.definition.adopted import ADOPTED
from celery_saga.definition.canvas import read_canvas, to_plain
from celery_saga.definition.canvas.tree import Node, Task
from tests.canvases.shapes import Shape, given_args, given_kwargs, shapes
from tests.scenarios.house import House

pytestmark = pytest.mark.skipif(
    celery.VERSION < (5, 7), reason="Celery's eager mode loses arguments of nested canvases before 5.7"
)

_numbers = itertools.count()
_SETTINGS = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def celerys(shape: Shape, eager: Celery, args: tuple[int, ...], kwargs: dict[str, int]) -> Any:
    """What Celery gives; an example that it cannot execute is none."""
    try:
        return shape.build(eager).apply_async(args, dict(kwargs)).get()
    except AttributeError:  # a chain without a task has no result, and Celery asks None for one
        assume(False)


def a_saga_of(house: House, canvas: object) -> Saga[..., Any]:
    saga = Saga.from_canvas(f"same_as_celery_{next(_numbers)}", canvas)
    house.add(saga)
    return saga


def of_a_run(house: House, saga: Saga[Any, Any], *args: Any, **kwargs: Any) -> Any:
    handle = saga.start(*args, **kwargs)
    house.drain(limit=3000)
    return handle.wait(0)


@_SETTINGS
@given(shapes, given_args, given_kwargs)
def test_a_durable_canvas_gives_what_celery_gives(
    house: House, eager: Celery, shape: Shape, args: tuple[int, ...], kwargs: dict[str, int]
) -> None:
    theirs = celerys(shape, eager, args, kwargs)
    house.place.empty()

    plain = to_plain(read_canvas(shape.build(eager), "durable()", "nothing was started"))

    assert of_a_run(house, ADOPTED, plain, list(args), kwargs) == theirs


@_SETTINGS
@given(shapes, given_args, given_kwargs)
def test_the_saga_of_a_canvas_gives_what_celery_gives(
    house: House, eager: Celery, shape: Shape, args: tuple[int, ...], kwargs: dict[str, int]
) -> None:
    theirs = celerys(shape, eager, args, kwargs)
    house.place.empty()
    saga = a_saga_of(house, shape.build(eager))

    assert of_a_run(house, saga, *args, **kwargs) == theirs


@_SETTINGS
@given(shapes)
def test_a_canvas_runs_as_many_steps_as_it_has_tasks(house: House, eager: Celery, shape: Shape) -> None:
    try:
        node = read_canvas(shape.build(eager), "durable()", "nothing was started")
    except (DefinitionError, AttributeError):
        assume(False)
    house.place.empty()
    saga = a_saga_of(house, shape.build(eager))

    handle = saga.start()
    house.drain(limit=3000)

    ran = [step.task for step in handle.steps() if step.kind is StepKind.STEP]
    assert sorted(ran) == sorted(tasks_of(node))


def tasks_of(node: Node) -> list[str]:
    return [node.task] if isinstance(node, Task) else [task for part in node.parts for task in tasks_of(part)]
