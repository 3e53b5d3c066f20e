"""Refuses, inside a body, the calls that a replay would repeat, and names the right one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from celery_saga.errors import DefinitionError

__all__ = ["body", "forbid", "is_in_body", "outside"]

_body: ContextVar[str | None] = ContextVar("celery_saga_body", default=None)
_recording: ContextVar[bool] = ContextVar("celery_saga_recording", default=False)


@contextmanager
def body(saga: str) -> Iterator[None]:
    """While it is entered, this thread (or greenlet) runs the body of `saga`."""
    token = _body.set(saga)
    try:
        yield
    finally:
        _body.reset(token)


@contextmanager
def outside() -> Iterator[None]:
    """While it is entered, this thread (or greenlet) is not in a body: a step is executed there, the body waits."""
    token = _body.set(None)
    try:
        yield
    finally:
        _body.reset(token)


@contextmanager
def recording() -> Iterator[None]:
    """While it is entered, the body's `run.record` calls its function: what that reads is recorded."""
    token = _recording.set(True)
    try:
        yield
    finally:
        _recording.reset(token)


def forbid_reading(what: str) -> None:
    """Refuse to read what another replay would read differently; do nothing outside of bodies and in `run.record`.

    Raises:
        DefinitionError: the caller runs inside a body.
    """
    saga = _body.get()
    if saga is not None and not _recording.get():
        raise DefinitionError(
            f"saga {saga!r}: {what} was read in the body, which is replayed and would read something else each time. "
            "Instead: let a step read it, or run.record(name, function)."
        )


def is_in_body() -> bool:
    """Whether the caller runs inside a body."""
    return _body.get() is not None


def forbid(call: str, instead: str) -> None:
    """Refuse `call` inside a body; do nothing outside.

    Args:
        call: what was called, like `charge.delay()`.
        instead: what to do, like `run.step(charge.si(...))`.
    Raises:
        DefinitionError: the caller runs inside a body; nothing was sent or written.
    """
    saga = _body.get()
    if saga is not None:
        raise DefinitionError(
            f"saga {saga!r}: {call} was called in the body, which is replayed and would repeat it; nothing was "
            f"sent or written. Instead: {instead}."
        )
