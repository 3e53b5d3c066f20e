"""Many client processes of one world that begin at the same moment, and can be killed one by one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import IO, Any, Self

import psutil

from tests.faults.world import MODULES, World
from tests.workers import ROOT, wait_until

WITH_PHASES = (*MODULES, "tests.faults.phases")


class Crowd:
    """`size` processes that do one command of `crowd_member`; a context manager that leaves none of them.

    Args:
        world: whose app they use.
        command: `start` or `signal`.
        arguments: of the command.
    """

    def __init__(self, world: World, size: int, command: str, *arguments: str) -> None:
        self._size = size
        self._environment = {**os.environ, **world.environment(modules=WITH_PHASES), "PYTHONPATH": str(ROOT)}
        self._words = [sys.executable, "-m", "tests.faults.crowd_member", command, str(size), *arguments]
        self._lines: list[dict[str, Any]] = []
        self._errors: list[str] = []
        self._process: subprocess.Popen[str] | None = None

    @property
    def told(self) -> Sequence[dict[str, Any]]:
        """What they have told so far, in order."""
        return [line for line in list(self._lines) if "ready" not in line]

    @property
    def errors(self) -> str:
        """What they have written to standard error."""
        return "".join(self._errors)

    def pids(self) -> list[int]:
        """Of the members that are alive."""
        assert self._process is not None
        return [child.pid for child in psutil.Process(self._process.pid).children()]

    def go(self) -> None:
        """Let all begin. They have connected to the database already."""
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.close()

    def kill(self, pids: Sequence[int]) -> None:
        """SIGKILL to these members."""
        assert set(pids) <= set(self.pids())
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def wait(self, timeout_s: float) -> None:
        """Return once every member has ended."""
        assert self._process is not None
        self._process.wait(timeout_s)
        for reader in self._readers:
            reader.join(timeout_s)

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
            cwd=ROOT,
        )
        out, err = self._process.stdout, self._process.stderr
        assert out is not None and err is not None
        self._readers = [
            threading.Thread(target=self._read, args=(out, lambda line: self._lines.append(json.loads(line)))),
            threading.Thread(target=self._read, args=(err, self._errors.append)),
        ]
        for reader in self._readers:
            reader.start()
        try:
            wait_until(lambda: any("ready" in line for line in list(self._lines)), 40, "a crowd that is ready")
        except AssertionError as error:
            self._end()
            raise AssertionError(f"{error}: {self.errors[-4000:]}") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            family = psutil.Process(self._process.pid).children(recursive=True)
            for process in (self._process, *family):
                process.kill()
        self._process.wait(20)
        if self._process.stdin is not None:
            self._process.stdin.close()
        for reader in self._readers:
            reader.join(20)

    @staticmethod
    def _read(stream: IO[str], keep: Any) -> None:
        with stream:
            for line in stream:
                keep(line)
