"""What a contestant is: processes that stand still until it is their turn, and a backlog that they work off."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Self

import psutil

from tests.bench.contestants.cpu import Used, used
from tests.workers import Worker, wait_until, workers

STEPS = 10
WARM_RUNS = 8
TIMEOUT_S = 300.0


class Contestant(ABC):
    """A context manager: inside it, its processes live, stopped by SIGSTOP while others are measured.

    Args:
        processes: how many execute steps.
    """

    name: str
    guessed_rate: float
    """Steps a second, to know how many runs keep it busy for so many seconds; corrected by what is measured."""

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self.stack = ExitStack()
        self._rate = self.guessed_rate
        self.used = Used(0.0, 0.0)
        """What a step took of the processors in the last turn."""

    @classmethod
    def missing(cls) -> str:
        """Why it cannot be measured here; empty where it can."""
        return ""

    @abstractmethod
    def open(self) -> None:
        """Make a place, and start the processes in it; `stack` closes them."""

    def serve(self, *several: Worker) -> tuple[Worker, ...]:
        """Start workers, which are killed at the end: they have nothing left to finish."""
        started = self.stack.enter_context(workers(*several))
        for each in started:
            self.stack.callback(each.kill)
        return started

    @abstractmethod
    def pids(self) -> list[int]:
        """Of all its processes."""

    @abstractmethod
    def start(self, runs: int) -> None:
        """Start so many sequences."""

    def let_go(self) -> AbstractContextManager[None]:
        """What was started is worked off inside it."""
        return running(self)

    @abstractmethod
    def left(self) -> int:
        """How many of those that were started last are not done yet."""

    def database(self) -> str | None:
        """The name of the database that it works with."""
        return None

    def rate(self, seconds: float) -> float:
        """Steps a second over a backlog of about so many seconds, which was started before the clock."""
        self.work_off(WARM_RUNS)
        runs = max(WARM_RUNS, round(self._rate * seconds / STEPS))
        self._rate = runs * STEPS / self.work_off(runs)
        return self._rate

    def work_off(self, runs: int) -> float:
        """How long a backlog takes, in seconds."""
        self.start(runs)
        pids, database = self.pids(), self.database()
        before = used(pids, database)
        with self.let_go():
            begun_s = time.perf_counter()
            wait_until(lambda: self.left() == 0, TIMEOUT_S, f"the backlog of {self.name} done")
            took_s = time.perf_counter() - begun_s
            self.used = used(pids, database).since(before, runs * STEPS)
        return took_s

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.stack = stack
            self.open()
            freeze(self.pids())
            stack.callback(lambda: thaw(self.pids()))
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()


@contextmanager
def running(*several: Contestant) -> Iterator[None]:
    """Processes that stand still run as long as the block lasts."""
    for each in several:
        thaw(each.pids())
    try:
        yield
    finally:
        for each in several:
            freeze(each.pids())


def freeze(pids: Iterable[int]) -> None:
    """SIGSTOP."""
    for pid in pids:
        psutil.Process(pid).suspend()


def thaw(pids: Iterable[int]) -> None:
    """SIGCONT."""
    for pid in pids:
        psutil.Process(pid).resume()


def family(pid: int) -> list[int]:
    """A process and those that it started; none once it is gone."""
    try:
        process = psutil.Process(pid)
        return [pid, *(child.pid for child in process.children(recursive=True))]
    except psutil.NoSuchProcess:
        return []
