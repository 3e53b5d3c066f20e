"""Makes the sweeper of a worker slow, and measures what its children and forks wait for; loaded like tasks."""

from __future__ import annotations

import gc
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from celery import signals
from sqlalchemy import text

from celery_saga.core.due import Due
from celery_saga.runtime.fork_gate import ForkGate
from celery_saga.runtime.publisher import CeleryPublisher
from celery_saga.store import SqlStore
from tests.faults.points import DIRECTORY

HOLD_S = 1.0
FORKS, CALLS, TICKS = "forks.jsonl", "calls.jsonl", "ticks.jsonl"
_SWEEPER = "saga-sweeper"


def measured(directory: Path, name: str) -> list[dict[str, Any]]:
    """What the processes have written so far; `took_s` in each."""
    path = directory / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _write(name: str, **words: object) -> None:
    fd = os.open(Path(os.environ[DIRECTORY]) / name, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    try:
        os.write(fd, (json.dumps({"pid": os.getpid(), **words}) + "\n").encode())
    finally:
        os.close(fd)


def _slow_pick(real: Callable[..., Sequence[Due]]) -> Callable[..., Sequence[Due]]:
    def pick_due(self: SqlStore, **options: Any) -> Sequence[Due]:
        if threading.current_thread().name != _SWEEPER:
            return real(self, **options)
        begun_s = time.monotonic()
        with self.sessions.engine.connect() as connection:
            # In the driver, with a connection of the pool: what a child must not inherit in this state.
            connection.execute(text("SELECT pg_sleep(:s)"), {"s": HOLD_S})
        _write(TICKS, took_s=time.monotonic() - begun_s)
        return real(self, **options)

    return pick_due


def _timed(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if threading.current_thread().name == _SWEEPER:
            return real(*args, **kwargs)
        begun_s = time.monotonic()
        try:
            return real(*args, **kwargs)
        finally:
            _write(CALLS, call=name, took_s=time.monotonic() - begun_s)

    return call


def _timed_gate(real: Callable[[ForkGate], None]) -> Callable[[ForkGate], None]:
    def before(self: ForkGate) -> None:
        begun_s = time.monotonic()
        real(self)
        _write(FORKS, took_s=time.monotonic() - begun_s)

    return before


def _arm() -> None:
    ForkGate._before = _timed_gate(ForkGate._before)  # type: ignore[method-assign]
    SqlStore.pick_due = _slow_pick(SqlStore.pick_due)  # type: ignore[method-assign]
    for name in ("claim", "transact"):
        setattr(SqlStore, name, _timed(name, getattr(SqlStore, name)))
    CeleryPublisher.publish = _timed("publish", CeleryPublisher.publish)  # type: ignore[method-assign]
    # Celery collects garbage before each fork: 0.2 s over the libraries loaded here, which are none.
    signals.worker_ready.connect(_freeze, weak=False)


def _freeze(**_: object) -> None:
    gc.freeze()


if DIRECTORY in os.environ:  # a worker, and not the test itself
    _arm()
