"""What the disk allows: single-row INSERTs, each a durable commit, by pgbench with as many clients."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path

import psycopg2

from tests.bench.contestants.contestant import Contestant
from tests.bench.contestants.ours import plain
from tests.servers import fresh_postgresql_database

_TABLE = "CREATE TABLE noted (id bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), text text NOT NULL)"
_INSERT = "INSERT INTO noted (text) VALUES ('a row');\n"


class Inserts(Contestant):
    """pgbench, which is there only while it is its turn."""

    name = "pgbench INSERTs"
    guessed_rate = 2000.0

    @classmethod
    def missing(cls) -> str:
        """Why it cannot be measured here; empty where it can."""
        return "" if shutil.which("pgbench") else "pgbench is not on the PATH"

    def open(self) -> None:
        """A table."""
        self.url = plain(self.stack.enter_context(fresh_postgresql_database()))
        self.script = Path(self.stack.enter_context(tempfile.TemporaryDirectory())) / "insert.sql"
        self.script.write_text(_INSERT)
        with closing(psycopg2.connect(self.url)) as connection, connection, connection.cursor() as cursor:
            cursor.execute(_TABLE)

    def pids(self) -> list[int]:
        """None between its turns."""
        return []

    def start(self, runs: int) -> None:
        """Nothing is started before."""

    def left(self) -> int:
        """Nothing."""
        return 0

    def rate(self, seconds: float) -> float:
        """INSERTs a second, over so many seconds, at least one."""
        clients = ["-c", str(self.processes), "-j", str(self.processes)]
        words = ["pgbench", "-n", *clients, "-T", str(max(1, round(seconds))), "-f", str(self.script), self.url]
        told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        found = re.search(r"tps = ([0-9.]+)", told)
        assert found, told
        return float(found[1])
