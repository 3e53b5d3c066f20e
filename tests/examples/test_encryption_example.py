"""The example of payloads at rest, with workers whose keys are rotated while runs are in flight."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
from cryptography.fernet import Fernet

from tests.faults.asking import libpq
from tests.servers import PrivateRedis
from tests.workers import ROOT, Worker, wait_until

HOME = ROOT / "examples" / "encryption"
OLD, NEW = Fernet.generate_key().decode(), Fernet.generate_key().decode()


class ClinicWorker(Worker):
    """`celery -A shop worker`, in the example's folder."""

    def __init__(self, clinic: Clinic, keys: str) -> None:
        super().__init__("shop", {})
        self._words = ["env", "-C", str(clinic.folder), *self._words]
        self._environment = clinic.environment(keys)


class Clinic:
    """The example on servers of a test."""

    def __init__(self, folder: Path, broker_url: str, database_url: str) -> None:
        self.folder, self.database_url = folder, database_url
        self._own = {"SHOP_BROKER_URL": broker_url, "SHOP_DATABASE_URL": database_url, "SHOP_FOLDER": "payloads"}

    def environment(self, keys: str) -> dict[str, str]:
        return {**os.environ, **self._own, "SHOP_KEYS": keys, "PYTHONPATH": f"{ROOT}:{self.folder}"}

    def client(self, keys: str, code: str) -> str:
        """A client's lines, in a process that has these keys."""
        done = subprocess.run(
            [sys.executable, "-c", f"from shop import READ, app, report\n{code}"],
            cwd=self.folder,
            env=self.environment(keys),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def sql(self, statement: str) -> list[tuple[object, ...]]:
        with closing(psycopg2.connect(libpq(self.database_url))) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()

    def waits(self, number: int) -> bool:
        return self.sql("SELECT count(*) FROM saga_step WHERE kind = 'signal' AND status = 'waiting'") == [(number,)]

    def statuses(self) -> dict[object, object]:
        return dict(self.sql("SELECT key, status FROM saga_run"))  # type: ignore[arg-type]


@pytest.fixture
def clinic(private_redis: PrivateRedis, postgresql_url: str, tmp_path: Path) -> Iterator[Clinic]:
    folder = tmp_path / "encryption"
    shutil.copytree(HOME, folder)
    yield Clinic(folder, private_redis.url, postgresql_url)


@pytest.mark.servers
def test_keys_are_rotated_under_the_runs_of_real_workers(clinic: Clinic) -> None:
    """A worker that lacks a key parks what it comes upon, and goes on with others; a resumed run ends well."""
    with_old = (
        "app.saga.migrate()\nfor name, pages in (('long', 30), ('left', 1)): report.start(name, 'Ada Lovelace', pages)"
    )
    clinic.client(OLD, with_old)
    with ClinicWorker(clinic, OLD):
        wait_until(lambda: clinic.waits(2), what="both wait for a doctor")

    texts = [str(value) for row in clinic.sql("SELECT r::text, s::text FROM saga_run r, saga_step s") for value in row]
    files = [path.read_text() for path in (clinic.folder / "payloads").iterdir()]
    assert not any("Lovelace" in text for text in (*texts, *files))
    assert len(files) == 1
    assert files[0].startswith("!s1:")

    with ClinicWorker(clinic, NEW):  # too early: what is there is sealed with the old key
        clinic.client(NEW, "report.start('new', 'Bob', 1)")
        wait_until(lambda: clinic.waits(3), what="another goes on")
        clinic.client(OLD, "report.find(key='left').signal(READ, 'Grace')")
        wait_until(lambda: clinic.statuses()["left"] == "suspended", what="what cannot be read is parked")

    with ClinicWorker(clinic, f"{NEW},{OLD}"):
        resumed = "report.find(key='left').resume()\nreport.find(key='long').signal(READ, 'Grace')"
        told = clinic.client(
            f"{NEW},{OLD}", f"{resumed}\nfor x in ('left', 'long'): print(report.find(key=x).wait(40))"
        )
    assert [line.rpartition(", ")[2] for line in told.splitlines()] == ["read by Grace"] * 2
