"""What one process serves an app's runs with: store, publisher, engine and lease renewal, made at first use."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from celery import Celery
from kombu.utils.imports import symbol_by_name

from celery_saga.definition.registry import Registry
from celery_saga.engine.engine import Engine
from celery_saga.engine.lanes import Said, SaidLanes
from celery_saga.engine.ports import Publisher, TakesInline
from celery_saga.engine.world import never_inline
from celery_saga.errors import DefinitionError
from celery_saga.runtime.arguments import fits
from celery_saga.runtime.drivers import driver_of, zone_of
from celery_saga.runtime.edition import edition_of
from celery_saga.runtime.observed import telemetry_of
from celery_saga.runtime.publisher import CeleryPublisher
from celery_saga.runtime.renewal import Renewals
from celery_saga.runtime.reports import Reports
from celery_saga.runtime.sagas import registry_of, said_of_lanes
from celery_saga.runtime.settings import Settings, has_methods, read
from celery_saga.store import SqlStore, Vault, open_store

__all__ = [
    "PerProcess",
    "Services",
    "attach",
    "exchange",
    "host",
    "is_attached",
    "is_in_memory",
    "owner",
    "per_process",
    "services_of",
    "store_of",
    "vault_of",
]

_ATTRIBUTE = "_saga_per_process"
_PATIENCE_S = 1.0  # of who watches


def host() -> str:
    """The name of this machine, as it is written into claims."""
    return socket.gethostname()


def owner() -> str:
    """Who claims here: `host:pid`."""
    return f"{host()}:{os.getpid()}"


class Services:
    """One app's engine in one process, or in one thread that must not share.

    Args:
        app: the Celery app; its configuration is loaded.
        publisher: makes what sends wake-ups, given these services.
        patience_s: for how long an unreachable database is tried again, in seconds; None: the store's default.
        takes_inline: makes what says which steps are left to the coordinating process; None: none are.
    """

    def __init__(
        self,
        app: Celery,
        publisher: Callable[[Services], Publisher],
        *,
        patience_s: float | None = None,
        takes_inline: Callable[[Services], TakesInline] | None = None,
    ) -> None:
        self.app = app
        self.worker_name: str | None = None
        """The worker whose main process this is."""
        self.settings: Settings = read(app)
        self.eager = self._is_eager()
        self.registry: Registry = self._known_sagas()
        self.store: SqlStore = self._open_store(patience_s)
        self.store.outbox.wanted = self.settings.wanted
        self.registry.secret_keys = self.settings.secret_keys
        self.registry.check_call = partial(fits, app)
        self.registry.stored, self.registry.keep = self.store.definition, self.store.put_definition
        opens = None if is_in_memory(self.settings) else partial(store_of, self.settings, _PATIENCE_S)
        self.telemetry = telemetry_of(self, opens)
        self.publisher: Publisher = publisher(self)
        self.limits = replace(self.settings.limits, at_once=self.eager)
        self.takes_inline = never_inline if takes_inline is None else takes_inline(self)
        self.engine = self._make_engine(Engine)
        self.engine.around_signal = self.telemetry.signal
        self._set_up_schedules()
        self._renewals: Renewals | None = None
        self._reports: Reports | None = None
        self._renewals_store = self.store
        self._lock = threading.Lock()

    # -- what a laboratory has otherwise -----------------------------------------------------------------------
    is_shared = True
    """The tables are in a database that a framework's own connections go to as well, if they do at all."""

    def _is_eager(self) -> bool:
        return bool(self.app.conf.task_always_eager)

    def _known_sagas(self) -> Registry:
        return registry_of(self.settings.sagas, self.settings.max_payload_bytes)

    def _open_store(self, patience_s: float | None) -> SqlStore:
        return store_of(self.settings, patience_s)

    def _make_engine(self, engine: type[Engine]) -> Engine:
        options: dict[str, Any] = {"takes_inline": self.takes_inline, "lanes": SaidLanes(self.said_of_lanes)}
        options["watch"] = self.telemetry.watch
        return engine(self.store, self.publisher, self.registry, self.limits, **options)

    def said_of_lanes(self) -> Said:
        """What this process's code and settings say of lanes."""
        return said_of_lanes(self.registry, self.settings.lanes, self.settings.max_active)

    def _set_up_schedules(self) -> None:
        book, app = self.engine.schedules, self.app
        book.zone, book.owner, book.find_driver = zone_of(app), app.main or "", lambda: driver_of(app)

    # ----------------------------------------------------------------------------------------------------------
    @property
    def renewals(self) -> Renewals:
        """Renews the leases of the attempts that run in this process; over a store of its own."""
        with self._lock:
            if self._renewals is None:
                if not (self.store.dialect == "sqlite" and is_in_memory(self.settings)):
                    self._renewals_store = store_of(self.settings, None)
                engine = Engine(self._renewals_store, self.publisher, self.registry, self.limits)
                self._renewals = Renewals(engine)
            return self._renewals

    @property
    def reports(self) -> Reports:
        """Writes the progress that steps of this process report; over the store of the renewals."""
        renewals = self.renewals
        with self._lock:
            if self._reports is None:
                self._reports = Reports(self._renewals_store)
            assert renewals is self._renewals
            return self._reports

    def close(self) -> None:
        """Close the connections to the database, and let the publisher's thread end."""
        self.store.close()
        if self._renewals_store is not self.store:
            self._renewals_store.close()
        if isinstance(self.publisher, CeleryPublisher):
            self.publisher.close()


class PerProcess:
    """Makes services once in each process that asks.

    Those of a forked process's parent are kept, unused: collecting them would close connections that the parent uses.

    Args:
        make: makes them.
        edition: which edition the settings are that they are made of; with another one they are closed and made anew.
    """

    def __init__(self, make: Callable[[], Services], edition: Callable[[], int] = int) -> None:
        self._make = make
        self._edition = edition
        self._lock = threading.Lock()
        self._of: dict[int, tuple[int, Services]] = {}

    def get(self) -> Services:
        """This process's services."""
        edition = self._edition()
        found = self._of.get(os.getpid())
        return found[1] if found is not None and found[0] == edition else self._first(edition)

    def _first(self, edition: int) -> Services:
        with self._lock:
            found = self._of.get(os.getpid())
            if found is not None and found[0] != edition:
                found[1].close()
                found = None
            if found is None:
                found = self._of[os.getpid()] = (edition, self._make())
            return found[1]

    def close(self) -> None:
        """Close this process's services; the next call makes new ones."""
        found = self._of.pop(os.getpid(), None)
        if found is not None:
            found[1].close()


def attach(app: Celery, make: Callable[[], Services]) -> None:
    """Let `services_of(app)` find services, made by `make` once in each process."""
    app.__dict__[_ATTRIBUTE] = PerProcess(make, partial(edition_of, app))


def exchange(app: Celery, there: PerProcess | None) -> PerProcess | None:
    """Let `services_of(app)` find these from now on, None: none; what it found until now."""
    before: PerProcess | None = app.__dict__.pop(_ATTRIBUTE, None)
    if there is not None:
        app.__dict__[_ATTRIBUTE] = there
    return before


def is_attached(app: Celery) -> bool:
    """Whether celery_saga was added to the app."""
    return _ATTRIBUTE in app.__dict__


def per_process(app: Celery) -> PerProcess:
    """The services of an app, of whichever process.

    Raises:
        DefinitionError: celery_saga was not added to the app.
    """
    found: PerProcess | None = app.__dict__.get(_ATTRIBUTE)
    if found is None:
        raise DefinitionError(f"the Celery app {app.main!r} has no celery_saga: write CelerySaga(app) where it is made")
    return found


def services_of(app: Celery) -> Services:
    """This process's services for an app.

    Raises:
        DefinitionError: celery_saga was not added to the app, or a setting is missing or wrong.
    """
    return per_process(app).get()


def store_of(settings: Settings, patience_s: float | None) -> SqlStore:
    """The store that the settings name; connects when first used.

    Raises:
        DefinitionError: no database is configured.
    """
    if settings.database_url is None:
        raise DefinitionError(
            "celery_saga has no database: set saga_database_url in the Celery configuration, or CelerySaga(app, "
            "database_url='postgresql://...'); nothing was written"
        )
    options: dict[str, Any] = {} if patience_s is None else {"patience_s": patience_s}
    store = open_store(
        settings.database_url,
        engine_options=settings.engine_options,
        table_prefix=settings.table_prefix,
        vault=vault_of(settings),
        shares=True,
        **options,
    )
    store.outbox.wanted = settings.wanted
    return store


def vault_of(settings: Settings) -> Vault:
    """How payloads are at rest; imports the codec and the offload that the settings name.

    Raises:
        DefinitionError: one of them cannot be imported, or lacks a method.
    """
    codec = _hook(settings.codec, "saga_codec", "encode", "decode")
    offload = _hook(settings.offload, "saga_offload", "put", "get", "delete")
    return Vault(codec, offload, offload_above=settings.offload_above)


def _hook(given: Any, name: str, *methods: str) -> Any:
    if not isinstance(given, str):
        return given
    try:
        found = symbol_by_name(given)
        made = found() if isinstance(found, type) else found
    except Exception as error:
        raise DefinitionError(f"{name}: {given!r} cannot be had: {type(error).__name__}: {error}") from error
    return has_methods(made, name, methods)


def is_in_memory(settings: Settings) -> bool:
    """The saga database lives in this process alone."""
    url = settings.database_url or ""
    return url.endswith("://") or ":memory:" in url or "mode=memory" in url
