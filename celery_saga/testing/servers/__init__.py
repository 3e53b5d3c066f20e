"""Servers of a test's own, which may be frozen, killed and started again: Redis, RabbitMQ, PostgreSQL and MariaDB."""

from __future__ import annotations

from celery_saga.testing.servers.mariadb import PrivateMariadb
from celery_saga.testing.servers.postgres import PrivatePostgres
from celery_saga.testing.servers.process import PrivateServer
from celery_saga.testing.servers.rabbit import PrivateRabbit
from celery_saga.testing.servers.redis import PrivateRedis

__all__ = ["PrivateMariadb", "PrivatePostgres", "PrivateRabbit", "PrivateRedis", "PrivateServer"]
