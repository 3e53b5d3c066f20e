"""DBOS and Absurd, on the same PostgreSQL, with as many processes as our worker has in its pool."""

from __future__ import annotations

import os
import subprocess
import sys
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from importlib import metadata
from typing import Any

import psycopg2
from sqlalchemy import create_engine, make_url

from tests.bench.contestants.contestant import STEPS, Contestant
from tests.bench.contestants.ours import plain
from tests.servers import fresh_postgresql_database
from tests.workers import ROOT


class Peer(Contestant):
    """A database, and processes that work off a queue in it.

    They are there only during a turn: what polls all the time, as DBOS does, can hardly be stopped outside of its
    transactions. A backlog is started in one transaction, with whose commit the clock begins.
    """

    module: str
    needs: tuple[str, ...]
    """Distributions that it cannot do without."""
    count_left: str

    @classmethod
    def missing(cls) -> str:
        """Why it cannot be measured here; empty where it can."""
        for name in cls.needs:
            try:
                metadata.version(name)
            except metadata.PackageNotFoundError:
                return f"{name} is not installed: pip install '.[bench]'"
        return ""

    def open(self) -> None:
        """The database."""
        self.url = plain(self.stack.enter_context(fresh_postgresql_database()))
        self.connection = self.stack.enter_context(closing(psycopg2.connect(self.url)))
        self.connection.autocommit = True
        self.team: list[subprocess.Popen[str]] = []
        self.prepare()

    def rate(self, seconds: float) -> float:
        """With processes that are started before the turn and ended after it."""
        with ExitStack() as stack:
            self.team = [stack.enter_context(_Ended(self._process())) for _ in range(self.processes)]
            stack.callback(self.team.clear)
            return super().rate(seconds)

    @contextmanager
    def let_go(self) -> Iterator[None]:
        """The transaction of the starts is committed."""
        self.commit()
        yield

    @abstractmethod
    def prepare(self) -> None:
        """Make the schema, and a client."""

    @abstractmethod
    def commit(self) -> None:
        """End the transaction that `start` has begun."""

    def pids(self) -> list[int]:
        """One each, during a turn."""
        return [each.pid for each in self.team]

    def database(self) -> str:
        """Of its own."""
        return make_url(self.url).database or ""

    def left(self) -> int:
        """By the statuses of all."""
        with self.connection.cursor() as cursor:
            cursor.execute(self.count_left)
            return int(cursor.fetchone()[0])

    def _process(self) -> subprocess.Popen[str]:
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "BENCH_URL": self.url, "PYTHONPATH": path}
        words = [sys.executable, "-m", self.module]
        process = subprocess.Popen(words, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        line = process.stdout.readline()
        if "ready." not in line:
            process.kill()
            raise RuntimeError(f"{self.module} said {line!r} instead of being ready")
        return process


class _Ended:
    """A process that is not left behind."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def __enter__(self) -> subprocess.Popen[str]:
        return self.process

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Dbos(Peer):
    """Workflows of synchronous steps, from a queue."""

    name = "DBOS"
    guessed_rate = 200.0
    module = "tests.bench.peers.dbos_worker"
    needs = ("dbos",)
    count_left = "SELECT count(*) FROM dbos.workflow_status WHERE status <> 'SUCCESS'"

    def prepare(self) -> None:
        """DBOS makes its tables itself."""
        from dbos import DBOSClient, run_dbos_database_migrations

        run_dbos_database_migrations(self.url)
        self.client = DBOSClient(system_database_url=self.url)
        self.stack.callback(self.client.destroy)
        url = make_url(self.url).set(drivername="postgresql+psycopg")
        self.starts = self.stack.enter_context(create_engine(url).connect())

    def start(self, runs: int) -> None:
        """Rows of one transaction."""
        from tests.bench.peers.dbos_worker import QUEUE, VERSION, WORKFLOW

        options: Any = {"queue_name": QUEUE, "workflow_name": WORKFLOW, "app_version": VERSION}
        for _ in range(runs):
            self.client.enqueue_in_transaction(self.starts, options, STEPS)

    def commit(self) -> None:
        """All at once."""
        self.starts.commit()


class Absurd(Peer):
    """Tasks of synchronous steps."""

    name = "Absurd"
    guessed_rate = 700.0
    module = "tests.bench.peers.absurd_worker"
    needs = ("absurd-sdk", "absurdctl")
    count_left = "SELECT count(*) FROM absurd.t_work WHERE state <> 'completed'"

    def prepare(self) -> None:
        """The schema is in Absurd's command line tool."""
        import psycopg
        from absurd_sdk import Absurd as Client
        from absurdctl import BUNDLED_SCHEMA_SQL

        from tests.bench.peers.absurd_worker import QUEUE

        with self.connection.cursor() as cursor:
            cursor.execute(BUNDLED_SCHEMA_SQL)
        self.starts = self.stack.enter_context(closing(psycopg.connect(self.url)))
        self.client = Client(self.starts, queue_name=QUEUE)
        self.client.create_queue()
        self.starts.commit()

    def start(self, runs: int) -> None:
        """Rows of one transaction."""
        from tests.bench.peers.absurd_worker import QUEUE, TASK

        for _ in range(runs):
            self.client.spawn(TASK, {"steps": STEPS}, queue=QUEUE)

    def commit(self) -> None:
        """All at once."""
        self.starts.commit()
