"""Where the demo plays: a folder, a worker process that can be stopped and killed, and other processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from celery_saga.client.waiting import pauses_s
from celery_saga.demo import app as shop
from celery_saga.store import migrate

__all__ = ["Stage", "TooLate", "wait_until"]

_STOP_TIMEOUT_S: Final = 15.0
_COMMAND_TIMEOUT_S: Final = 30.0
_WORKER_OPTIONS = ("--loglevel", "INFO", "--without-gossip", "--without-mingle", "--without-heartbeat")


class TooLate(Exception):
    """What was waited for did not come in time."""


def wait_until(happens: Callable[[], bool], what: str, timeout_s: float) -> None:
    """Ask again and again, soon at first and then less often, until it has happened.

    Raises:
        TooLate: after `timeout_s` seconds.
    """
    for pause_s in pauses_s(timeout_s):
        if happens():
            return
        time.sleep(pause_s)
    if not happens():
        raise TooLate(f"{what} did not come within {timeout_s:g} s")


class Stage:
    """The folder and the processes on it; a context manager, at whose end no process is left.

    Args:
        place: the folder; made, with the tables in it.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self._worker: subprocess.Popen[bytes] | None = None
        shop.use(place)
        migrate(shop.sagas.store)

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill_worker()
        shop.sagas.services.close()

    @property
    def log(self) -> Path:
        """What the workers say."""
        return self.place / "worker.log"

    def start_worker(self) -> int:
        """Start a worker, with a pool of two processes where the system can fork; its pid."""
        pool = "prefork" if hasattr(os, "fork") else "solo"
        words = [sys.executable, "-m", "celery", "-A", "celery_saga.demo.app", "worker", "-P", pool, "-c", "2"]
        with self.log.open("ab") as log:
            self._worker = subprocess.Popen(
                [*words, *_WORKER_OPTIONS],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                # A killed worker leaves its temporary files behind.
                env={**os.environ, "TMPDIR": str(self.place / "tmp")},
                # A session of its own, so that its pool can be killed with it.
                start_new_session=True,
            )
        return self._worker.pid

    def stop_worker(self) -> None:
        """Let the worker finish what it does, and end."""
        if self._worker is not None:
            self._worker.terminate()
            try:
                self._worker.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill_worker()
            self._worker = None

    def kill_worker(self) -> None:
        """Kill the worker and its pool at once, by SIGKILL: nothing of it can tidy up."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)
        else:
            worker.kill()
        worker.wait(_STOP_TIMEOUT_S)

    def is_worker_alive(self) -> bool:
        """Whether the worker has not ended by itself."""
        return self._worker is not None and self._worker.poll() is None

    def command(self, *words: str) -> Any:
        """Run `celery-saga -A celery_saga.demo.app ...` in a process of its own.

        Raises:
            subprocess.CalledProcessError: it did not end with 0.
        """
        program = [sys.executable, "-m", "celery_saga.cli", "-A", "celery_saga.demo.app"]
        return subprocess.run(
            [*program, *words], capture_output=True, text=True, timeout=_COMMAND_TIMEOUT_S, check=True
        ).stdout
