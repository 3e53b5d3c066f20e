"""A real Flower as a subprocess, asked over its HTTP API."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import IO, Any, Self
from uuid import uuid4

import psutil
from celery import Celery

from tests.workers import ROOT, wait_until

STOP_TIMEOUT_S = 15.0
ANSWER_TIMEOUT_S = 90.0  # it answers nobody while it takes in a flood of events


class Board:
    """One Flower; a context manager that starts it and leaves nothing running.

    Args:
        module: what `-A` gets.
        environment: what the module reads.
        app: the same app in this process, which finds out whether Flower listens.
        options: more words of the command line.
    """

    def __init__(self, module: str, environment: Mapping[str, str], app: Celery, *options: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._words = [
            *(sys.executable, "-W", "ignore", "-m", "celery", "-A", module, "flower"),
            *("--address=127.0.0.1", f"--port={self.port}", *options),
        ]
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        told = {"PYTHONPATH": path, "FLOWER_UNAUTHENTICATED_API": "true"}
        self._environment = {**os.environ, **told, **environment}
        self._app = app
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the board
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it serves."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start, and return once it shows what it is told."""
        self._process = subprocess.Popen(
            self._words, stdout=self._log, stderr=self._log, env=self._environment, cwd=ROOT, start_new_session=True
        )
        try:
            wait_until(self._is_listening, timeout_s=40.0, what="Flower's answer")
        except BaseException:
            print(self.text())
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End it."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_TIMEOUT_S)

    def text(self) -> str:
        """What it has printed."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def rss_bytes(self) -> int:
        """Memory that it holds."""
        assert self._process is not None
        return int(psutil.Process(self._process.pid).memory_info().rss)

    # -- its API -------------------------------------------------------------------------------------------------
    def task(self, task_id: str) -> dict[str, Any] | None:
        """What it knows of a task; None: nothing."""
        found: dict[str, Any] | None = self._get(f"/api/task/info/{task_id}")
        return found

    def state(self, task_id: str) -> str | None:
        """The state in which it shows a task."""
        found = self.task(task_id)
        return None if found is None else found["state"]

    def search(self, words: str, **more: object) -> dict[str, dict[str, Any]]:
        """The tasks that a search finds, by id."""
        asked = urllib.parse.urlencode({"search": words, **more})
        return self._get(f"/api/tasks?{asked}") or {}

    def workers(self) -> set[str]:
        """The names of all workers that it knows."""
        return set(self._get("/api/workers?status=1") or ())

    def wait_for_state(self, task_id: str, state: str, timeout_s: float = 20.0) -> dict[str, Any]:
        """The task as soon as it is shown in this state."""
        seen: list[Any] = []

        def is_there() -> bool:
            seen.append(self.task(task_id))
            return seen[-1] is not None and seen[-1]["state"] == state

        try:
            wait_until(is_there, timeout_s=timeout_s, what=state)
        except AssertionError as error:
            raise AssertionError(f"{error}; Flower shows {seen[-1]}") from None
        found: dict[str, Any] = seen[-1]
        return found

    def _get(self, path: str) -> Any:
        try:
            with urllib.request.urlopen(self.url + path, timeout=ANSWER_TIMEOUT_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def _is_listening(self) -> bool:
        """It shows an event that was sent just now."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"Flower has ended:\n{self.text()}")
        probe = str(uuid4())
        with contextlib.suppress(urllib.error.URLError, OSError):
            with self._app.events.default_dispatcher(hostname="probe") as dispatcher:
                dispatcher.send("task-sent", uuid=probe, name="probe")
            for _ in range(20):
                if self.task(probe) is not None:
                    return True
        return False

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop()
        if kind is not None:
            print(self.text()[-4000:])
        self._log.close()
