"""Who waits for runs in this process: one thread asks for all of them, and listens where the database tells."""

from __future__ import annotations

import logging
import os
import select
import signal
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam
from sqlalchemy import select as sql_select

from celery_saga.core.status import RunStatus
from celery_saga.errors import SagaError
from celery_saga.store.ear import Ear, Place, nobody_listens, ring_statement
from celery_saga.store.ready import Ready
from celery_saga.store.schema import Schema
from celery_saga.store.session import Sessions, Tx

__all__ = ["Waiters", "Watch"]

logger = logging.getLogger("celery_saga.store")

_FIRST_S, _GROWTH, _LONGEST_S = 0.01, 1.5, 0.5
_HEARD_FIRST_S, _HEARD_LONGEST_S = 0.25, 2.0  # an end may be told by nobody: who ended the run has died before
_LINGER_S = 5.0
_SLACK = 0.25  # of its pause: so much earlier a run is asked for together with others
_AT_A_TIME = 500
_DEAF_S, _LOST_S = 600.0, 1.0

_ENDS = frozenset(status.value for status in RunStatus if status.is_end)


class Watch:
    """One who waits for a run; `close` it, or leave its block, when that is over.

    Args:
        waiters: calls `call` once, in its thread.
        after: news are history rows with a `seq` above it, and the end; None: only the end.
    """

    __slots__ = ("_waiters", "after", "call", "next_at_s", "pause_s", "run_id")

    def __init__(self, waiters: Waiters, run_id: str, after: int | None, call: Callable[[], object]) -> None:
        self._waiters = waiters
        self.run_id, self.after, self.call = run_id, after, call
        self.pause_s = _FIRST_S
        self.next_at_s = 0.0

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait no more."""
        self._waiters.forget(self)


class Waiters:
    """Watches of one process on one database.

    Correctness hangs on asking alone: a notification only makes it sooner. The thread and its connection are there
    while somebody waits, and 5 s longer.

    Args:
        prefix: of the tables.
        listens: the database can tell.
    """

    def __init__(self, sessions: Sessions, schema: Schema, prefix: str, *, listens: bool) -> None:
        self._sessions = sessions
        self._place = Place(prefix) if listens else None
        self._ring = None if self._place is None else ring_statement(self._place)
        self._rings: Ready | None = None
        self.nobody_listens = None if self._place is None else nobody_listens(self._place)
        """For the statement that ends a run: whether no other process is to be told. None: the database cannot tell."""
        run = schema.run
        self._positions = sql_select(run.c.id, run.c.status, run.c.history_seq).where(
            run.c.id.in_(bindparam("ids", expanding=True))
        )
        self._inherited: list[Any] = []
        self._reset()
        _ALL.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._watches: dict[str, list[Watch]] = {}
        self._thread: threading.Thread | None = None
        self._wake: tuple[int, int] | None = None
        self._ear: Ear | None = None
        self._ear_at_s = 0.0
        self._is_closing = False

    # -- who waits ---------------------------------------------------------------------------------------------
    def watch(
        self, run_id: str, call: Callable[[], object], *, after: int | None = None, at_once: bool = False
    ) -> Watch:
        """Have `call` called once, in another thread, when there may be news of a run: look then.

        There are none where it is called because the database is away, or the run was purged.

        Args:
            at_once: it was not looked at yet.
        """
        made = Watch(self, run_id, after, call)
        with self._lock:
            if self._ear is not None and self._ear.is_live and after is None:
                made.pause_s = _HEARD_FIRST_S
            made.next_at_s = time.monotonic() + (0.0 if at_once else made.pause_s)
            self._watches.setdefault(run_id, []).append(made)
            self._is_closing = False
            if self._thread is None:
                self._wake = os.pipe()
                self._thread = threading.Thread(target=self._work, name="saga-waiters", daemon=True)
                self._thread.start()
            else:
                self._nudge()
        return made

    def forget(self, watch: Watch) -> None:
        """This one waits no more."""
        with self._lock:
            left = [each for each in self._watches.get(watch.run_id, ()) if each is not watch]
            if left:
                self._watches[watch.run_id] = left
            else:
                self._watches.pop(watch.run_id, None)

    def close(self) -> None:
        """End the thread and its connection, unless somebody waits."""
        with self._lock:
            if self._watches:
                return
            thread = self._thread
            self._is_closing = True
            self._nudge()
        if thread is not None and thread is not threading.current_thread():
            thread.join(5.0)

    def after_fork(self) -> None:
        """In a forked child: the parent's thread is not here, and its connection is left alone."""
        self._inherited.append((self._ear, self._wake))
        self._reset()

    # -- who tells ---------------------------------------------------------------------------------------------
    def ring(self, run_id: str, *, elsewhere: bool = True) -> None:
        """Tell that a run has ended, after its commit. Nothing hangs on it, so it is tried once and never raises.

        Args:
            elsewhere: other processes too; False: none of them listens.
        """
        if run_id in self._watches:
            self._call(run_id)
        if self._ring is None or not elsewhere:
            return
        try:
            if self._rings is None:
                self._sessions.prepare()
                self._rings = Ready(self._ring, self._sessions.engine.dialect)
            self._sessions.at_once("ring", self._rings, self._rings.bound({"run_id": run_id}))
        except Exception as error:  # noqa: BLE001  # whichever: those who wait will ask
            logger.debug("the end of run %s was not told: %s", run_id, error)

    # -- the thread --------------------------------------------------------------------------------------------
    def _work(self) -> None:
        if hasattr(signal, "pthread_sigmask"):  # a soft time limit must reach the main thread
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        idle_since_s: float | None = None
        while True:
            try:
                self._listen()
                self._ask()
            except Exception:  # it must not end while somebody waits
                logger.exception("the thread that waits for runs goes on after an error")
                self._call_all()
            with self._lock:
                now_s = time.monotonic()
                idle_since_s = None if self._watches else idle_since_s or now_s
                if idle_since_s is not None and (self._is_closing or now_s - idle_since_s >= _LINGER_S):
                    self._end()
                    return
                pause_s = self._pause_s(now_s) if self._watches else _LINGER_S
            self._sleep(pause_s)

    def _end(self) -> None:
        wake, ear = self._wake, self._ear
        self._thread = self._wake = self._ear = None
        for end in wake or ():
            os.close(end)
        if ear is not None:
            ear.close()

    def _pause_s(self, now_s: float) -> float:
        next_at_s = min(each.next_at_s for several in self._watches.values() for each in several)
        if self._ear is not None and not self._ear.is_live:
            next_at_s = min(next_at_s, now_s + _LONGEST_S)
        return max(0.0, next_at_s - now_s)

    def _sleep(self, pause_s: float) -> None:
        wake, ear = self._wake, self._ear
        assert wake is not None
        sources: list[Any] = [wake[0]] if ear is None else [wake[0], ear]
        try:
            ready, _, _ = select.select(sources, (), (), pause_s)
        except (OSError, ValueError):  # the ear's connection is gone
            self._lose_ear(_LOST_S)
            return
        if wake[0] in ready:
            os.read(wake[0], 4096)

    def _nudge(self) -> None:
        if self._wake is not None:
            os.write(self._wake[1], b"x")

    # -- listening ---------------------------------------------------------------------------------------------
    def _listen(self) -> None:
        if self._place is None:
            return
        if self._ear is None:
            if not self._watches or time.monotonic() < self._ear_at_s:
                return
            try:
                self._ear = Ear(self._sessions.own_engine(), self._place)
            except Exception as error:  # noqa: BLE001  # it is asked meanwhile
                logger.debug("no connection to listen on: %s", error)
                self._ear_at_s = time.monotonic() + _LOST_S
                return
        ear, was_live = self._ear, self._ear.is_live
        try:
            ended = ear.take()
        except Exception as error:  # noqa: BLE001  # of the driver
            logger.debug("the listening connection is gone: %s", error)
            self._lose_ear(_LOST_S)
            return
        for run_id in ended:
            self._call(run_id)
        if ear.is_live and not was_live:
            self._look_now()  # what ended before was told to nobody
        elif ear.is_deaf:
            logger.debug("notifications do not come through, as behind a pooler; runs are asked for instead")
            self._lose_ear(_DEAF_S)

    def _lose_ear(self, pause_s: float) -> None:
        ear, self._ear = self._ear, None
        self._ear_at_s = time.monotonic() + pause_s
        if ear is not None:
            ear.close()
        self._look_now()

    def _look_now(self) -> None:
        with self._lock:
            for each in (each for several in self._watches.values() for each in several):
                each.pause_s, each.next_at_s = _FIRST_S, 0.0

    # -- asking ------------------------------------------------------------------------------------------------
    def _ask(self) -> None:
        now_s = time.monotonic()
        with self._lock:
            every = [each for several in self._watches.values() for each in several]
            if all(each.next_at_s > now_s for each in every):
                return
            due = [each for each in every if each.next_at_s - _SLACK * each.pause_s <= now_s]
        try:
            found = self._read(sorted({each.run_id for each in due}))
        except SagaError:
            # They ask for themselves, and tell their callers what is wrong.
            for each in due:
                self._finish(each)
            return
        heard = self._ear is not None and self._ear.is_live
        for each in due:
            status, seq = found.get(each.run_id, (None, 0))
            if status is None or status in _ENDS or (each.after is not None and seq > each.after):
                self._finish(each)
                continue
            longest_s, first_s = (
                (_HEARD_LONGEST_S, _HEARD_FIRST_S) if heard and each.after is None else (_LONGEST_S, 0.0)
            )
            each.pause_s = max(first_s, min(each.pause_s * _GROWTH, longest_s))
            each.next_at_s = time.monotonic() + each.pause_s

    def _read(self, ids: Sequence[str]) -> Mapping[str, tuple[str, int]]:
        found: dict[str, tuple[str, int]] = {}
        for first in range(0, len(ids), _AT_A_TIME):
            some = {"ids": ids[first : first + _AT_A_TIME]}

            def work(tx: Tx, some: dict[str, Any] = some) -> list[Any]:
                return list(tx.run("ask for runs", self._positions, some))

            found |= {row[0]: (row[1], row[2]) for row in self._sessions.read("ask", work)}
        return found

    def _call(self, run_id: str) -> None:
        with self._lock:
            several = list(self._watches.get(run_id, ()))
        for each in several:
            self._finish(each)

    def _call_all(self) -> None:
        for run_id in list(self._watches):
            self._call(run_id)

    def _finish(self, watch: Watch) -> None:
        self.forget(watch)
        try:
            watch.call()
        except Exception as error:  # noqa: BLE001  # an event loop that was closed meanwhile
            logger.debug("nobody waits for run %s any more: %s", watch.run_id, error)


_ALL: weakref.WeakSet[Waiters] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for each in list(_ALL):
        each.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
