"""The statements of a store, part by part: each is built when it is first used, and may be shared by stores."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Generic, TypeVar

from sqlalchemy import URL

from celery_saga.store.admission import Admission
from celery_saga.store.claiming import ClaimAtOnce
from celery_saga.store.claims import Claims
from celery_saga.store.clock import Clock
from celery_saga.store.coming import Coming
from celery_saga.store.definitions import Definitions
from celery_saga.store.desk import DeskRows
from celery_saga.store.dialects import Database, database_named
from celery_saga.store.due import DueRows
from celery_saga.store.importing import Importing
from celery_saga.store.lanes import Lanes
from celery_saga.store.listing import Listing
from celery_saga.store.loading import LoadAtOnce
from celery_saga.store.progress import ProgressRows
from celery_saga.store.purging import Purging
from celery_saga.store.reading import Reading
from celery_saga.store.redispatching import SentRows
from celery_saga.store.schedules import Schedules
from celery_saga.store.schema import Schema
from celery_saga.store.searching import Searching
from celery_saga.store.slots import Slots
from celery_saga.store.sweepers import Sweepers
from celery_saga.store.vault import Vault

__all__ = ["Built", "Parts", "parts_of"]

T = TypeVar("T")


class Built(Generic[T]):
    """An attribute that is made at its first use.

    Without a lock, other than `functools.cached_property` before Python 3.12: a process may be forked while another of
    its threads makes it. Two threads may make two, of which one is kept.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        made = self._make(instance)
        kept: T = instance.__dict__.setdefault(self._name, made)
        return kept


class Parts:
    """Nothing here knows a connection, so that several stores of a process may have it, and those of forked ones too.

    Args:
        clock: the time, instead of the database's; for tests.
        vault: how payloads are at rest.
    """

    def __init__(
        self, database: Database, prefix: str, vault: Vault, clock: Callable[[], datetime] | None = None
    ) -> None:
        self.database, self.vault = database, vault
        self.schema = Schema(prefix, vault)
        self.clock = Clock(database, clock)

    slots = Built(lambda own: Slots(own.schema, own.database))
    reading = Built(lambda own: Reading(own.schema, own.clock, own.database, own.slots))
    lanes = Built(lambda own: Lanes(own.schema, own.clock, own.database))
    admission = Built(lambda own: Admission(own.schema, own.clock, own.database, own.lanes))
    claims = Built(lambda own: Claims(own.schema, own.clock, own.reading))
    claim_at_once = Built(lambda own: ClaimAtOnce(own.schema, own.clock, own.database))
    load_at_once = Built(lambda own: LoadAtOnce(own.schema, own.clock, own.slots))
    progress = Built(lambda own: ProgressRows(own.schema, own.clock))
    due = Built(lambda own: DueRows(own.schema, own.clock, own.database))
    coming = Built(lambda own: Coming(own.schema, own.clock))
    listing = Built(lambda own: Listing(own.schema))
    searching = Built(lambda own: Searching(own.schema, own.clock))
    purging = Built(lambda own: Purging(own.schema, own.clock, own.database))
    importing = Built(lambda own: Importing(own.schema, own.database))
    desk = Built(lambda own: DeskRows(own.schema))
    sent = Built(lambda own: SentRows(own.schema, own.clock, own.database))
    sweepers = Built(lambda own: Sweepers(own.schema, own.clock, own.database))
    schedules = Built(lambda own: Schedules(own.schema, own.clock, own.database))
    definitions = Built(lambda own: Definitions(own.schema, own.clock, own.database))


_SHARED = 4
_shared: dict[tuple[URL, str], Parts] = {}


def parts_of(
    url: URL, prefix: str, vault: Vault | None, clock: Callable[[], datetime] | None, *, shares: bool
) -> Parts:
    """New ones; with `shares` those that this process has for the same tables, where clock and payloads are plain."""
    if not shares or clock is not None or not (vault is None or vault.is_plain):
        return Parts(database_named(url.get_backend_name()), prefix, vault or Vault(), clock)
    found = _shared.get((url, prefix))
    if found is None:
        for oldest in list(_shared)[: 1 - _SHARED]:  # a process has one database, save that of tests
            _shared.pop(oldest, None)
        found = _shared[url, prefix] = Parts(database_named(url.get_backend_name()), prefix, Vault())
    return found
