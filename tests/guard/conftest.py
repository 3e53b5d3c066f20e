"""The apps that are checked here have only the tasks that a test gives them."""

from __future__ import annotations

from collections.abc import Iterator

import celery.app.builtins
import pytest
from celery import _state

assert celery.app.builtins
_BUILTIN = {each for each in _state._on_app_finalizers if each.__module__ == "celery.app.builtins"}


@pytest.fixture(autouse=True)
def no_shared_tasks_of_other_tests() -> Iterator[None]:
    """Celery gives each app every shared task that the process has ever declared."""
    before = set(_state._on_app_finalizers)
    _state._on_app_finalizers.intersection_update(_BUILTIN)
    yield
    _state._on_app_finalizers.update(before)
