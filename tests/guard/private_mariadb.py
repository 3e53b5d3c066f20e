"""A private MariaDB whose settings a test chooses."""

from __future__ import annotations

import subprocess

from celery_saga.testing.servers.process import PrivateServer, missing


class PrivateMariadb(PrivateServer):
    """`mariadbd` on a port of its own, with an empty data directory and no passwords."""

    program = "mariadbd"
    ready_line = "ready for connections"

    def __init__(self, *settings: str) -> None:
        super().__init__()
        self._settings = settings

    @property
    def url(self) -> str:
        """For `saga_database_url`."""
        return f"mysql+pymysql://root@127.0.0.1:{self.port}/"

    def command(self) -> list[str]:
        """With the settings of the test, after making the data directory."""
        data = self.directory / "db"
        if not data.exists():
            self._install(str(data))
        return [
            "mariadbd",
            "--no-defaults",
            *("--user=root", "--skip-grant-tables", "--bind-address=127.0.0.1"),
            f"--port={self.port}",
            f"--datadir={data}",
            f"--socket={self.directory}/db.sock",
            f"--pid-file={self.directory}/db.pid",
            *self._settings,
        ]

    def _install(self, data: str) -> None:
        words = ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}"]
        try:
            subprocess.run(
                [*words, "--skip-test-db", "--auth-root-authentication-method=normal"],
                check=True,
                capture_output=True,
            )
        except FileNotFoundError:
            missing(words[0])
