"""Somebody who looks at a worker's events, as Flower does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from celery.events.state import State

from tests.workers import wait_until


class Onlooker:
    """Keeps the events of an app's workers, and what they add up to. A context manager."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.state = State()
        self.events: list[dict[str, Any]] = []
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(10)

    def wait(self, claim: Callable[[Onlooker], bool], what: str) -> None:
        wait_until(lambda: claim(self), 15, what)

    def named(self, name: str) -> list[Any]:
        """The tasks of this name, as they are shown, oldest first."""
        return sorted((x for x in list(self.state.tasks.values()) if x.name == name), key=lambda x: x.received)

    def of(self, task_id: str) -> list[str]:
        """Types of the events of one task, in the order in which they came."""
        return [x["type"] for x in list(self.events) if x.get("uuid") == task_id]

    def _look(self) -> None:
        with self._app.connection_for_read() as connection:
            receiver = self._app.events.Receiver(connection, handlers={"*": self._saw})
            with receiver.consumer_context() as (consuming, _, _):
                self._ready.set()
                while not self._stop.is_set():
                    try:
                        consuming.drain_events(timeout=0.2)
                    except TimeoutError:
                        continue

    def _saw(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        self.state.event(event)
