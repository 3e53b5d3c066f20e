"""The example project, before and after, run as its users would: by console scripts, from the project's folder."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.workers import ROOT, Worker

HOME = ROOT / "examples" / "existing_project"
SCRIPTS = Path(sysconfig.get_path("scripts"))
TIMEOUT_S = 60.0


class ScriptWorker(Worker):
    """`celery -A shop worker ...`, literally, in a folder.

    Args:
        folder: where it is started.
        environment: all of it.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        super().__init__("shop", environment, options=("-Q", "orders,payments"))
        # `python -m celery` would put the folder on the path, and PYTHONPATH more than that: the script does neither.
        self._words = ["env", "-C", str(folder), "-u", "PYTHONPATH", str(SCRIPTS / "celery"), *self._words[3:]]


@dataclass(frozen=True)
class Project:
    """One of the two projects, on servers of one test.

    Args:
        name: before or after.
        books: the file in which warehouse and gateway write down what they were asked to do.
        broker_url: Redis or RabbitMQ.
        result_url: where Celery keeps results; empty: nowhere.
        database_url: of the sagas.
    """

    name: str
    books: Path
    broker_url: str
    result_url: str = ""
    database_url: str = ""

    @property
    def folder(self) -> Path:
        """Where its users are when they type."""
        return HOME / self.name

    @property
    def environment(self) -> dict[str, str]:
        """What the project's settings read; nothing says where its modules are."""
        found = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        found |= {
            "SHOP_BROKER_URL": self.broker_url,
            "SHOP_DATABASE_URL": self.database_url,
            "SHOP_BOOKS": str(self.books),
        }
        return {**found, "SHOP_RESULT_URL": self.result_url} if self.result_url else found

    def worker(self) -> Worker:
        """A worker for the project's two queues, not yet started."""
        return ScriptWorker(self.folder, self.environment)

    def command(self, script: str, *words: str) -> str:
        """What a console script of Python prints; it must end with 0."""
        return self._run(str(SCRIPTS / script), *words)

    def saga(self, *words: str) -> Any:
        """What `celery -A shop saga ... --json` answers."""
        return json.loads(self.command("celery", "-A", "shop", "saga", *words, "--json"))

    def type_in(self, folder: Path, lines: Sequence[str]) -> str:
        """What these lines print in a terminal that was opened in a folder; each must end with 0."""
        path = os.pathsep.join([str(SCRIPTS), self.environment["PATH"]])
        return self._run("bash", "-euc", "\n".join([f"PATH={shlex.quote(path)}", *lines]), folder=folder)

    def script(self, *lines: str) -> list[str]:
        """The lines that a program of the project prints."""
        return self._run(sys.executable, "-c", "\n".join(["import shop", *lines])).splitlines()

    def calls(self) -> list[str]:
        """What warehouse and gateway were asked to do, in order."""
        return self.books.read_text().splitlines() if self.books.exists() else []

    def _run(self, *words: str, folder: Path | None = None) -> str:
        done = subprocess.run(
            words,
            env=self.environment,
            cwd=folder or self.folder,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{words} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout
