"""One shop, its database and its broker, worked on by two releases."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal

import psycopg2

from celery_saga.store import migrate, open_store
from tests.faults.world import libpq
from tests.servers import fresh_postgresql_database, fresh_redis_place
from tests.upgrading.previous import Previous
from tests.workers import ROOT, Worker, wait_until

MODULE = "upgraded_shop"
LOG_FORMAT = "[%(levelname)s %(name)s %(process)d] %(message)s"
ENDS = ("completed", "failed", "cancelled", "compensation_failed", "suspended")
_FX = """CREATE TABLE fx (id bigserial PRIMARY KEY, run text, step text, token text, code text,
                          ts timestamptz DEFAULT clock_timestamp())"""


class Deploy:
    """The code of before is called `old`, that of now `new`."""

    def __init__(self, folder: Path, before: Previous, settings: dict[str, Any]) -> None:
        self._folder, self._settings = folder, settings
        self._packages = {"old": before.folder, "new": ROOT}
        self._url = libpq(settings["saga_database_url"])
        shutil.copy(Path(__file__).with_name("shop.py"), folder / f"{MODULE}.py")
        self.ask(_FX)

    def _environment(self, code: str) -> dict[str, str]:
        return {
            "PYTHONPATH": os.pathsep.join([str(self._folder), str(self._packages[code])]),
            "SHOP_CODE": code,
            "SHOP_FOLDER": str(self._folder),
            "SHOP_LEDGER": self._url,
            "SHOP_SETTINGS": json.dumps(self._settings),
        }

    def worker(self, code: str) -> Worker:
        """Of one release, not yet started: a context manager."""
        return Worker(MODULE, self._environment(code), pool="threads", concurrency=6, folder=self._folder)

    def do(self, code: str, *words: str) -> dict[str, str]:
        """See `shop.main`; ids of the runs that it has started, by their orders: `waiting0` for `waiting=1`."""
        done = subprocess.run(
            [sys.executable, f"{MODULE}.py", *words],
            env={**os.environ, **self._environment(code)},
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        started: dict[str, str] = json.loads(done.stdout)
        return started

    def migrate(self, phase: Literal["pre", "post"]) -> list[str]:
        """What the code of now does to the tables, in the way of `celery saga migrate --phase`; names of changes."""
        with closing(open_store(self._settings["saga_database_url"])) as store:
            return migrate(store, phase=phase)

    # -- holding steps back ------------------------------------------------------------------------------------
    def hold(self, *steps: str) -> None:
        """Let no attempt of a step, as `order.step`, have its effect before `release`."""
        for each in steps:
            (self._folder / f"hold.{each}").touch()

    def wait_held(self, *steps: str) -> None:
        """Return once all of them are held."""
        for each in steps:
            wait_until((self._folder / f"held.{each}").exists, 20, f"an attempt of {each}")

    def release(self, *steps: str) -> None:
        """Let them go on."""
        for each in steps:
            (self._folder / f"hold.{each}").unlink()

    # -- looking -----------------------------------------------------------------------------------------------
    def ask(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Rows of a statement, on a connection that lives as long as it."""
        with closing(psycopg2.connect(self._url)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            cursor.execute(statement, values or None)
            return [] if cursor.description is None else cursor.fetchall()

    def tables(self) -> list[tuple[Any, ...]]:
        """Every column and index of the sagas' tables."""
        return self.ask(
            "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns "
            "WHERE table_name LIKE 'saga_%%' UNION ALL "
            "SELECT tablename, indexname, indexdef, '' FROM pg_indexes WHERE tablename LIKE 'saga_%%' ORDER BY 1, 2"
        )

    def statuses(self, *runs: str) -> list[str]:
        """Of these runs, in this order."""
        found = dict(self.ask("SELECT id, status FROM saga_run"))
        return [found[run] for run in runs]

    def wait_for(self, status: str, *runs: str) -> None:
        """Return once all of them have it."""
        wait_until(lambda: set(self.statuses(*runs)) == {status}, 20, f"{status} of {runs}")

    def wait_ended(self, *runs: str) -> list[str]:
        """Their ends, or that they are parked."""
        wait_until(lambda: set(self.statuses(*runs)) <= set(ENDS), 40, f"the end of {runs}: {self.statuses(*runs)}")
        return self.statuses(*runs)

    def effects(self, run: str) -> list[tuple[str, str]]:
        """Step and code of each effect, oldest first."""
        return [(step, code) for step, code in self.ask("SELECT step, code FROM fx WHERE run = %s ORDER BY id", run)]

    def check_effects(self) -> None:
        """Each effect there once, under one token that no other has."""
        tokens = defaultdict(list)
        for run, step, token in self.ask("SELECT run, step, token FROM fx"):
            tokens[token].append((run, step))
        assert {token: places for token, places in tokens.items() if len(places) != 1} == {}
        ((count, places),) = self.ask("SELECT count(*), count(DISTINCT (run, step)) FROM fx")
        assert count == places


@contextmanager
def deploy(folder: Path, before: Previous) -> Iterator[Deploy]:
    """A shop on the machine's servers, without tables yet."""
    with fresh_postgresql_database() as url, fresh_redis_place() as place:
        settings = {
            "broker_url": place.url,
            "broker_transport_options": place.settings["broker_transport_options"],
            "broker_connection_retry_on_startup": True,
            "saga_database_url": url,
            "saga_lease": 6.0,
            "saga_sweep_interval": 0.5,
            "worker_log_format": LOG_FORMAT,
            "worker_task_log_format": LOG_FORMAT,
        }
        yield Deploy(folder, before, settings)
