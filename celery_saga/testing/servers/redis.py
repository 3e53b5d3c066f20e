"""A private Redis that keeps nothing on disk, so that a kill loses everything."""

from __future__ import annotations

from celery_saga.testing.servers.process import PrivateServer


class PrivateRedis(PrivateServer):
    """`redis-server` without persistence on a port of its own."""

    program = "redis-server"
    ready_line = "Ready to accept connections"

    @property
    def url(self) -> str:
        """For `broker_url` and `result_backend`; database 0."""
        return f"redis://127.0.0.1:{self.port}/0"

    def command(self) -> list[str]:
        """Without snapshots, without append-only file."""
        return [
            "redis-server",
            *("--bind", "127.0.0.1"),
            *("--port", str(self.port)),
            *("--save", ""),
            *("--appendonly", "no"),
            *("--dir", str(self.directory)),
        ]
