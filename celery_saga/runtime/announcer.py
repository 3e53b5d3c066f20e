"""Publishes life-cycle events of runs on a durable topic exchange: plain JSON, persistent, confirmed, in order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from celery import Celery
from kombu import Exchange

from celery_saga.client.export import plain
from celery_saga.core.lifecycle import Announcement
from celery_saga.errors import PayloadUnreadable
from celery_saga.runtime.confirmed import Confirmed, Parcel
from celery_saga.runtime.settings import Settings
from celery_saga.store import SqlStore

__all__ = ["Announcer", "routing_key"]

_LONGEST_KEY = 255  # bytes, of AMQP


def routing_key(saga: str, event: str) -> str:
    """`saga.<name>.<event>`; a name that AMQP has no room for is cut at its end."""
    room = _LONGEST_KEY - len(f"saga..{event}")
    return f"saga.{saga.encode()[:room].decode(errors='ignore')}.{event}"


class Announcer:
    """A `Deliverer` over a broker connection of its own.

    Args:
        app: whose broker it is.
        settings: `events_exchange`, `expose_args` and `publish_timeout`, for a batch, are used.
        store: asked for payloads where `expose_args` is set.
    """

    def __init__(self, app: Celery, settings: Settings, store: SqlStore) -> None:
        self._store = store
        self._expose, self._timeout_s = settings.expose_args, settings.publish_timeout
        exchange = Exchange(settings.events_exchange, type="topic", durable=True)
        self._broker = Confirmed(app, exchange, name="saga-events")

    @property
    def trouble(self) -> str:
        """See `Deliverer`."""
        return self._broker.trouble

    def deliver(self, batch: Sequence[Announcement]) -> int:
        """See `Deliverer`."""
        return self._broker.publish([self._parcel(each) for each in batch], timeout_s=self._timeout_s)

    def close(self) -> None:
        """See `Deliverer`."""
        self._broker.close()

    def _parcel(self, announced: Announcement) -> Parcel:
        properties = {
            "message_id": announced.event_id,
            "type": f"saga.{announced.event}",
            "timestamp": int(announced.at.timestamp()),
        }
        return Parcel(self._body(announced), routing_key(announced.saga, announced.event), properties)

    def _body(self, announced: Announcement) -> str:
        body = json.loads(announced.body_text) | {"seq": announced.id}
        return json.dumps(body | (self._payloads(announced.run_id) if self._expose else {}))

    def _payloads(self, run_id: str) -> dict[str, Any]:
        """None of a run that is gone, or of which something cannot be read: its events must not hold others up."""
        try:
            loaded = self._store.load(run_id)
            shown = {} if loaded is None else plain(loaded.snapshot.run)
        except PayloadUnreadable:
            return {}
        return {name: shown[name] for name in ("input", "result", "error") if shown.get(name) is not None}
