"""Whether the worker around this process has begun to stop, told to forked children through a shared page."""

from __future__ import annotations

import mmap
from typing import Any

from celery import signals
from celery.worker import state

__all__ = ["is_stopping"]

_page = mmap.mmap(-1, 1)  # made before the pool forks, which shares it; spawned children have one of their own


def is_stopping() -> bool:
    """The worker's main process was asked to stop; in a spawned child: False."""
    return _page[0] == 1 or state.should_stop is not None or state.should_terminate is not None


def _write(value: int) -> None:
    _page[0] = value


def _on_shutting_down(**_: Any) -> None:
    _write(1)


def _on_init(**_: Any) -> None:
    _write(0)


signals.worker_init.connect(_on_init, weak=False, dispatch_uid="celery_saga.inline_init")
signals.worker_shutting_down.connect(_on_shutting_down, weak=False, dispatch_uid="celery_saga.inline_shutting_down")
