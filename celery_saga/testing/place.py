"""What an app's runs are served with in a laboratory: the real engine, a database in memory, a virtual clock."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from celery import Celery

from celery_saga.core.attempts import Outcome
from celery_saga.core.decision import Decision
from celery_saga.core.ports import Claimed
from celery_saga.core.replay import Live
from celery_saga.core.snapshot import Snapshot
from celery_saga.definition.registry import Registry
from celery_saga.definition.saga import Saga
from celery_saga.engine.engine import Engine
from celery_saga.engine.ports import Publisher
from celery_saga.runtime.attempt import Attempt, lease_of
from celery_saga.runtime.drivers import zone_of
from celery_saga.runtime.renewal import Renewals
from celery_saga.runtime.reports import Reports
from celery_saga.runtime.services import Services, vault_of
from celery_saga.store import SqlStore, migrate, open_store
from celery_saga.testing.clock import VirtualClock

__all__ = ["LabRegistry", "LabRenewals", "LabServices", "Sight"]


@dataclass(frozen=True, slots=True)
class Sight:
    """What a decision is taken on.

    Args:
        snapshot, now, region: as of `Registry.decide`.
        is_live: steps are executed while it is taken.
    """

    snapshot: Snapshot
    now: datetime
    region: str
    is_live: bool


Watch = Callable[[Sight, Callable[[], Decision | None]], Decision | None]
"""Sees each decision, and lets it be taken."""


class LabServices(Services):
    """An app's services while a laboratory is open.

    Args:
        app: the Celery app.
        line: takes the engine's messages.
        clock: the time.
    """

    is_shared = False

    def __init__(self, app: Celery, line: Publisher, clock: VirtualClock) -> None:
        self.clock = clock
        super().__init__(app, lambda _: line)
        self.lab_renewals = LabRenewals(self.engine, clock)
        self._lab_reports = LabReports(self.store)

    def close(self) -> None:
        """Let the database go with the last handle that can ask it: tests look at runs when all is over."""
        weakref.finalize(self.store, self.store.sessions.close)

    @property
    def renewals(self) -> Renewals:
        """Leases are kept as far as the virtual time moves."""
        return self.lab_renewals

    @property
    def reports(self) -> Reports:
        """Progress is written when it is reported."""
        return self._lab_reports

    def _is_eager(self) -> bool:
        return False

    def _known_sagas(self) -> Registry:
        return LabRegistry(super()._known_sagas(), self.settings.max_payload_bytes)

    def _open_store(self, patience_s: float | None) -> SqlStore:
        store = open_store("sqlite://", clock=lambda: self.clock.now, vault=vault_of(self.settings))
        migrate(store)
        return store

    def _set_up_schedules(self) -> None:
        # Nothing outside of the laboratory is shown what a test schedules.
        self.engine.schedules.zone = zone_of(self.app)

    def _make_engine(self, engine: type[Engine]) -> Engine:
        made = super()._make_engine(LabEngine)
        assert isinstance(made, LabEngine)
        made.clock = self.clock
        return made


class LabEngine(Engine):
    """The engine without chance: back-offs are as long as they are written, and durations are virtual."""

    clock: VirtualClock

    def __init__(self, *args: Any, **options: Any) -> None:
        said = {"draw": _no_jitter, "monotonic_s": self._waited_s, "pause": self._pause}
        super().__init__(*args, **{**options, **said})

    def check_in(self, claimed: Claimed, outcome: Outcome, *, elapsed_s: float = 0.0) -> bool:
        """See `Engine.check_in`; real time does not count."""
        return super().check_in(claimed, outcome, elapsed_s=self.clock.since_s(claimed.now))

    def _waited_s(self) -> float:
        # Stands still while the clock moves: a leap is no outage of the sweeper.
        return self.clock.waited_s

    def _pause(self, pause_s: float) -> None:
        self.clock.pause(pause_s)


def _no_jitter() -> float:
    return 0.0


class LabRegistry(Registry):
    """The sagas of the app, and before them those that the test names itself."""

    def __init__(self, under: Registry, max_payload_bytes: int) -> None:
        super().__init__((), max_payload_bytes=max_payload_bytes)
        self._under = under
        self.watch: Watch | None = None

    def put(self, saga: Saga[Any, Any]) -> None:
        """Know this saga, whatever else has its name: a test says which one it means."""
        self._sagas[saga.name, saga.version] = saga

    def __iter__(self) -> Iterator[Saga[Any, Any]]:
        yield from super().__iter__()
        yield from (each for each in self._under if (each.name, each.version) not in self._sagas)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, saga: object) -> bool:
        return any(each is saga for each in self)

    def get(self, name: str, version: int) -> Saga[Any, Any] | None:
        """See `Registry.get`."""
        return super().get(name, version) or self._under.get(name, version)

    def latest(self, name: str) -> Saga[Any, Any] | None:
        """See `Registry.latest`."""
        found = [each for each in (super().latest(name), self._under.latest(name)) if each is not None]
        return max(found, key=lambda each: each.version, default=None)

    def known(self) -> list[tuple[str, int]]:
        """See `Registry.known`."""
        return list(dict.fromkeys((*super().known(), *self._under.known())))

    def decide(self, snapshot: Snapshot, now: datetime, live: Live | None = None, region: str = "") -> Decision | None:
        """See `Registry.decide`."""

        def take() -> Decision | None:
            return super(LabRegistry, self).decide(snapshot, now, live, region)

        return take() if self.watch is None else self.watch(Sight(snapshot, now, region, live is not None), take)


class LabRenewals(Renewals):
    """Keeps leases when the virtual time moves while a task runs; there is no thread."""

    def __init__(self, engine: Engine, clock: VirtualClock) -> None:
        super().__init__(engine)
        self._clock = clock
        self._running: list[Attempt] = []
        self._told_at: dict[int, datetime] = {}

    @property
    def is_needed(self) -> bool:
        """An attempt runs now: this is called from inside its task."""
        return bool(self._running)

    @property
    def in_transaction(self) -> str | None:
        """The step whose attempt runs now and holds a transaction; None: none does."""
        return next((each.claimed.step.key for each in self._running if each.is_transactional), None)

    def add(self, attempt: Attempt) -> None:
        """See `Renewals.add`."""
        self._running.append(attempt)

    def remove(self, attempt: Attempt) -> None:
        """See `Renewals.remove`."""
        self._running = [each for each in self._running if each is not attempt]
        self._told_at.pop(id(attempt), None)

    def renew(self) -> None:
        """Prolong the leases of what runs and is neither over time nor deaf to a cancel for longer than a lease."""
        for attempt in tuple(self._running):
            timeout_s, elapsed_s = attempt.timeout_s, self._clock.since_s(attempt.claimed.now)
            told_at = self._told_at.get(id(attempt))
            is_deaf = told_at is not None and self._clock.since_s(told_at) >= self._lease_s
            if is_deaf or (timeout_s is not None and elapsed_s >= timeout_s):
                continue
            run = self._engine.renew(attempt.claimed, left_s=lease_of(timeout_s, elapsed_s))
            if run is None:
                attempt.cancelled = True
            elif attempt.is_forward and (run.outcome is not None or self._engine.is_abandoned(attempt.claimed)):
                attempt.cancelled = True
                self._told_at.setdefault(id(attempt), self._clock.now)


class LabReports(Reports):
    """Writes the progress of steps at once; there is no thread."""

    def __init__(self, store: SqlStore) -> None:
        super().__init__(store)
        self._left: dict[int, str] = {}

    def put(self, attempt: Attempt, text: str) -> None:
        """See `Reports.put`."""
        if attempt.is_transactional:  # the database has one connection, which is in its transaction
            self._left[id(attempt)] = text
            return
        step = attempt.claimed.step
        self._store.report_progress(
            step.run_id, step.generation, step.key, token=step.claim_token or "", progress_text=text
        )

    def take(self, attempt: Attempt) -> str | None:
        """See `Reports.take`."""
        return self._left.pop(id(attempt), None)
