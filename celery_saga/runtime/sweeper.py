"""The loop that wakes what is due and ends the attempts whose process is gone."""

from __future__ import annotations

import logging
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from celery_saga.core import wakeup
from celery_saga.core.records import StepRecord
from celery_saga.core.status import StepStatus
from celery_saga.engine.engine import Engine
from celery_saga.engine.lanes import SaidLanes
from celery_saga.engine.purging import Tidier
from celery_saga.engine.seldom import Seldom
from celery_saga.errors import SagaError, StoreUnavailable
from celery_saga.runtime.assembly import relays_of, reminder_of
from celery_saga.runtime.daemon import start_daemon
from celery_saga.runtime.drivers import driver_of
from celery_saga.runtime.fork_gate import FORK_GATE
from celery_saga.runtime.hints import HINTS, Hint, HintKind, Hints
from celery_saga.runtime.pace import Look, Pace
from celery_saga.runtime.pid_watch import PidWatch
from celery_saga.runtime.relay import Relay
from celery_saga.runtime.revoked import give_new_id
from celery_saga.runtime.scheduling import sync
from celery_saga.runtime.services import Services, host
from celery_saga.runtime.showing.mirror import Reminder

__all__ = ["ALIVE_S", "SweeperLoop", "run_until_signalled"]

logger = logging.getLogger("celery_saga.sweeper")
seldom = Seldom(logger)

_BEAT_S, _SELDOM_BEAT_S = 5.0, 10.0  # however seldom it looks: its row tells that it lives, and what it knows
ALIVE_S = 15.0
"""A sweeper that has not been seen for so long, in seconds, is not alive or is stuck."""
_DRAIN_TICKS = 50
_STILL_ALIVE_S = 0.05
_MANY = 100  # announcements in one turn
_SYNC_AGAIN_S, _AGAIN_S = 5.0, 1.0


class SweeperLoop:
    """A thread with services, broker connection and locks of its own; any exception is survived.

    Args:
        make: gives services that nobody else uses; called in the thread.
        pids: the pool's children, to be watched.
        hints: reports of the pool.
    """

    def __init__(
        self, make: Callable[[], Services], *, pids: Callable[[], Iterable[int]] = tuple, hints: Hints = HINTS
    ) -> None:
        self._make = make
        self._hints = hints
        self._watch = PidWatch(hints, pids)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._services: Services | None = None
        self._has_synced = False  # what this code says of lanes is in the tables
        self._engine: Engine | None = None
        self._relays: list[Relay] = []
        self._reminder: Reminder | None = None
        self._tidier: Tidier | None = None
        self._beat_at_s = math.inf
        self._pace = Pace(time.monotonic)
        self._sync_at_s: float | None = 0.0
        self._later: list[tuple[float, Hint]] = []
        self.name = f"{host()}:{os.getpid()}"

    # -- from outside ------------------------------------------------------------------------------------------
    def start(self) -> None:
        """Start the thread, once; a loop that has ended stays ended."""
        if self._thread is None:
            self._thread = start_daemon(self.run, "saga-sweeper")

    def stop(self, timeout_s: float = 5.0) -> None:
        """End the loop after its present tick; returns when it has ended, or after `timeout_s`."""
        self._stop.set()
        self._watch.wake()
        thread = self._thread
        if thread is not None:
            thread.join(timeout_s)

    def run(self) -> None:
        """The loop itself, until `stop`."""
        while not self._stop.is_set():
            try:
                with FORK_GATE.working():
                    self._turn()
            except SagaError as error:  # the database is away, or has no tables yet
                self._pace.failed()
                seldom.warning("the sweeper cannot work now, and goes on trying: %s", error)
            except Exception:
                self._pace.failed()
                seldom.exception("the sweeper's turn failed; it goes on")
            try:
                self._watch.wait(self._pause_s())
            except Exception:
                seldom.exception("the sweeper's wait failed; it goes on")
                self._stop.wait(1.0)
        self._watch.close()
        for relay in self._relays:
            relay.close()
        if self._reminder is not None:
            self._reminder.close()
        if self._services is not None:
            with suppress(SagaError):  # the row ages, and is not counted then
                self._services.store.leave(self.name)
            self._services.close()

    # -- one turn ----------------------------------------------------------------------------------------------
    def _turn(self) -> None:
        """Reports at once; what is due in the store when its time has come."""
        look = self._pace.begin(1.0 if self._services is None else self._services.settings.sweep_interval)
        engine = self._the_engine()
        self._handle_hints(engine)
        if look is Look.ALL:
            self._prepare(engine)
        self._beat(engine)
        quiet_at_s = None if look is Look.NOTHING else self._sweep(engine)
        if look is Look.ALL:
            self._tell()
        if quiet_at_s is not None and not self._stop.is_set():
            if look is Look.ALL:
                self._tidy(engine)
            if (sees_s := self._pace.sees_s) > 0:
                # What has come due since the sweep was not in it.
                self._pace.expect(engine.coming_s(sees_s, since_s=time.monotonic() - quiet_at_s))

    def _prepare(self, engine: Engine) -> None:
        if not self._has_synced:
            engine.world.lanes.sync(engine.world, also_unsaid=True)
            self._has_synced, self._beat_at_s = True, 0.0
        self._sync_schedules()

    def _sweep(self, engine: Engine) -> float | None:
        """What is due; when the look began that found nothing more. None: there is more, at once."""
        for _ in range(_DRAIN_TICKS):
            began_s = time.monotonic()
            if self._stop.is_set() or engine.sweep(self._pace.interval_s) == 0:
                return began_s
            self._handle_hints(engine)
        self._pace.hurry()
        return None

    def _tell(self) -> None:
        for relay in self._relays:
            if not self._stop.is_set() and relay.drain() >= _MANY:
                self._pace.hurry()
        if self._reminder is not None and not self._stop.is_set():
            self._reminder.remind()

    def _tidy(self, engine: Engine) -> None:
        """Once nothing is due, and in one process of the fleet: runs whose retention is over go, some at a time."""
        tidier, now_s = self._tidier, time.monotonic()
        if tidier is None or not tidier.is_due(now_s):
            return
        alive = [each["name"] for each in engine.store.sweepers() if each["silent_s"] <= ALIVE_S]
        if alive and min(alive) != self.name:
            tidier.put_off(now_s)
            return
        if gone := tidier.tidy(now_s):
            logger.info("%d runs that ended longer ago than saga_retention were purged", gone)

    def _pause_s(self) -> float:
        now_s = time.monotonic()
        return max(0.01, min([self._pace.next_s, self._beat_at_s - now_s, *(at_s - now_s for at_s, _ in self._later)]))

    def _the_engine(self) -> Engine:
        if self._services is None:
            self._services = self._make()
        if self._engine is None:
            services = self._services
            self._relays, self._reminder = relays_of(services), reminder_of(services)
            # Of its own: the outage that a sweeper notices is the silence of its own ticks.
            lanes = SaidLanes(services.said_of_lanes)
            options = (services.store, services.publisher, services.registry, services.settings.limits)
            self._engine = Engine(*options, lanes=lanes, watch=services.telemetry.watch)
            if services.settings.retention is not None:
                self._tidier = Tidier(services.store, services.settings.retention)
        return self._engine

    def _beat(self, engine: Engine) -> None:
        now_s = time.monotonic()
        if now_s < self._beat_at_s:
            return
        self._beat_at_s = now_s + _AGAIN_S
        fleet = engine.store.beat(
            self.name, host=host(), pid=os.getpid(), sagas=engine.definitions.known(), ttl_s=ALIVE_S
        )
        self._pace.join(fleet)
        self._beat_at_s = now_s + min(max(_BEAT_S, self._pace.interval_s), _SELDOM_BEAT_S)

    def _sync_schedules(self) -> None:
        """Once, before the first look: the schedules are those of the settings."""
        if self._services is None or self._sync_at_s is None or time.monotonic() < self._sync_at_s:
            return
        self._sync_at_s = time.monotonic() + _SYNC_AGAIN_S
        driver = driver_of(self._services.app)
        try:
            if driver is not None:
                driver.reconcile()
            sync(self._services)
            self._sync_at_s = None
        except SagaError as error:
            seldom.warning("the schedules of the settings are not written yet: %s", error)
        except Exception:
            seldom.exception("the schedules of the settings could not be written; it is tried again")
        finally:
            if driver is not None:
                driver.let_go()

    # -- reports -----------------------------------------------------------------------------------------------
    def _handle_hints(self, engine: Engine) -> None:
        now_s = time.monotonic()
        due = [hint for at_s, hint in self._later if at_s <= now_s]
        self._later = [(at_s, hint) for at_s, hint in self._later if at_s > now_s]
        for hint in (*self._hints.take(), *due):
            try:
                self._handle(engine, hint)
            except StoreUnavailable:
                self._later.append((now_s + 1.0, hint))
            except Exception:
                # The lease of the attempt will end by itself.
                logger.exception("a report of the pool could not be handled: %r", hint)

    def _handle(self, engine: Engine, hint: Hint) -> None:
        run_id, key = hint.ref["run"], hint.ref.get("step")
        if key is None:  # of a coordinator's message: the run stays due
            self._end_of_delivery(engine, hint)
            return
        loaded = engine.store.load(run_id)
        step = (
            None
            if loaded is None or loaded.snapshot.run.generation != hint.ref["generation"]
            else loaded.snapshot.steps.get(key)
        )
        if step is None:
            return
        if hint.kind is HintKind.UNKNOWN_TASK:
            if step.status is StepStatus.SCHEDULED:
                delay_s = wakeup.offered_again_s(max(0, step.sends - 1), engine.world.draw())
                engine.store.put_off(step, delay_s=delay_s)
            return
        if hint.kind is HintKind.REVOKED:
            give_new_id(engine, step)
        if step.status is StepStatus.RUNNING and step.owner == f"{host()}:{hint.pid}":
            self._end(engine, step, hint)

    def _end_of_delivery(self, engine: Engine, hint: Hint) -> None:
        """A process is gone that coordinated a run: what it executed inline, or decided of a part, has ended with it.

        Not by a time-out: the limit was that of the whole delivery.
        """
        if hint.kind not in (HintKind.ENDED, HintKind.TIME_LIMIT):
            return
        loaded = engine.store.load(hint.ref["run"])
        for step in () if loaded is None else loaded.snapshot.steps.values():
            if step.status is StepStatus.RUNNING and step.owner == f"{host()}:{hint.pid}":
                self._end(engine, step, replace(hint, limit_s=None))

    def _end(self, engine: Engine, step: StepRecord, hint: Hint) -> None:
        """End the attempt once its process is gone: an undo must not meet an effect that is still on its way."""
        if hint.pid != os.getpid() and _is_alive(hint.pid):
            self._later.append((time.monotonic() + _STILL_ALIVE_S, hint))
            return
        logger.info(
            "step %r of run %s, attempt %d: its process is gone (%s)", step.key, step.run_id, step.attempt, hint.kind
        )
        engine.end_attempt(step.run_id, step.key, step.claim_token, limit_s=hint.limit_s)


def _is_alive(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            return file.read().rpartition(b")")[2].split()[0] in {b"Z", b"X"}
    except (OSError, IndexError):
        return False


def run_until_signalled(loop: SweeperLoop) -> None:
    """Run the loop in this thread until SIGTERM or SIGINT."""

    def stop(*_: object) -> None:
        loop.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        loop.run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
