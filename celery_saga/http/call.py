"""One request on its way through a route: what the route's handler works with, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from celery_saga.client.handle import RunHandle
from celery_saga.core.records import RunRecord
from celery_saga.definition.registry import Registry
from celery_saga.definition.saga import Saga
from celery_saga.errors import UnknownSaga
from celery_saga.http.access import Access
from celery_saga.http.messages import Request
from celery_saga.store import SqlStore

if TYPE_CHECKING:
    from celery_saga.http.patience import Patience
    from celery_saga.runtime.app import CelerySaga

__all__ = ["Answer", "Call"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a handler gives back: a document to be sent as JSON."""

    document: Any
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A request that is allowed.

    `parts` are those of the path, by name; `query` and `body` are instances of the route's models; `record` is the run
    that the route is about; `by` the name that the authorizer gave.
    """

    saga: CelerySaga
    access: Access
    patience: Patience
    request: Request
    parts: dict[str, str]
    query: Any = None
    body: Any = None
    record: RunRecord | None = None
    by: str | None = None

    @property
    def store(self) -> SqlStore:
        """The tables."""
        return self.saga.store

    @property
    def registry(self) -> Registry:
        """The sagas that the app knows."""
        return self.saga.registry

    @property
    def run(self) -> RunRecord:
        """The run that the route is about."""
        assert self.record is not None, "the route is about no run"
        return self.record

    @property
    def kept(self) -> RunRecord:
        """The run that the route is about.

        Raises:
            ResultPurged: it was purged; only its key is known.
        """
        return self.saga.engine.run_of(self.run.id)

    @property
    def handle(self) -> RunHandle[Any]:
        """A handle of the run."""
        return self.saga.get(self.run.id)

    def named(self, version: int | None = None) -> Saga[Any, Any]:
        """The saga that the path names, in its highest version unless one is given.

        Raises:
            UnknownSaga: the app does not know it.
        """
        name = self.parts["saga"]
        found = self.registry.latest(name) if version is None else self.registry.get(name, version)
        if found is None:
            what = repr(name[:200]) if version is None else f"{name[:200]!r} version {version}"
            raise UnknownSaga(f"the app knows no saga {what}; nothing was written.")
        return found

    def link(self, path: str) -> str:
        """Where a path of the API is, as it stands in a link."""
        return self.request.root + path
