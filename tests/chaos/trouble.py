"""Does what a plan says to workers and servers, and writes down what it has done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count

import psutil

from tests.chaos.evidence import Hit
from tests.chaos.fleet import Fleet, Place, frozen
from tests.chaos.plan import Fault
from tests.chaos.servers import Broker, Database

STALL_S = 1.0
"""The machine stands still when a thread that wants to run every 50 ms does not for so long."""


class Trouble:
    """Each fault in a thread of its own, so that they overlap as the plan has it."""

    def __init__(self, faults: tuple[Fault, ...], fleet: Fleet, broker: Broker, database: Database) -> None:
        self._faults, self._fleet, self._broker, self._database = faults, fleet, broker, database
        self._hits: dict[int, Hit] = {}
        self._numbers = count()
        self.errors: list[str] = []
        self._over = threading.Event()
        self._locks = {"broker": threading.Lock(), "database": threading.Lock()}
        self._threads = [threading.Thread(target=self._watch, daemon=True)]
        self.over_at = 0.0

    @property
    def hits(self) -> tuple[Hit, ...]:
        """What was done so far, oldest first."""
        return tuple(sorted(self._hits.values(), key=lambda hit: hit.at))

    def run(self) -> None:
        """Do all of it; returns when everything is back and nobody stands still."""
        begin_s = time.monotonic()
        self._threads[0].start()
        several = []
        for fault in self._faults:
            self._over.wait(max(0.0, begin_s + fault.at_s - time.monotonic()))
            several.append(threading.Thread(target=self._do, args=(fault,), daemon=True))
            several[-1].start()
        for thread in several:
            thread.join(120)
        self.over_at = time.time()

    def close(self) -> None:
        """Watch the machine no longer."""
        self._over.set()
        self._threads[0].join(5)

    def _do(self, fault: Fault) -> None:
        try:
            getattr(self, f"_{fault.kind}")(fault, self._fleet.places[fault.slot])
        except Exception as error:  # noqa: BLE001  # a fault that cannot be done is told in the report
            self.errors.append(f"{fault}: {error!r}")

    @contextmanager
    def _noting(self, kind: str, processes: list[psutil.Process] | None = None, note: str = "") -> Iterator[None]:
        pids = tuple(each.pid for each in processes or ())
        at = time.time()
        # Whoever dies by it must be known before anybody can look.
        number = next(self._numbers)
        self._hits[number] = Hit(kind, at, at, pids, note)
        yield
        self._hits[number] = Hit(kind, at, time.time(), pids, note)

    # -- workers -----------------------------------------------------------------------------------------------
    def _kill_child(self, fault: Fault, place: Place) -> None:
        children = place.family()[1:]
        if children:
            child = children[fault.pick % len(children)]
            with self._noting("kill_child", [child]), suppress(psutil.NoSuchProcess):
                child.kill()

    def _kill_worker(self, _fault: Fault, place: Place) -> None:
        family = place.family()
        if family:
            with self._noting("kill_worker", family), suppress(psutil.NoSuchProcess):
                family[0].kill()

    def _stop_worker(self, _fault: Fault, place: Place) -> None:
        if place.family():
            with self._noting("stop_worker"):
                place.stop()

    def _freeze_child(self, fault: Fault, place: Place) -> None:
        children = place.family()[1:]
        if children:
            self._freeze("freeze_child", [children[fault.pick % len(children)]], fault)

    def _freeze_worker(self, fault: Fault, place: Place) -> None:
        self._freeze("freeze_worker", place.family(), fault)

    def _freeze(self, kind: str, processes: list[psutil.Process], fault: Fault) -> None:
        with self._noting(kind, processes, f"{fault.lasts_s:g} s"), frozen(processes):
            self._over.wait(fault.lasts_s)

    # -- servers -----------------------------------------------------------------------------------------------
    def _flush_broker(self, _fault: Fault, _place: Place) -> None:
        with self._locks["broker"], self._noting("flush_broker"):
            self._broker.flush()

    def _restart_broker(self, fault: Fault, _place: Place) -> None:
        with self._locks["broker"], self._noting("restart_broker", note=f"{fault.lasts_s:.1f} s away"):
            self._away(self._broker.down, self._broker.up, fault.lasts_s)

    def _restart_database(self, fault: Fault, _place: Place) -> None:
        with self._locks["database"], self._noting("restart_database", note=f"{fault.lasts_s:.1f} s away"):
            self._away(lambda: self._database.down(hard=False), self._database.up, fault.lasts_s)

    def _kill_database(self, fault: Fault, _place: Place) -> None:
        with self._locks["database"], self._noting("kill_database", note=f"{fault.lasts_s:.1f} s away"):
            self._away(lambda: self._database.down(hard=True), self._database.up, fault.lasts_s)

    def _cut_connections(self, _fault: Fault, _place: Place) -> None:
        with self._locks["database"], self._noting("cut_connections"):
            self._database.cut()

    def _away(self, down: Callable[[], None], up: Callable[[], None], seconds: float) -> None:
        down()
        self._over.wait(seconds)
        up()

    # -- the machine -------------------------------------------------------------------------------------------
    def _watch(self) -> None:
        before = time.time()
        while not self._over.wait(0.05):
            now = time.time()
            if now - before > STALL_S:
                self._hits[next(self._numbers)] = Hit("machine_stall", before, now)
            before = now
