"""Runs as this process has seen them last: what has not moved since need not be read again.

Nothing is right because of it: it only says what to ask for. Whether a run is still as it is remembered, the database
tells with the claim, by its version and the instant at which it came to that.
"""

from __future__ import annotations

from contextlib import suppress

from celery_saga.core.snapshot import Snapshot

__all__ = ["Remembered"]

_RUNS, _STEPS = 100, 20_000


class Remembered:
    """The last runs, up to a number of runs and of their steps; for several threads."""

    def __init__(self) -> None:
        self._runs: dict[str, Snapshot] = {}
        self._steps = 0

    def get(self, run_id: str) -> Snapshot | None:
        """A run, with no signals; None: it is not remembered."""
        return self._runs.get(run_id)

    def keep(self, s: Snapshot) -> None:
        """Remember a run as it is stored, with all its steps that are not folded; forget one that has ended."""
        self._forget(s.run.id)
        if s.run.status.is_end:
            return
        self._runs[s.run.id] = Snapshot(s.run, s.steps, extent=s.extent)
        self._steps += len(s.steps)
        while len(self._runs) > _RUNS or self._steps > _STEPS:
            with suppress(StopIteration, RuntimeError):  # another thread has been faster
                self._forget(next(iter(self._runs)))
                continue
            self._steps = 0  # none is left
            return

    def _forget(self, run_id: str) -> None:
        gone = self._runs.pop(run_id, None)
        if gone is not None:
            self._steps -= len(gone.steps)
