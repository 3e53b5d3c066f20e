"""A private MariaDB with a data directory of its own, to be killed at any moment."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path

from celery_saga.testing.servers.process import PrivateServer, missing

INSTALL_TIMEOUT_S = 120.0
DATABASE = "saga"


class PrivateMariadb(PrivateServer):
    """`mariadb-install-db` and `mariadbd`; user root, no password, an empty database `saga` in utf8mb4.

    Durable as by default: what was committed survives `kill()`.
    """

    program = "mariadbd"
    ready_line = "ready for connections"
    start_timeout_s = 60.0

    def __init__(self) -> None:
        super().__init__()
        self._data = self.directory / "data"

    @property
    def url(self) -> str:
        """SQLAlchemy's URL through PyMySQL."""
        return f"mysql+pymysql://root@127.0.0.1:{self.port}/{DATABASE}?charset=utf8mb4"

    def run_as(self) -> str | None:
        """MariaDB refuses to run as root."""
        return "mysql" if os.geteuid() == 0 else None

    def command(self) -> list[str]:
        """The server in the foreground; makes the data directory at the first start."""
        first = self.directory / "first.sql"
        if not self._data.exists():
            self._initialise()
            first.write_text(
                f"CREATE DATABASE IF NOT EXISTS {DATABASE} CHARACTER SET utf8mb4;\n"
                "CREATE OR REPLACE USER root@'127.0.0.1'; GRANT ALL ON *.* TO root@'127.0.0.1';\n"
            )
        return [
            _server(),
            "--no-defaults",
            f"--datadir={self._data}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            f"--socket={self.directory / 'socket'}",
            f"--pid-file={self.directory / 'pid'}",
            f"--init-file={first}",
            "--innodb-buffer-pool-size=64M",
        ]

    def _initialise(self) -> None:
        user = self.run_as()
        if user is not None:
            owner = pwd.getpwnam(user)
            os.chown(self.directory, owner.pw_uid, owner.pw_gid)
        program = shutil.which("mariadb-install-db") or missing("mariadb-install-db")
        done = subprocess.run(
            [program, "--no-defaults", f"--datadir={self._data}", "--auth-root-authentication-method=normal",
             "--skip-test-db"],
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
            cwd=self.directory,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"mariadb-install-db ended with {done.returncode}: {done.stdout}{done.stderr}")


def _server() -> str:
    """Debian keeps it out of the PATH of some users."""
    found = shutil.which("mariadbd") or "/usr/sbin/mariadbd"
    return found if Path(found).exists() else missing("mariadbd")
