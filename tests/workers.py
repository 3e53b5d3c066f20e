"""Real Celery workers as subprocesses: started until they are ready, stopped or killed by their id."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import psutil

ROOT = Path(__file__).resolve().parent.parent
READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 20.0


class Worker:
    """One `celery worker` process; a context manager that starts it and leaves nothing running.

    Args:
        app: what `-A` gets, an importable module.
        environment: added to the present one, as the URLs that the module reads.
        pool: prefork, threads, solo or gevent.
        concurrency: slots.
        options: more words of the command line.
        python: the interpreter, for other versions of Celery.
        folder: where it is started, and looks for modules first.
    """

    def __init__(
        self,
        app: str,
        environment: Mapping[str, str],
        *,
        pool: str = "prefork",
        concurrency: int = 2,
        options: tuple[str, ...] = (),
        python: str = sys.executable,
        folder: Path = ROOT,
    ) -> None:
        self.name = f"w{os.getpid()}-{id(self):x}@localhost"
        self.lines: list[str] = []
        self._words = [
            *(python, "-m", "celery", "-A", app, "worker", "-n", self.name, "-P", pool, "-c", str(concurrency)),
            *("--loglevel", "INFO", "--without-gossip", "--without-mingle", "--without-heartbeat", *options),
        ]
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        self._environment = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **environment}
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        self._news = threading.Condition()

    @property
    def pid(self) -> int:
        """Of the main process."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the main process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def text(self) -> str:
        """All that it has printed."""
        with self._news:
            return "\n".join(self.lines)

    def start(self) -> Self:
        """Start, and return once it consumes."""
        self._process = subprocess.Popen(
            self._words,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._environment,
            cwd=self._folder,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()
        try:
            self.wait_for_line(" ready.", READY_TIMEOUT_S)
        except BaseException:
            self.kill()
            raise
        return self

    def wait_for_line(self, part: str, timeout_s: float = 20.0) -> str:
        """The first line, from the start on, that has `part`; returns as soon as it was printed."""
        end_s = time.monotonic() + timeout_s
        with self._news:
            while True:
                for line in self.lines:
                    if part in line:
                        return line
                left_s = end_s - time.monotonic()
                if left_s <= 0 or (
                    self._process is not None and self._process.poll() is not None and not self._news.wait(0.2)
                ):
                    raise AssertionError(f"the worker never printed {part!r}:\n" + "\n".join(self.lines[-80:]))
                self._news.wait(left_s)

    def children(self) -> list[int]:
        """Pids of the processes that it started."""
        return [child.pid for child in psutil.Process(self.pid).children(recursive=True)]

    def stop(self) -> int:
        """Warm shutdown; the exit code."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError("the worker did not stop:\n" + self.text[-4000:]) from None
        self._clean()
        return code

    def kill(self) -> None:
        """SIGKILL to the main process; its children die with it."""
        assert self._process is not None
        family = psutil.Process(self.pid).children(recursive=True) if self._process.poll() is None else []
        self._process.kill()
        self._process.wait(STOP_TIMEOUT_S)
        for child in family:
            try:
                child.kill()
            except psutil.NoSuchProcess:
                continue
        self._clean()

    def _clean(self) -> None:
        assert self._process is not None
        if self._process.stdout is not None and self._process.poll() is not None:
            with self._news:
                self._news.notify_all()

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                with self._news:
                    self.lines.append(line.rstrip("\n"))
                    self._news.notify_all()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        if exc is not None:
            print(self.text[-8000:])
            self.kill()
        else:
            self.stop()


def is_alarm(line: str) -> bool:
    """Of a worker's log: an error of the plug-in, or what one of its own tasks raised."""
    told = ("[ERROR celery_saga", "[CRITICAL celery_saga")
    return line.startswith(told) or ("Task celery_saga." in line and "raised unexpected" in line)


def wait_until(claim: Callable[[], bool], timeout_s: float = 20.0, what: str = "it") -> None:
    """Return as soon as `claim()` holds; asked every 20 ms, because another process makes it true."""
    pause = threading.Event()
    end_s = time.monotonic() + timeout_s
    while not claim():
        if time.monotonic() > end_s:
            raise AssertionError(f"{what} did not become true within {timeout_s:g} s")
        pause.wait(0.02)


@contextmanager
def workers(*several: Worker) -> Iterator[tuple[Worker, ...]]:
    """Several at once."""
    started: list[Worker] = []
    try:
        for each in several:
            started.append(each.__enter__())
        yield tuple(started)
    except BaseException as error:
        for each in started:
            each.__exit__(type(error), error, error.__traceback__)
        raise
    else:
        for each in started:
            each.__exit__(None, None, None)
