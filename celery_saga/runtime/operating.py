"""What an operator does with many runs: the desk, verbs for all runs of a filter, sending again what was lost."""

from __future__ import annotations

import inspect
from typing import Any

from celery_saga.client import sent
from celery_saga.client.bulk import BulkAction, BulkResult, bulk, steering
from celery_saga.client.desk import DeskEntry, desk
from celery_saga.client.handle import RunHandle
from celery_saga.client.page import Page
from celery_saga.core import asked, codec
from celery_saga.definition.signal import Signal
from celery_saga.engine.looking import looking
from celery_saga.engine.ports import Message
from celery_saga.engine.redispatching import Redispatched, redispatch
from celery_saga.engine.signals import prepare
from celery_saga.errors import InvalidPayload, SignalDuplicate
from celery_saga.runtime.keeping import Keeping
from celery_saga.runtime.publisher import CeleryPublisher

__all__ = ["Operated"]


class Operated(Keeping):
    """Verbs for whoever operates the runs of an app."""

    def desk(self, *, saga: str | None = None, limit: int = 100, after: str | None = None) -> Page[DeskEntry]:
        """Runs that need a person, the one that has waited longest first; see docs/desk.md.

        Those that are suspended, whose undos are used up, and whose undo has failed five times and is still tried.

        Args:
            saga: only runs of this saga.
            limit: at most so many, 1 to 10000.
            after: `next` of the page before.
        Raises:
            InvalidPayload: a value that is not allowed; nothing was read.
        """
        return desk(self.services.store, saga=saga, limit=limit, after=after)

    def bulk(
        self,
        verb: str,
        *,
        dry_run: bool = True,
        limit: int | None = None,
        after: str | None = None,
        reason_code: str | None = None,
        compensate: bool = True,
        reason: str = "",
        by: str | None = None,
        **filters: Any,
    ) -> BulkResult:
        """Cancel, suspend, resume, compensate or retry all runs that a filter names, each in a transaction of its own.

        Args:
            verb: `cancel`, `suspend`, `resume`, `compensate` or `retry`.
            dry_run: only tell of which runs it would be done, and of which it would be refused.
            limit: at most so many runs, 1 to 10000; None: 1000.
            after: `next` of the call before, to go on where that has stopped.
            reason_code: only runs that are parked for this, like `body_error`.
            compensate: of `cancel`: False skips the undos.
            reason, by: why and who, for the history of each run.
            filters: as of `runs`, at least one. Without `status=` those that the verb is for: of `compensate` the
                suspended ones; say `status="completed"` to undo completed runs.
        Raises:
            InvalidPayload: an unknown verb, no filter, or one that is not allowed; nothing was changed.
        """
        action = steering(self.services.engine, verb, compensate=compensate, reason=reason, by=by)
        return self._bulk(action, filters, dry_run=dry_run, limit=limit, after=after, reason_code=reason_code)

    def bulk_signal(
        self,
        signal: Signal[Any] | str,
        value: object = None,
        *,
        id: str | None = None,
        error: BaseException | None = None,
        dry_run: bool = True,
        limit: int | None = None,
        after: str | None = None,
        **filters: Any,
    ) -> BulkResult:
        """Send one signal to all live runs that a filter names.

        Args:
            signal, value, id, error: as of `RunHandle.signal`. With an id the whole can be sent again: a run that has
                the signal already is told as unchanged.
            dry_run, limit, after, filters: as of `bulk`.
        Raises:
            InvalidPayload: no filter, or one that is not allowed; no signal, id or error that can be sent.
            PayloadTooLarge: the value is longer than `saga_max_payload_bytes`. In every case nothing was sent.
        """
        name = sent.check(signal, value, id=id, error=error)
        codec.encode(value, limit_bytes=self.services.engine.limits.max_payload_bytes, what=f"signal {name!r}")

        def send(run_id: str) -> bool:
            self.get(run_id).signal(signal, value, id=id, error=error)  # type: ignore[call-overload]
            return True

        def look(run_id: str) -> bool:
            self.get(run_id).check_signal(signal, value, id=id, error=error)
            prepare(looking(self.services.engine).world, run_id, name)
            if id is not None and any((x.name, x.signal_id) == (name, id) for x in self.services.store.signals(run_id)):
                raise SignalDuplicate(f"run {run_id!r}: signal {name!r} with id {id!r} was sent before", signal=name)
            return True

        action = BulkAction("signal", send, look)
        return self._bulk(action, filters, dry_run=dry_run, limit=limit, after=after)

    def redispatch(
        self, dry_run: bool = True, *, saga: str | None = None, queue: str | None = None, again: bool = False
    ) -> Redispatched:
        """Send again, at once, every wake-up that is still waited for, after the broker has lost its messages.

        Without it they are sent again too, by the sweepers, once each has waited for `saga_lease` or longer. Each is
        sent once; steps that are claimed, and parked runs, are left alone. Again within `saga_lease`: nothing is left
        to send.

        Args:
            dry_run: only tell what would be sent.
            saga, queue: only wake-ups of this saga, and those that go to this queue.
            again: also what was redispatched less than `saga_lease` ago, where the broker was lost once more.
        Raises:
            InvalidPayload: a value that is not allowed; nothing was sent.
            StoreUnavailable: the database is out of reach; what was sent before stays sent.
        """
        for flag, given in (("dry_run", dry_run), ("again", again)):
            asked.flag("redispatch()", flag, given, "nothing was sent")
        for name, wanted in (("saga", saga), ("queue", queue)):
            if wanted is not None:
                asked.text("redispatch()", name, wanted, "nothing was sent")
        services = self.services
        publisher = services.publisher
        queue_of = publisher.queue_of if isinstance(publisher, CeleryPublisher) else _no_queue
        return redispatch(services.engine.world, queue_of, dry_run=dry_run, saga=saga, queue=queue, again=again)

    def get(self, run_id: str) -> RunHandle[Any]:
        """A handle of the run with this id."""
        raise NotImplementedError

    def after_start(self, run_id: str) -> None:
        """When eager: do what is due of the run. Else nothing."""
        raise NotImplementedError

    def _bulk(self, action: BulkAction, filters: dict[str, Any], **options: Any) -> BulkResult:
        known = set(inspect.signature(self.runs).parameters) - {"limit", "after"}
        for name in filters:
            if name not in known:
                raise InvalidPayload(
                    f"bulk {action.verb}: there is no filter {name!r}; nothing was changed. There are "
                    f"{', '.join(sorted(known))}.",
                    path=name,
                )
        return bulk(self._driven(action), self._listed, filters, **options)

    def _driven(self, action: BulkAction) -> BulkAction:
        """The same where runs are executed in their caller's process: what follows is done at once."""

        def act(run_id: str) -> bool:
            has_changed = action.real(run_id)
            self.after_start(run_id)
            return has_changed

        return BulkAction(action.verb, act, action.dry)


def _no_queue(message: Message) -> None:
    """Where nothing is sent over a broker, there are no queues."""
