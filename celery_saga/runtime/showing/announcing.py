"""Tells Flower again what the tables say, after it was down or has forgotten: the half of `CelerySaga` for that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from celery_saga.client.filters import check_run_id
from celery_saga.core import asked
from celery_saga.core.ports import RunFilter
from celery_saga.core.records import RunRecord, StepRecord
from celery_saga.core.retry import seconds
from celery_saga.core.status import RunStatus
from celery_saga.errors import DefinitionError, InvalidPayload
from celery_saga.runtime.showing.mirror import PAGE, payload_of
from celery_saga.runtime.showing.stream import Stream
from celery_saga.runtime.showing.told import may_be_outranked, of_run, of_step
from celery_saga.runtime.showing.workers import Workers
from celery_saga.store import SqlStore

if TYPE_CHECKING:
    from celery_saga.runtime.services import Services

__all__ = ["Announced", "Announcing"]

_CALL = "announce()"
_LEFT = "nothing was sent"
_LIVE = tuple(each.value for each in RunStatus if not each.is_end)
_BATCH_S = 10.0
_MANY = 400  # events of one message or some


@dataclass(frozen=True, slots=True)
class Announced:
    """What was sent: `runs`, `steps` and `events`; `trouble` says why no more was, and is empty where all was."""

    runs: int
    steps: int
    events: int
    trouble: str = ""


class Announcing:
    """What an operator tells Flower."""

    @property
    def services(self) -> Services:
        """Store, publisher and engine of this process."""
        raise NotImplementedError

    def announce(
        self,
        run_id: str | None = None,
        *,
        since: float | timedelta | datetime | None = None,
        saga: str | None = None,
        worker: str | None = None,
    ) -> Announced:
        """Send the task events of runs and their steps again, as the tables have them; see docs/flower.md.

        It may be done any number of times: what is shown afterwards is what is stored. Also where
        `saga_send_events` is off. Nothing is written.

        Args:
            run_id: one run.
            since: instead, all live runs, and those that have ended since: seconds or a timedelta ago, or an aware
                instant.
            saga: only runs of this saga.
            worker: the worker under which they are shown; None: one that is up, which is asked for.
        Raises:
            RunNotFound: there is no such run.
            InvalidPayload: both or neither of run_id and since, or a value that is not allowed. Nothing was sent.
        """
        services = self.services
        if (run_id is None) == (since is None):
            raise InvalidPayload(f"{_CALL} takes either run_id or since=; {_LEFT}.")
        for name, text in (("saga", saga), ("worker", worker)):
            if text is not None:
                asked.text(_CALL, name, text, _LEFT)
        if run_id is not None:
            pages = iter([[services.engine.run_of(check_run_id(run_id))]])
        else:
            pages = _pages(services, _instant(since, services.store.now()), saga)
        workers = Workers(services.app, worker)
        stream = Stream(services.app, timeout_s=_BATCH_S)
        try:
            return _announce(services.store, pages, workers, stream, expose=services.settings.expose_args)
        finally:
            stream.close()
            workers.close()


def _announce(
    store: SqlStore, pages: Iterator[list[RunRecord]], workers: Workers, stream: Stream, *, expose: bool
) -> Announced:
    name = workers.one()
    if name is None:
        return Announced(0, 0, 0, "no worker answers under whose name they could be shown; name one")
    done = Announced(0, 0, 0)
    for run in (run for page in pages for run in page if run.purged_at is None):
        payload = payload_of(store, run.id) if expose else None
        told = of_run(run, name, again=may_be_outranked(run), payload=payload)
        steps = [events for each in store.steps(run.id) if (events := of_step(each, _place(workers, each, name)))]
        told += [event for events in steps for event in events]
        for at in range(0, len(told), _MANY):
            if not stream.send(told[at : at + _MANY], name):
                return replace(done, trouble=stream.trouble or "the broker does not answer")
        done = Announced(done.runs + 1, done.steps + len(steps), done.events + len(told))
    return done


def _place(workers: Workers, step: StepRecord, name: str) -> str:
    return workers.one(step.owner) or name


def _pages(services: Services, since: datetime, saga: str | None) -> Iterator[list[RunRecord]]:
    """Live runs, newest first, then those that have ended since; one that ends meanwhile may come twice."""
    store, after, after_at = services.store, None, None
    while page := store.runs(RunFilter(saga=saga, status=_LIVE, limit=PAGE, after=after, after_at=after_at)):
        yield page
        after, after_at = page[-1].id, page[-1].created_at
    names = [saga] if saga is not None else sorted({name for name, _ in services.registry.known()})
    yield from store.shown.ended(names, since, store.now() + timedelta(seconds=1), page=PAGE)


def _instant(since: Any, now: datetime) -> datetime:
    check: Callable[[Any], datetime]
    if isinstance(since, datetime):
        check = asked.utc
    else:
        check = lambda value: now - timedelta(seconds=seconds(value, "since"))  # noqa: E731
    try:
        return check(since)
    except (DefinitionError, OverflowError, ValueError):
        rule = "must be seconds or a timedelta ago, or an aware instant"
        raise asked.refused(_CALL, "since", rule, since, _LEFT) from None
