"""A server process of a test's own: started, frozen, killed and started again on one port."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from abc import ABC, abstractmethod
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import IO, NoReturn, Self

import psutil
import pytest

# Below Linux's range of ephemeral ports (from 32768): a client that dials a dead server's port from
# inside that range can be connected to itself, and then keeps the server from coming back.
PORTS = range(20_000, 32_000)
STOP_TIMEOUT_S = 30.0
KEPT_LINES = 200


def in_ci() -> bool:
    """Whether the environment variable `CI` is set to anything but an empty word, `0` or `false`."""
    return os.environ.get("CI", "").lower() not in {"", "0", "false"}


def free_port() -> int:
    """A TCP port on 127.0.0.1 that nothing listens on."""
    for port in random.SystemRandom().sample(PORTS, 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError(f"no free port among 100 tried in {PORTS}")


class PrivateServer(ABC):
    """One server process, its directory and its port; a context manager that leaves nothing behind.

    `start()` returns once the server says that it is ready. `kill()` is SIGKILL to it and to all
    that it started. The port and the directory stay the same from the first start to the last.
    """

    program: str
    ready_line: str
    start_timeout_s = 30.0
    kept_lines: int | None = KEPT_LINES
    orderly_signal = signal.SIGTERM

    def __init__(self) -> None:
        self.port = free_port()
        self.directory = Path(tempfile.mkdtemp(prefix=f"saga-{self.program}-"))
        self.lines: deque[str] = deque(maxlen=self.kept_lines)
        self._process: subprocess.Popen[str] | None = None
        self._ready = threading.Event()
        self._reader: threading.Thread | None = None

    @property
    @abstractmethod
    def url(self) -> str:
        """Where clients find it."""

    @abstractmethod
    def command(self) -> list[str]:
        """The words that run it in the foreground."""

    def environment(self) -> dict[str, str]:
        """The environment it runs in."""
        return dict(os.environ)

    def run_as(self) -> str | None:
        """The user it runs as; None for the present one."""
        return None

    @property
    def pid(self) -> int:
        """The process id while it runs."""
        if self._process is None:
            raise RuntimeError(f"{self.program} is not running")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process exists, frozen or not."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start it, and return when it accepts connections. A missing program skips, or fails in CI."""
        if self._process is not None:
            raise RuntimeError(f"{self.program} was started already; stop or kill it first")
        self._process = self._spawn(self.command())
        assert self._process.stdout is not None
        self._ready.clear()
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()
        if not self._ready.wait(self.start_timeout_s) or not self.is_running:
            told = "\n".join(self.lines)
            self.kill()
            raise RuntimeError(f"{self.program} was not ready within {self.start_timeout_s} s:\n{told}")
        return self

    def stop(self) -> None:
        """End it in an orderly way, as its administrator would; SIGKILL if that takes 30 s."""
        self._end(self.orderly_signal)

    def kill(self) -> None:
        """SIGKILL to it and to everything it started; returns when all of them are gone."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """SIGSTOP to it and its children: connections stay open and nothing answers."""
        for process in self._family():
            process.suspend()

    def thaw(self) -> None:
        """Undo `freeze()`."""
        for process in self._family():
            process.resume()

    def send(self, which: signal.Signals) -> None:
        """Send a signal to the process alone, and return at once."""
        for process in self._family()[:1]:
            process.send_signal(which)

    def _spawn(self, words: list[str]) -> subprocess.Popen[str]:
        try:
            return subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                cwd=self.directory,
                env=self.environment(),
                user=self.run_as(),
                group=self.run_as(),
                extra_groups=None if self.run_as() is None else [],
                start_new_session=True,
            )
        except FileNotFoundError:
            missing(words[0])

    def _read(self, output: IO[str]) -> None:
        with output:
            for line in output:
                self.lines.append(line.rstrip())
                if self.ready_line in line:
                    self._ready.set()
        self._ready.set()  # it ended: start() need not wait for the time-out

    def _family(self) -> list[psutil.Process]:
        """The process and all below it, the process first."""
        if self._process is None:
            return []
        try:
            top = psutil.Process(self._process.pid)
            return [top, *top.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        family = self._family()
        # Only the top: killing a PostgreSQL back-end first would make the postmaster recover.
        for process in family[:1]:
            process.send_signal(how)
            if how is not signal.SIGKILL:
                process.resume()  # a frozen process would not see it
        if how is not signal.SIGKILL:
            psutil.wait_procs(family, timeout=STOP_TIMEOUT_S)
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait(timeout=STOP_TIMEOUT_S)
        psutil.wait_procs(family, timeout=STOP_TIMEOUT_S)
        self._process = None
        if self._reader is not None:
            self._reader.join(timeout=STOP_TIMEOUT_S)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.remove()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """Kill it, and delete its directory."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


def missing(program: str) -> NoReturn:
    """Skip for a program that is not installed, or fail in CI."""
    told = f"{program} is not installed"
    if in_ci():
        pytest.fail(f"{told}. CI is set, so a missing server is a failure", pytrace=False)
    pytest.skip(told)
