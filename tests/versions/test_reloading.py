"""A definition whose module was reloaded takes the place of the one before, also where that was used already."""

from __future__ import annotations

from typing import Any

from celery_saga import Run, Saga, saga
from celery_saga.runtime.sagas import DeclaredSagas


def defined() -> Saga[[], Any]:
    @saga
    def versions_reloaded(run: Run) -> None: ...

    return versions_reloaded


def test_a_process_executes_the_definition_that_it_has_now() -> None:
    first = defined()
    known = DeclaredSagas()
    assert known.get("versions_reloaded", 1) is first

    second = defined()

    assert known.get("versions_reloaded", 1) is second
    assert known.get("versions_reloaded", 2) is None
