"""A house for canvases, and Celery's own eager app beside it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from celery import Celery, _state

from celery_saga.definition.adopted import ADOPTED
from tests.canvases.shapes import with_tasks
from tests.scenarios.house import House, Place


@pytest.fixture(scope="session")
def place() -> Iterator[Place]:
    """A database with our tables."""
    built = Place("sqlite://")
    yield built
    built.store.close()


@pytest.fixture
def house(place: Place) -> Iterator[House]:
    """A house, empty, with the tasks of the shapes."""
    place.empty()
    with House(place) as built:
        with_tasks(built.app)
        built.add(ADOPTED)
        yield built


@pytest.fixture(scope="session")
def eager_app() -> Iterator[Celery]:
    """An app that executes canvases as Celery does with `task_always_eager`."""
    app = with_tasks(Celery("eager_canvases", set_as_current=False))
    app.conf.task_always_eager = True
    yield app
    app.close()


@pytest.fixture
def eager(eager_app: Celery) -> Iterator[Celery]:
    """That app, as the current one: a chord that is made of JSON asks for no other."""
    before = _state._tls.current_app
    eager_app.set_current()
    yield eager_app
    _state._tls.current_app = before
