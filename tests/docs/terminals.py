"""Terminals in which a page is followed: shells that keep folder and variables, and programs that go on in them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

DONE = "--done--"
LONGEST_S = 240.0


class Terminal:
    """One bash, in a folder, with nothing in its environment but what is given."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._text = ""
        self._news = threading.Condition()
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env=dict(environment),
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.interrupt()
        assert self._shell.stdin is not None
        self._shell.stdin.close()
        self._shell.wait(20)
        self._reader.join(20)
        assert self._shell.stdout is not None
        self._shell.stdout.close()

    def run(self, command: str) -> tuple[str, int]:
        """What a command prints, and how it ends."""
        start = len(self._text)
        self._type(f"{{ {command}\n}} </dev/null; printf '\\n%s %s\\n' '{DONE}' $?")
        told = self._until(start, rf"^{DONE} (\d+)\n")
        return told[: told.rindex("\n" + DONE)], int(told.split()[-1])

    def leave_running(self, command: str, last_line: str) -> str:
        """What a command prints up to a line (a pattern); it goes on afterwards."""
        start = len(self._text)
        self._type(f"{command} </dev/null")
        return self._until(start, rf"^{last_line}\n")

    def interrupt(self) -> None:
        """Ctrl-C: what runs in the foreground is told, and has ended when this returns."""
        for child in psutil.Process(self._shell.pid).children():
            child.send_signal(signal.SIGINT)
            child.wait(20)

    def _type(self, line: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(line + "\n")
        self._shell.stdin.flush()

    def _read(self) -> None:
        assert self._shell.stdout is not None
        for line in self._shell.stdout:
            with self._news:
                self._text += line
                self._news.notify_all()

    def _until(self, start: int, pattern: str) -> str:
        until = time.monotonic() + LONGEST_S
        with self._news:
            while (found := re.search(pattern, self._text[start:], re.M)) is None:
                left = until - time.monotonic()
                assert left > 0 and self._shell.poll() is None, f"no {pattern!r} in:\n{self._text[start:]}"
                self._news.wait(min(left, 1.0))
            return self._text[start : start + found.end()]


def newcomers_environment(home: Path, python: Path) -> dict[str, str]:
    """What somebody has who has just opened a terminal: a home, and a `python3` on the path; pip's cache is kept."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "REQUESTS_"))}
    cache = os.environ.get("XDG_CACHE_HOME", str(Path("~/.cache").expanduser()))
    return {
        **kept,
        "HOME": str(home),
        "PATH": os.pathsep.join([str(python), "/usr/local/bin", "/usr/bin", "/bin"]),
        "PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR", f"{cache}/pip"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "LANG": "C.UTF-8",
        "USER": "newcomer",
        "COLUMNS": "160",
    }
