"""What the header of a message says, once it is known to be what we send: anybody can write to a broker.

A worker's main process reads it, and an exception there ends the worker, whose next one meets the same message again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery_saga.core.storable import is_storable

__all__ = ["is_name", "is_report", "reference", "run_reference", "step_reference"]

_MAX_NAME, _MAX_ID = 255, 64  # as the columns
_MAX_GENERATION, _MAX_S = 2**31 - 1, 10**9


def step_reference(given: object) -> Mapping[str, Any] | None:
    """Ids of a step, of its task and its time-out; None: it does not name one."""
    if not isinstance(given, dict) or not _is_run(given) or not _is_place(given, "step"):
        return None
    timeout_s = given.get("timeout_s")
    if timeout_s is None:
        return given
    is_seconds = isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool)
    return given if is_seconds and 0 < timeout_s <= _MAX_S else None


def run_reference(given: object) -> Mapping[str, Any] | None:
    """Id of a run, or of a part of one; None: it does not name one."""
    if not isinstance(given, dict) or not _is_run(given):
        return None
    return given if "part" not in given or _is_place(given, "part") else None


def reference(given: object) -> Mapping[str, Any] | None:
    """Either of the two."""
    is_step = isinstance(given, dict) and "step" in given
    return step_reference(given) if is_step else run_reference(given)


def is_name(value: object, most: int = _MAX_NAME) -> bool:
    """A text that a column for names takes."""
    return isinstance(value, str) and 0 < len(value) <= most and is_storable(value)


def is_report(ids: Mapping[str, Any]) -> bool:
    """The named arguments of a report tell an attempt, and whether it failed."""
    texts = (ids.get("run"), _MAX_ID), (ids.get("step"), _MAX_NAME), (ids.get("token"), _MAX_NAME)
    return all(is_name(value, most) for value, most in texts) and isinstance(ids.get("failed"), bool)


def _is_run(given: dict[Any, Any]) -> bool:
    return is_name(given.get("run"), _MAX_ID)


def _is_place(given: dict[Any, Any], name: str) -> bool:
    generation = given.get("generation")
    if isinstance(generation, bool) or not isinstance(generation, int):
        return False
    return 0 < generation <= _MAX_GENERATION and is_name(given.get(name))
