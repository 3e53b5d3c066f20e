"""The store of runs in SQL: each method of the port as one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from celery_saga.core.due import Due, DueKind, SentFilter
from celery_saga.core.focus import Extent, Focus
from celery_saga.core.ports import Arrival, Change, Claimed, Fleet, Loaded, StoredDefinition, Transition
from celery_saga.core.records import RunRecord, SignalRecord, StepRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepStatus
from celery_saga.core.wakeup import after
from celery_saga.errors import DefinitionError
from celery_saga.store.arrivals import Arrivals
from celery_saga.store.callers import CallersTransaction
from celery_saga.store.dialects import database_named
from celery_saga.store.following import Ending
from celery_saga.store.kept import KeptRuns
from celery_saga.store.lane_store import WithLanes
from celery_saga.store.outbox import Outbox, OutboxRows
from celery_saga.store.parts import parts_of
from celery_saga.store.quick import Quick
from celery_saga.store.schedule_store import ScheduleMethods
from celery_saga.store.session import Sessions, Trace, Tx
from celery_saga.store.shown import Shown
from celery_saga.store.starting import StartAtOnce
from celery_saga.store.stepping import OwnStepTransaction, step_transaction
from celery_saga.store.transact import Transitions
from celery_saga.store.vault import Vault
from celery_saga.store.waiters import Waiters

PATIENCE_S = 5.0
_SCHEDULES_AT_ONCE = 20  # each starts a run at least: what else is due is not to wait for many


def open_store(
    url: str,
    *,
    engine_options: Mapping[str, Any] | None = None,
    table_prefix: str = "",
    clock: Callable[[], datetime] | None = None,
    patience_s: float = PATIENCE_S,
    vault: Vault | None = None,
    shares: bool = False,
) -> SqlStore:
    """A store on the database of a URL; connects when first used, once in each process.

    Args:
        url: as SQLAlchemy takes it; without a driver, PostgreSQL is reached through psycopg2, MySQL and MariaDB through
            PyMySQL; `sqlite://` is a database in memory, for one process.
        engine_options: for `sqlalchemy.create_engine`; they go over the store's own.
        table_prefix: in front of every table's name.
        clock: the time, instead of the database's; for tests.
        patience_s: for how long an unreachable database is tried again, in seconds.
        vault: how payloads are at rest; None: as they are.
        shares: tables and statements may be those of other stores of this process; not with a clock, codec or offload.
    Raises:
        DefinitionError: the URL cannot be read, or names a database or driver that is not there; nothing was opened.
    """
    read = url_of(url)
    try:
        made: dict[str, Any] = {"clock": clock, "patience_s": patience_s, "vault": vault, "shares": shares}
        return SqlStore(read, engine_options or {}, table_prefix=table_prefix, **made)
    except (ArgumentError, ImportError, TypeError) as error:
        # Unknown drivers and options of the engine; never the URL itself, which may hold a password.
        raise DefinitionError(
            f"the database {read.drivername!r} cannot be opened: {type(error).__name__}: {error}; nothing was opened. "
            "Check its driver, and the engine options"
        ) from error


def url_of(url: str) -> URL:
    """The URL of a database, read; nothing is connected.

    Raises:
        DefinitionError: it is none, or its database is not supported.
    """
    if url.startswith("postgres:"):
        url = "postgresql:" + url.removeprefix("postgres:")
    try:
        read = make_url(url)
    except (ArgumentError, ValueError):
        # What it says is kept back: it may hold a password.
        raise DefinitionError(
            "the database URL cannot be read; nothing was opened. It has the form "
            "dialect://user:password@host:port/database, like postgresql://shop@db/shop or sqlite:///sagas.db, with "
            "special characters of the password written as %XX"
        ) from None
    database_named(read.get_backend_name())
    return read


class SqlStore(ScheduleMethods, WithLanes, KeptRuns):
    """`celery_saga.core.ports.Store` over SQLAlchemy Core; see there for what each method promises."""

    def __init__(
        self,
        url: URL,
        engine_options: Mapping[str, Any],
        *,
        table_prefix: str,
        clock: Callable[[], datetime] | None,
        patience_s: float,
        vault: Vault | None = None,
        shares: bool = False,
    ) -> None:
        parts = self._parts = parts_of(url, table_prefix, vault, clock, shares=shares)
        self.database = parts.database
        self.vault, self.schema, self.clock = parts.vault, parts.schema, parts.clock
        self.own_sessions = Sessions(url, self.database, engine_options, patience_s=patience_s, vault=self.vault)
        self.sessions: Sessions | CallersTransaction = self.own_sessions
        self.waiters = Waiters(self.own_sessions, self.schema, table_prefix, listens=self.database.listens)
        announced = OutboxRows(self.schema)
        self.outbox = Outbox(self.own_sessions, self.schema, self.clock, self.database, announced)
        self.shown = Shown(self.own_sessions, self.schema)
        self._transitions = Transitions(self.schema, parts.reading, self.database, announced, parts.slots)
        self._quick: Quick | None = None
        if self.database.writes_together:
            self._quick = Quick(self.own_sessions, parts, announced, self.waiters.nobody_listens)
            self._start_at_once = StartAtOnce(self.own_sessions, parts, announced)
        self._arrivals = Arrivals(self.schema, self.clock, self.database, announced, parts.slots)

    # -- the process -----------------------------------------------------------------------------------------
    @property
    def dialect(self) -> str:
        """`postgresql`, `sqlite`, `mysql` or `mariadb`."""
        return self.sessions.engine.dialect.name

    @property
    def trace(self) -> Trace | None:
        """Called before and after every statement, commit and rollback, as `before:lock run`; None: not called."""
        return self.sessions.trace

    @trace.setter
    def trace(self, trace: Trace | None) -> None:
        self.sessions.trace = trace

    def close(self) -> None:
        """Close this process's connections; the next call opens new ones."""
        self.waiters.close()
        self.sessions.close()

    def after_fork(self) -> None:
        """In a forked child: leave the parent's connections alone. Also done by itself at the first use."""
        self.sessions.after_fork()

    def joined(self, connection: Any) -> SqlStore:
        """The same store inside the caller's transaction: it commits and rolls back nothing, and tries nothing again.

        Args:
            connection: a SQLAlchemy connection or session, Django's connection, or one of the driver, to the same
                database; READ COMMITTED where `transact` is to be used.
        """
        inside = copy(self)
        inside.sessions = CallersTransaction(self.own_sessions, connection)
        inside._quick = None
        return inside

    def after_commit(self, do: Callable[[], object]) -> Ending:
        """Call `do` right after the caller's commit, where this store is joined to a caller's transaction; else now.

        Returns:
            How that transaction ends.
        """
        if isinstance(self.sessions, CallersTransaction):
            return self.sessions.after_commit(do)
        ending = Ending(do)
        ending.commit()
        return ending

    def step_transaction(self) -> AbstractContextManager[OwnStepTransaction]:
        """A transaction that a task and its checkpoint share; it commits when the block is left without an exception.

        Raises:
            StoreUnavailable: the database is out of reach; the block was not entered.
        """
        return step_transaction(self)

    # -- runs ------------------------------------------------------------------------------------------------
    def now(self) -> datetime:
        """The database's time."""
        return self.sessions.read("now", self._parts.reading.now)

    def start_run(
        self, saga: str, make: Callable[[Arrival], RunRecord], *, eta: datetime | None, look_s: float
    ) -> tuple[RunRecord, bool]:
        """See the port."""
        begun_s, unsure = time.monotonic(), False
        if self._quick is not None and eta is None:
            made, unsure = self._start_at_once.start(make)
            if made is not None:
                return made, True
        arrival = self.sessions.read("arrival", lambda tx: self._arrivals.arrival(tx, saga))
        run = make(arrival)
        look_at = after(arrival.now, look_s) if run.admission else None
        since = arrival.now - timedelta(seconds=time.monotonic() - begun_s) if unsure else None
        return self.sessions.write("insert_run", lambda tx: self._arrivals.insert_run(tx, run, look_at, since))

    def insert_run(self, run: RunRecord, *, look_at: datetime | None = None) -> tuple[RunRecord, bool]:
        """See the port."""
        return self.sessions.write("insert_run", lambda tx: self._arrivals.insert_run(tx, run, look_at))

    def load(
        self,
        run_id: str,
        *,
        generation: int | None = None,
        extent: Extent = Extent.LIVE,
        focus: Focus | None = None,
    ) -> Loaded | None:
        """See the port."""
        if self._quick is not None and generation is None and focus is None and extent is Extent.LIVE:
            loaded, is_known = self._quick.load(run_id)
            if is_known:
                return loaded
        return self.sessions.read("load", lambda tx: self._parts.reading.load(tx, run_id, generation, extent, focus))

    def transact(
        self,
        run_id: str,
        change: Change,
        *,
        focus: Focus | None = None,
        basis: Snapshot | None = None,
        at: datetime | None = None,
        is_blind: bool = True,
        as_stored: bool = False,
    ) -> Transition | None:
        """See the port."""
        unsure = False
        if basis is not None and at is not None and self._quick is not None:
            done, unsure = self._quick.transact(basis, change, at)
            if done is not None:
                return done
        bases = [basis] if basis is not None and is_blind else []

        def work(tx: Tx) -> Transition | None:
            # Once: whatever makes it be tried again, the row is read then.
            known = bases.pop() if bases else None
            return self._transitions.transact(tx, run_id, change, focus, known, as_stored=as_stored)

        return self.sessions.write("transact", work, guarded=True, fetches=not as_stored, again=unsure)

    # -- steps -----------------------------------------------------------------------------------------------
    def claim(
        self,
        run_id: str,
        generation: int,
        key: str,
        *,
        token: str,
        owner: str,
        lease_s: float,
        focus: Focus | None = None,
    ) -> Claimed | None:
        """See the port."""
        of = (run_id, generation, key)
        how: dict[str, Any] = {"token": token, "owner": owner, "lease_s": lease_s}
        unsure = False
        if focus is None and self._quick is not None:
            claimed, unsure = self._quick.claim(*of, **how)
            if claimed is not None:
                return claimed
        return self.sessions.write(
            "claim", lambda tx: self._parts.claims.claim(tx, *of, **how, focus=focus), again=unsure
        )

    def renew(self, run_id: str, generation: int, key: str, *, token: str, lease_s: float) -> RunRecord | None:
        """See the port."""

        def work(tx: Tx) -> RunRecord | None:
            return self._parts.claims.renew(tx, run_id, generation, key, token=token, lease_s=lease_s)

        return self.sessions.write("renew", work)

    def report_progress(self, run_id: str, generation: int, key: str, *, token: str, progress_text: str) -> bool:
        """Write what a running attempt reports of its progress; False: the claim is no longer ours, nothing is written.

        Takes no lock but that of the row, and moves no version: nothing is decided by it.
        """

        def work(tx: Tx) -> bool:
            return self._parts.progress.report(tx, run_id, generation, key, token=token, progress_text=progress_text)

        return self.sessions.write("report_progress", work)

    def status_of(self, run_id: str, generation: int, key: str) -> StepStatus | None:
        """See the port."""
        return self.sessions.read("status_of", lambda tx: self._parts.reading.status_of(tx, run_id, generation, key))

    def leave_unsent(self, run_id: str, generation: int, keys: Sequence[str]) -> None:
        """See the port."""
        self.sessions.write("leave_unsent", lambda tx: self._parts.claims.leave_unsent(tx, run_id, generation, keys))

    def put_off(self, step: StepRecord, *, delay_s: float) -> None:
        """See the port."""
        self.sessions.write("put_off", lambda tx: self._parts.claims.put_off(tx, step, delay_s=delay_s))

    def put_off_run(self, run: RunRecord, *, delay_s: float) -> None:
        """See the port."""
        self.sessions.write("put_off_run", lambda tx: self._parts.claims.put_off_run(tx, run, delay_s=delay_s))

    # -- signals ---------------------------------------------------------------------------------------------
    def put_signal(self, signal: SignalRecord) -> tuple[SignalRecord, bool]:
        """See the port."""
        return self.sessions.write("put_signal", lambda tx: self._arrivals.put_signal(tx, signal))

    def signals(self, run_id: str) -> list[SignalRecord]:
        """See the port."""
        return self.sessions.read("signals", lambda tx: self._parts.reading.signals(tx, run_id))

    # -- what is due -----------------------------------------------------------------------------------------
    def pick_due(self, *, limit: int, hold_s: float) -> Sequence[Due]:
        """See the port; a transaction for each kind, so that locks are short, and its share of `limit`."""
        kinds = self.sessions.read("peek", self._parts.due.peek)
        share = max(1, limit // max(1, len(kinds)))
        found: list[Due] = []
        for kind in (DueKind.RUN, DueKind.STEP, DueKind.SIGNAL, DueKind.SCHEDULE, DueKind.LANE):
            if kind in kinds:
                most = min(share, _SCHEDULES_AT_ONCE) if kind is DueKind.SCHEDULE else share
                found += self.sessions.write("pick", self._picker(kind, most, hold_s), fetches=False)
        return found

    def coming_s(self, within_s: float, *, since_s: float = 0.0) -> float | None:
        """See the port."""
        return self.sessions.read("coming", lambda tx: self._parts.coming.within(tx, within_s, since_s))

    def _picker(self, kind: DueKind, limit: int, hold_s: float) -> Callable[[Tx], list[Due]]:
        return lambda tx: self._parts.due.pick(tx, kind, limit=limit, hold_s=hold_s)

    def sent(self, kind: DueKind, wanted: SentFilter) -> list[Due]:
        """See the port."""
        return self.sessions.read("sent", lambda tx: self._parts.sent.find(tx, kind, wanted))

    def mark_redispatched(self, dues: Sequence[Due], *, hold_s: float) -> list[Due]:
        """See the port."""
        return self.sessions.write("mark_redispatched", lambda tx: self._parts.sent.mark(tx, dues, hold_s=hold_s))

    def take_back(self, dues: Sequence[Due]) -> None:
        """See the port."""
        self.sessions.write("take_back", lambda tx: self._parts.sent.take_back(tx, dues))

    def beat(self, name: str, *, host: str, pid: int, sagas: Iterable[tuple[str, int]], ttl_s: float) -> Fleet:
        """See the port."""
        known = list(sagas)

        def work(tx: Tx) -> Fleet:
            return self._parts.sweepers.beat(tx, name, host=host, pid=pid, sagas=known, ttl_s=ttl_s)

        return self.sessions.write("beat", work)

    def leave(self, name: str) -> None:
        """See the port."""
        self.sessions.write("leave", lambda tx: self._parts.sweepers.leave(tx, name))

    def sweepers(self) -> list[Mapping[str, Any]]:
        """See the port."""
        return self.sessions.read("sweepers", self._parts.sweepers.all)

    # -- stored graphs ---------------------------------------------------------------------------------------
    def definition(self, name: str, version: int) -> StoredDefinition | None:
        """See the port."""
        return self.sessions.read("definition", lambda tx: self._parts.definitions.get(tx, name, version))

    def put_definition(self, name: str, version: int, *, digest: str, graph_text: str) -> StoredDefinition:
        """See the port."""

        def work(tx: Tx) -> StoredDefinition:
            return self._parts.definitions.put(tx, name, version, digest=digest, graph_text=graph_text)

        return self.sessions.write("put_definition", work)
