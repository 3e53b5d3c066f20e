"""A private PostgreSQL with a data directory of its own, to be killed at any moment."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
from pathlib import Path

from celery_saga.testing.servers.process import PrivateServer, missing

INITDB_TIMEOUT_S = 120.0


class PrivatePostgres(PrivateServer):
    """`initdb` and `postgres`; user postgres, no password, database postgres.

    Args:
        ssl: accept TLS with a certificate that it signed itself.
        settings: server settings by name, such as `{"max_connections": "20"}`.

    Durable as by default: `fsync` is on, so that what was committed survives `kill()`.
    """

    program = "postgres"
    ready_line = "database system is ready to accept connections"
    start_timeout_s = 60.0
    orderly_signal = signal.SIGINT  # "fast shutdown": cuts the connections, then ends

    def __init__(self, *, ssl: bool = False, settings: dict[str, str] | None = None) -> None:
        super().__init__()
        self._ssl = ssl
        self._settings = dict(settings or {})
        self._data = self.directory / "data"

    @property
    def url(self) -> str:
        """SQLAlchemy's URL through psycopg2."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """The same for another database."""
        mode = "?sslmode=require" if self._ssl else ""
        return f"postgresql+psycopg2://postgres@127.0.0.1:{self.port}/{database}{mode}"

    def make_database(self, name: str) -> None:
        """An empty database."""
        self._run(
            _program("createdb"), "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-T", "template0", name
        )

    def run_as(self) -> str | None:
        """PostgreSQL refuses to run as root."""
        return "postgres" if os.geteuid() == 0 else None

    def command(self) -> list[str]:
        """The server in the foreground; makes the data directory at the first start."""
        if not self._data.exists():
            self._initialise()
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.directory),
            "lc_messages": "C",  # the line that says it is ready
            "ssl": "on" if self._ssl else "off",
            **self._settings,
        }
        words = [_program("postgres"), "-D", str(self._data), "-p", str(self.port)]
        for name, value in settings.items():
            words += ["-c", f"{name}={value}"]
        return words

    def _initialise(self) -> None:
        user = self.run_as()
        if user is not None:
            owner = pwd.getpwnam(user)
            os.chown(self.directory, owner.pw_uid, owner.pw_gid)
        self._run(
            _program("initdb"),
            *("-D", str(self._data), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"),
        )
        if self._ssl:
            self._run(
                *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
                *("-subj", "/CN=127.0.0.1"),
                *("-keyout", str(self._data / "server.key"), "-out", str(self._data / "server.crt")),
            )

    def _run(self, *words: str) -> None:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=INITDB_TIMEOUT_S,
            check=False,
            cwd=self.directory,
            user=self.run_as(),
            group=self.run_as(),
            extra_groups=None if self.run_as() is None else [],
            umask=0o077,
        )
        if done.returncode:
            raise RuntimeError(f"{words[0]} ended with {done.returncode}: {done.stdout}{done.stderr}")


def _program(name: str) -> str:
    """The newest installed one: Debian keeps the server's programs out of the PATH."""
    versions = []
    for place in Path("/usr/lib/postgresql").glob(f"*/bin/{name}"):
        with contextlib.suppress(ValueError):
            versions.append((float(place.parent.parent.name), str(place)))
    if versions:
        return max(versions)[1]
    return shutil.which(name) or missing(name)
