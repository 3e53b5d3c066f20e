"""What was used of the processors, which another process beside changes less than how long something took."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Used:
    """Seconds of processors: of the processes that execute, and of PostgreSQL's for them."""

    processes_s: float
    database_s: float

    def since(self, before: Used, steps: int) -> Used:
        """What one of so many steps took since then."""
        return Used(
            (self.processes_s - before.processes_s) / steps,
            (self.database_s - before.database_s) / steps,
        )


def used(pids: Iterable[int], database: str | None) -> Used:
    """Up to now, by living processes and by living connections to a database."""
    backends = [] if database is None else [each for each in psutil.process_iter() if _serves(each, database)]
    return Used(sum(map(_seconds, map(psutil.Process, pids))), sum(map(_seconds, backends)))


def _serves(process: psutil.Process, database: str) -> bool:
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    return bool(words) and words[0].startswith("postgres:") and f" {database} " in words[0]


def _seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)
