"""Where the machine's own servers are, and what happens when one is missing."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import cache
from typing import Literal
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from celery_saga.testing.servers.process import in_ci

ServerName = Literal["postgresql", "mariadb", "redis", "rabbitmq"]

PROBE_TIMEOUT_S = 2.0


def unique_name() -> str:
    """A name that no other test, process or machine uses; tells which process left it behind."""
    return f"saga_test_{os.getpid()}_{uuid4().hex[:12]}"


@dataclass(frozen=True)
class Server:
    """One server: its default address, and the environment variable that names another one."""

    variable: str
    default_url: str
    port: int

    @property
    def url(self) -> str:
        """The address in use now."""
        return os.environ.get(self.variable) or self.default_url


SERVERS: dict[str, Server] = {
    "postgresql": Server("CELERY_SAGA_TEST_POSTGRESQL_URL", "postgresql://postgres@127.0.0.1:5432/postgres", 5432),
    "mariadb": Server("CELERY_SAGA_TEST_MARIADB_URL", "mysql://root@127.0.0.1:3306/", 3306),
    "redis": Server("CELERY_SAGA_TEST_REDIS_URL", "redis://127.0.0.1:6379/0", 6379),
    "rabbitmq": Server("CELERY_SAGA_TEST_RABBITMQ_URL", "amqp://guest:guest@127.0.0.1:5672//", 5672),
}


def require(name: ServerName) -> str:
    """The URL of a shared server that accepts connections.

    Without it the test is skipped with a reason that pytest prints; with `CI` set it fails.
    """
    server = SERVERS[name]
    trouble = _trouble(server.url, server.port)
    if trouble is None:
        return server.url
    told = f"{name} does not answer at {server.url} ({trouble}); start it or set {server.variable}"
    if in_ci():
        pytest.fail(f"{told}. CI is set, so a missing server is a failure", pytrace=False)
    pytest.skip(told)


@cache
def _trouble(url: str, default_port: int) -> str | None:
    """Why nothing listens there, or None. Asked once per address and process."""
    parts = urlsplit(url)
    try:
        address = (parts.hostname or "127.0.0.1", parts.port or default_port)
        with socket.create_connection(address, timeout=PROBE_TIMEOUT_S):
            return None
    except OSError as error:
        return str(error)
