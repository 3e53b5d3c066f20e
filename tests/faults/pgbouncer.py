"""A PgBouncer in transaction mode in front of a private PostgreSQL."""

from __future__ import annotations

import os
import shutil

from celery_saga.testing.servers.process import missing
from tests.servers import PrivatePostgres, PrivateServer


class PrivatePgBouncer(PrivateServer):
    """Hands a server's connection out for one transaction each; skipped where it is not installed.

    Args:
        postgres: behind it.
        size: connections that it opens there.
    """

    program = "pgbouncer"
    ready_line = "process up"

    def __init__(self, postgres: PrivatePostgres, size: int = 5) -> None:
        super().__init__()
        self._postgres = postgres
        self._size = size

    @property
    def url(self) -> str:
        """Through psycopg2."""
        return f"postgresql+psycopg2://postgres@127.0.0.1:{self.port}/postgres"

    def run_as(self) -> str | None:
        """It refuses to run as root."""
        return "postgres" if os.geteuid() == 0 else None

    def command(self) -> list[str]:
        """In the foreground, with a file of settings."""
        program = shutil.which("pgbouncer") or missing("pgbouncer")
        file = self.directory / "pgbouncer.ini"
        file.write_text(
            f"""[databases]
* = host=127.0.0.1 port={self._postgres.port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {self._size}
max_client_conn = 500
"""
        )
        self.directory.chmod(0o755)
        return [program, str(file)]
