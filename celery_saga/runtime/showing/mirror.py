"""Shows each run in the event stream as it is stored now: a `Deliverer` of the outbox, and what tells of ends again."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from celery_saga.client.export import plain
from celery_saga.core.lifecycle import Announcement, Purpose
from celery_saga.core.records import RunRecord
from celery_saga.core.status import RunStatus
from celery_saga.errors import PayloadUnreadable
from celery_saga.runtime.showing.stream import Stream
from celery_saga.runtime.showing.told import begins_again, may_be_outranked, of_run
from celery_saga.runtime.showing.workers import Workers
from celery_saga.store import SqlStore

__all__ = ["PAGE", "Reminder", "TaskMirror", "payload_of"]

PAGE = 100
"""Runs of one question to the database."""

_TURN_S = 2.0


def payload_of(store: SqlStore, run_id: str) -> dict[str, Any]:
    """Input and result as plain values; nothing of a run that is gone, or of which something cannot be read."""
    try:
        loaded = store.load(run_id)
        shown = {} if loaded is None else plain(loaded.snapshot.run)
    except PayloadUnreadable:
        return {}
    return {name: shown[name] for name in ("input", "result") if shown.get(name) is not None}


class TaskMirror:
    """Runs as they are now, so that the order of what asks for it does not matter.

    Args:
        stream: where it tells them.
        workers: under whose names.
        expose: input and result are to be seen.
    """

    def __init__(self, store: SqlStore, stream: Stream, workers: Workers, *, expose: bool) -> None:
        self._store, self._stream, self._workers, self._expose = store, stream, workers, expose
        self._trouble = ""

    @property
    def trouble(self) -> str:
        """See `Deliverer`."""
        return self._trouble or self._stream.trouble

    def deliver(self, batch: Sequence[Announcement]) -> int:
        """See `Deliverer`. Of each run once, at its last place in the batch."""
        were: dict[str, list[RunStatus]] = {}
        for each in batch:
            before = were.pop(each.run_id, [])
            was = json.loads(each.body_text).get("was")
            were[each.run_id] = before if was is None else [*before, RunStatus(was)]
        by_id = {run.id: run for run in self._store.shown.runs(list(were))}
        runs = [by_id[run_id] for run_id in were if run_id in by_id]
        return len(batch) if self.show(runs, lambda run: _outranked(were[run.id], run)) else 0

    def show(self, runs: Sequence[RunRecord], again: Callable[[RunRecord], bool]) -> bool:
        """Tell of these runs; whether it went out.

        Args:
            again: whether one may have been shown in a state that outranks the present one.
        """
        name = self._workers.one()
        self._trouble = "" if name is not None else "no worker answers under whose name they could be shown"
        if name is None:
            return False
        kept = [run for run in runs if run.purged_at is None]
        told = [each for run in kept for each in of_run(run, name, again=again(run), payload=self._payload(run))]
        return self._stream.send(told, name)

    def close(self) -> None:
        """See `Deliverer`."""
        self._stream.close()
        self._workers.close()

    def _payload(self, run: RunRecord) -> Mapping[str, Any] | None:
        return payload_of(self._store, run.id) if self._expose else None


def _outranked(were: Sequence[RunStatus], run: RunRecord) -> bool:
    return any(begins_again(was, run.status) for was in were)


class Reminder:
    """Tells each end once more: an event that was on its way when a listener or a broker went down is lost for good.

    One process of the fleet at a time, each `every_s`, tells of the runs that have ended since twice that long ago.

    Args:
        sagas: names of those that are looked at.
        monotonic_s: measures durations.
    """

    def __init__(
        self,
        store: SqlStore,
        mirror: TaskMirror,
        sagas: Callable[[], Sequence[str]],
        *,
        every_s: float,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._mirror, self._sagas = store, mirror, sagas
        self._every_s, self._monotonic_s = every_s, monotonic_s
        self._token = uuid.uuid4().hex
        self._at_s = monotonic_s() + every_s

    def remind(self) -> int:
        """Tell of what has ended lately, if it is time and nobody else does; of how many runs.

        Raises:
            StoreUnavailable: the database is out of reach.
        """
        now_s = self._monotonic_s()
        if now_s < self._at_s:
            return 0
        self._at_s = now_s + self._every_s
        # Kept to its end rather than given back: nobody is to tell the same again before.
        if not self._store.outbox.take(Purpose.AGAIN, token=self._token, lease_s=self._every_s * 0.9):
            return 0
        now = self._store.now()
        since, until = now - timedelta(seconds=2 * self._every_s), now - timedelta(seconds=self._every_s / 2)
        count = 0
        for runs in self._store.shown.ended(self._sagas(), since, until, page=PAGE):
            if self._monotonic_s() - now_s > _TURN_S or not self._mirror.show(runs, may_be_outranked):
                break
            count += len(runs)
        return count

    def close(self) -> None:
        """Give up connections and threads."""
        self._mirror.close()
