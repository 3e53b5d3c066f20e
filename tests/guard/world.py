"""Apps to be checked, and the codes that a check of them answers with."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import Celery

from celery_saga.runtime.guard import Finding, gather, inspect


def make_app(broker: str = "memory://", **settings: Any) -> Celery:
    """An app with no tasks but Celery's, and with the database `saga_database_url` unset."""
    app = Celery("checked", broker=broker, set_as_current=False)
    app.conf.update(settings)
    return app


def add_task(app: Celery, name: str, **options: Any) -> Any:
    """Register a task that does nothing."""

    def body() -> None:
        """Nothing."""

    # Not shared: else it would be registered in every app of this process.
    decorate: Any = app.task(name=name, shared=False, **options)
    return decorate(body)


def findings(app: Celery, **gathered: Any) -> dict[str, Finding]:
    """What a check of `app` finds, by code."""
    return {finding.code: finding for finding in inspect(app, gather(app, **gathered))}


@contextmanager
def silent_server() -> Iterator[int]:
    """The port of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as server:
        yield int(server.getsockname()[1])


@contextmanager
def closed_port() -> Iterator[int]:
    """A port on which connections are refused: it is bound, and nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield int(taken.getsockname()[1])
