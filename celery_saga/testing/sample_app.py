"""Keeps the sample app of pytest-celery, which is made when that is imported, from being the current Celery app."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import _state as celery_state

__all__ = ["kept_out"]

_state: Any = celery_state
_SAMPLE = "celery_test_app"


@contextmanager
def kept_out() -> Iterator[None]:
    """In this block pytest-celery is imported: afterwards the current app is the one that it was before, if any."""
    before = _state._tls.current_app
    yield
    _state._tls.current_app = None if before is not None and before.main == _SAMPLE else before
