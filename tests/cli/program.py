"""Calls the two programs, each time in a process of its own: a fresh one, or a fork that has the libraries loaded."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("celery-saga", "celery saga")
TIMEOUT_S = 90
# Libraries alone: the app and its settings are loaded in the fork.
_LOADED = [
    "celery.bin.celery",
    "celery_saga.cli.session",
    "celery_saga.cli.health",
    "psycopg2",
    "sqlalchemy.dialects.postgresql",
]
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["__main__", *_LOADED])


@dataclass(frozen=True)
class Done:
    """How a program ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Stdout as one JSON document."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """Stdout as JSON documents, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]


def words_of(program: str, app: str | None, words: tuple[str, ...]) -> list[str]:
    """The command line: the app is named before the sub-command in both programs."""
    given = [] if app is None else ["-A", app]
    folder = Path(sys.executable).parent
    if program == "celery-saga":
        return [str(folder / "celery-saga"), *given, *words]
    return [str(folder / "celery"), *given, "saga", *words]


@dataclass(frozen=True)
class Program:
    """One of the programs, on one app and one database."""

    name: str
    app: str | None = None
    database_url: str = "sqlite://"
    switches: Path | None = None

    def __call__(self, *words: str) -> Done:
        """In a fork: as the program itself, but a second sooner."""
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            told = words_of(self.name, self.app, words)
            process = _forks.Process(target=_run, args=(told, self.environment, str(out), str(err)))
            process.start()
            process.join(TIMEOUT_S)
            if process.exitcode is None:
                process.kill()
            assert process.exitcode is not None, f"{told} has not ended within {TIMEOUT_S} s"
            return Done(process.exitcode, out.read_text(), err.read_text())

    def fresh(self, *words: str) -> Done:
        """The installed program, from its first instruction on."""
        done = subprocess.run(
            words_of(self.name, self.app, words),
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    @property
    def environment(self) -> dict[str, str]:
        """Of its processes."""
        own = {"TEST_DATABASE_URL": self.database_url, "NO_COLOR": "1", "PYTHONWARNINGS": "error::UserWarning"}
        return {**os.environ, **own, "TEST_SWITCHES": str(self.switches or "")}

    def ok(self, *words: str) -> Done:
        """Call it; it has to end with 0 and say nothing on stderr."""
        done = self(*words)
        assert (done.code, done.err) == (0, ""), done
        return done

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start it and leave it running."""
        return subprocess.Popen(
            words_of(self.name, self.app, words),
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def _run(words: list[str], environment: dict[str, str], out: str, err: str) -> None:
    """What the console scripts do, with its own stdout and stderr."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(ROOT)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115, PTH123
    sys.argv = words
    from celery.__main__ import main as celery_main

    from celery_saga.cli.standalone import main as saga_main

    try:
        sys.exit(saga_main() if words[0].endswith("celery-saga") else celery_main())  # type: ignore[func-returns-value]
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
