"""An app's settings on servers of the test's own, with a client in the test's process."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import celery.app.builtins
from celery import _state

from celery_saga.store import migrate, open_store
from tests.servers import fresh_postgresql_database, fresh_rabbitmq_vhost, fresh_redis_place
from tests.workers import Worker

SHOP = "tests.runtime.shop"
_FINALIZERS = set(_state._on_app_finalizers)
assert celery.app.builtins


class Place:
    """Broker, database and log file of one test.

    Args:
        settings: of the Celery app, with broker and saga_database_url.
        directory: for the log.
        module: the app; it reads what `environment` says.
    """

    def __init__(self, settings: Mapping[str, Any], directory: Path, module: str = SHOP) -> None:
        self.module = module
        self.settings = dict(settings)
        self.log = directory / "calls.log"
        self.log.touch()
        store = open_store(self.settings["saga_database_url"])
        migrate(store)
        store.close()
        self.shop = self._client()

    @property
    def environment(self) -> dict[str, str]:
        """What the worker's module reads."""
        return {"SHOP_SETTINGS": json.dumps(self.settings), "SHOP_LOG": str(self.log)}

    def calls(self) -> list[str]:
        """What the tasks have told so far."""
        return self.log.read_text().splitlines()

    def worker(self, *, app: str | None = None, more: Mapping[str, str] | None = None, **options: Any) -> Worker:
        """A worker of this place, not yet started."""
        return Worker(app or self.module, {**self.environment, **(more or {})}, **options)

    def close(self) -> None:
        """Leave no connection open, and the shared tasks of other tests' modules as they were."""
        _state._on_app_finalizers.clear()
        _state._on_app_finalizers.update(self._shared)
        services = self.shop.app.saga.services
        services.close()
        self.shop.app.close()
        pool = self.shop.app.__dict__.get("_pool") or self.shop.app._pool
        if pool is not None:
            pool.force_close_all()

    def _client(self) -> Any:
        before = {name: os.environ.get(name) for name in self.environment}
        os.environ.update(self.environment)
        try:
            sys.modules.pop(self.module, None)
            # Tasks of the app that an earlier test made would be registered in this one too, and this one's shared
            # tasks in the apps that earlier tests made.
            for earlier in list(_state._get_active_apps()):
                _state._deregister_app(earlier)
            self._shared = set(_state._on_app_finalizers)
            _state._on_app_finalizers.clear()
            _state._on_app_finalizers.update(_FINALIZERS)
            return importlib.import_module(self.module)
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})


@contextmanager
def place_with(
    broker: str, directory: Path, *, driver: str = "psycopg2", module: str = SHOP, **more: Any
) -> Iterator[Place]:
    """A fresh PostgreSQL database with a fresh place on a broker: redis or rabbitmq."""
    with fresh_postgresql_database(driver) as url:
        if broker == "redis":
            with fresh_redis_place() as redis:
                yield from _closing(Place({**redis.settings, "saga_database_url": url, **more}, directory, module))
        else:
            with fresh_rabbitmq_vhost() as vhost:
                yield from _closing(Place({"broker_url": vhost, "saga_database_url": url, **more}, directory, module))


def _closing(place: Place) -> Iterator[Place]:
    try:
        yield place
    finally:
        place.close()
