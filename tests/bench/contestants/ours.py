"""Sagas of celery_saga on a real worker: its steps by messages, or inline."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
from sqlalchemy import make_url

from celery_saga.core.status import RunStatus
from tests.bench.contestants.contestant import STEPS, Contestant, family
from tests.bench.multiplied import multiply
from tests.runtime.places import place_with

APP = "tests.bench.apps.sagas"
NOT_DONE = [status.value for status in RunStatus if status is not RunStatus.COMPLETED]
QUIET = ("--loglevel", "WARNING")
"""The worker's own default; `tests.bench.apps` say all the same when they are ready."""


def plain(url: str) -> str:
    """The URL as libpq takes it, without SQLAlchemy's driver."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


class Sagas(Contestant):
    """Runs in PostgreSQL, messages over Redis, one prefork worker."""

    saga = ""
    settings: Mapping[str, Any] = {}
    log_level = "WARNING"

    def open(self) -> None:
        """A worker in a place of its own."""
        self.take_place()
        worker = self.place.worker(concurrency=self.processes, options=("--loglevel", self.log_level))
        (self.worker,) = self.serve(worker)

    def take_place(self) -> None:
        """A database, and a place on the broker."""
        directory = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.place = self.stack.enter_context(place_with("redis", directory, module=APP, **self.settings))
        self.url = plain(self.place.settings["saga_database_url"])
        self.connection = self.stack.enter_context(closing(psycopg2.connect(self.url)))
        self.connection.autocommit = True

    @property
    def shop(self) -> Any:
        """The worker's module as its client, whose app is made the current one: several may be there."""
        self.place.shop.app.set_current()
        return self.place.shop

    def pids(self) -> list[int]:
        """The worker and its pool."""
        return family(self.worker.pid)

    def database(self) -> str:
        """Of its own."""
        return make_url(self.url).database or ""

    def start(self, runs: int) -> None:
        """Each by a commit and a message."""
        saga = getattr(self.shop, self.saga)
        for _ in range(runs):
            saga.start(STEPS)

    def left(self) -> int:
        """By their statuses, each of which the index has: what is asked again and again must not read old runs."""
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM saga_run WHERE status = ANY(%s)", (NOT_DONE,))
            return int(cursor.fetchone()[0])


class ByBroker(Sagas):
    """Each step is a message."""

    name = "celery_saga, broker"
    saga = "by_broker"
    guessed_rate = 200.0


class Inline(Sagas):
    """No message between steps."""

    name = "celery_saga, inline"
    saga = "inline"
    guessed_rate = 500.0


class InlineSideBySide(Inline):
    """Several runs at a time in each process, in threads: one computes while others wait for their commits."""

    at_a_time = 16
    settings: Mapping[str, Any] = {"saga_engine_options": {"pool_size": at_a_time}}

    def open(self) -> None:
        """As many workers as there are processes."""
        self.take_place()
        options = ("--loglevel", self.log_level)
        ours = [
            self.place.worker(pool="threads", concurrency=self.at_a_time, options=options)
            for _ in range(self.processes)
        ]
        self.several = self.serve(*ours)

    def pids(self) -> list[int]:
        """A worker with threads is one process."""
        return [each.pid for each in self.several]


class InlineAmongOldRuns(Inline):
    """The same in a database with many runs that ended long ago."""

    name = "celery_saga, inline, among old runs"
    old_runs = 0

    def open(self) -> None:
        """The old runs are copies of one that was executed."""
        super().open()
        run = self.shop.one.start()
        run.wait(30)
        multiply(self.connection, run.id, self.old_runs, "-30 seconds")
