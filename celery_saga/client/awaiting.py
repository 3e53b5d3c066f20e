"""Waiting for a run: for its end, or for what happens to it, in a thread or in an event loop."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Generic, TypeVar

from celery_saga.client import purity
from celery_saga.client.steering import Steered
from celery_saga.client.waiting import pauses_s
from celery_saga.core import asked
from celery_saga.core.records import HistoryRecord
from celery_saga.core.retry import seconds
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunStatus
from celery_saga.engine.world import refuse_purged
from celery_saga.errors import WaitTimeout

if TYPE_CHECKING:
    from celery_saga.core.ports import Watch

__all__ = ["Awaited"]

R = TypeVar("R")


class Awaited(Steered, Generic[R]):
    """The waiting half of a handle.

    One thread of the process asks for all runs that somebody waits for, and on PostgreSQL hears of their ends. Where
    runs are executed in their caller's process, whoever waits also does what has come due.
    """

    # -- for the end ---------------------------------------------------------------------------------------------
    def wait(self, timeout: float | timedelta | None = None) -> R:
        """Wait for the end and return the result. A suspended run has not ended: a person must act first.

        Args:
            timeout: in seconds or as timedelta, at least 0; None: for ever.
        Raises:
            WaitTimeout: it has not ended in time; it goes on.
            RunFailed: it failed, or its undos did; `cause` is the error that ended the forward part.
            RunCancelled: it was cancelled.
            ResultPurged: it has ended, and its result is there no more.
            DefinitionError: called inside a body, or inside the caller's transaction that the handle belongs to.
        """
        self._check_may_wait("wait", "run.wait_signal(...) or run.sleep(...)")
        left = _left_s(timeout)
        for left_s in left:
            news = threading.Event()
            with self._watch(news, None):
                if self._driven().run.status.is_end:
                    return self._outcome()
                self._pause(news, left_s)
        return self._last_look(timeout)

    async def wait_async(self, timeout: float | timedelta | None = None) -> R:
        """`wait` for an event loop, which goes on meanwhile; however many wait, they need no thread each."""
        self._check_may_wait("wait_async", "run.wait_signal(...) or run.sleep(...)")
        for left_s in _left_s(timeout):
            await self._news_async(left_s, None)
            if (await asyncio.to_thread(self._driven)).run.status.is_end:
                return self._outcome()
        return await asyncio.to_thread(self._last_look, timeout)

    # -- for what happens ----------------------------------------------------------------------------------------
    def events(self, after: int = 0) -> Iterator[HistoryRecord]:
        """History as it happens: what is there with `seq` above `after`, then what follows, up to the run's end.

        Args:
            after: the last `seq` that the caller has seen; 0: none.
        Raises:
            InvalidPayload: `after` is no whole number from 0; nothing was read.
        """
        self._check_may_wait("events", "run.wait_signal(...)")
        return self._events(asked.whole("RunHandle.events()", "after", after, 0, asked.MAX_SEQ))

    def _events(self, after: int) -> Iterator[HistoryRecord]:
        while True:
            news = threading.Event()
            with self._watch(news, after):
                is_over, rows = self._rows(after)
                if not rows and not is_over:
                    self._pause(news, math.inf)
            yield from rows
            if is_over and not rows:
                return
            after = rows[-1].seq if rows else after

    def events_async(self, after: int = 0) -> AsyncIterator[HistoryRecord]:
        """`events` for an event loop, which goes on meanwhile."""
        self._check_may_wait("events_async", "run.wait_signal(...)")
        return self._events_async(asked.whole("RunHandle.events_async()", "after", after, 0, asked.MAX_SEQ))

    async def _events_async(self, after: int) -> AsyncIterator[HistoryRecord]:
        while True:
            await self._news_async(math.inf, after)
            is_over, rows = await asyncio.to_thread(self._rows, after)
            for row in rows:
                yield row
            if is_over and not rows:
                return
            after = rows[-1].seq if rows else after

    # -- inside --------------------------------------------------------------------------------------------------
    def _check_may_wait(self, name: str, instead: str) -> None:
        purity.forbid(f"RunHandle.{name}()", instead)
        self._engine.check_may_wait(f"RunHandle.{name}()")

    def _watch(self, news: threading.Event, after: int | None) -> Watch:
        return self._engine.store.waiters.watch(self._id, news.set, after=after)

    def _pause(self, news: threading.Event, left_s: float) -> None:
        """Until there may be news, or the time is over; soon, where it is the caller who moves the run on."""
        longest_s = threading.TIMEOUT_MAX if self._drive is None else next(self._pauses)
        news.wait(min(left_s, longest_s))

    async def _news_async(self, left_s: float, after: int | None) -> None:
        if self._drive is not None:
            await asyncio.sleep(min(left_s, next(self._pauses)))
            return
        loop = asyncio.get_running_loop()
        news = asyncio.Event()

        def call() -> None:
            loop.call_soon_threadsafe(news.set)

        with self._engine.store.waiters.watch(self._id, call, after=after, at_once=True), suppress(TimeoutError):
            await asyncio.wait_for(news.wait(), None if left_s == math.inf else left_s)

    def _rows(self, after: int) -> tuple[bool, list[HistoryRecord]]:
        """Whether it has ended, asked first, and what is new."""
        run = self._driven().run
        refuse_purged(run)
        return run.status.is_end, self._engine.store.history(self._id, after=after)

    @property
    def _pauses(self) -> Iterator[float]:
        found: Iterator[float] | None = self.__dict__.get("_pauses_s")
        if found is None:
            found = self.__dict__["_pauses_s"] = pauses_s(None)
        return found

    def _last_look(self, timeout: float | timedelta | None) -> R:
        run = self._driven().run
        if run.status.is_end:
            return self._outcome()
        why = "; it goes on"
        if run.status is RunStatus.SUSPENDED:
            of = "" if run.error is None else f", with {run.error.type_name.rpartition('.')[2]}: {run.error.message}"
            why = f", reason {run.reason}{of}: it goes on once a person resumes it"
        elif run.status is RunStatus.QUEUED:
            why = "; it goes on once a worker takes it up (`celery -A proj saga doctor` tells what keeps it)"
        raise WaitTimeout(
            f"run {self._id!r} ({run.saga}) has not ended within {timeout} s: it is {run.status.value}{why}."
        )

    # -- what the other half of a handle knows -------------------------------------------------------------------
    def _driven(self) -> Snapshot:
        raise NotImplementedError

    def _outcome(self) -> R:
        raise NotImplementedError


def _left_s(timeout: float | timedelta | None) -> Iterator[float]:
    """How many seconds are left, again and again, until none are.

    Raises:
        DefinitionError: the time-out is negative or not finite.
    """
    timeout_s = math.inf if timeout is None else seconds(timeout, "timeout")
    end_s = time.monotonic() + timeout_s
    return iter(lambda: max(0.0, end_s - time.monotonic()), 0.0)
