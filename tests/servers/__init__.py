"""Every server that the tests use: the shared ones of the machine, and private ones to be killed."""

from __future__ import annotations

from celery_saga.testing.servers import (
    PrivateMariadb,
    PrivatePostgres,
    PrivateRabbit,
    PrivateRedis,
    PrivateServer,
)
from celery_saga.testing.servers.process import in_ci
from tests.servers.fresh import (
    RedisPlace,
    fresh_mariadb_database,
    fresh_postgresql_database,
    fresh_rabbitmq_vhost,
    fresh_redis_place,
    with_driver,
)
from tests.servers.shared import SERVERS, require

__all__ = [  # noqa: RUF022 - in the order of use
    # the machine's servers: skip at home, fail in CI, when one is missing
    "SERVERS",
    "require",
    "in_ci",
    # a place of one's own on them, removed afterwards
    "fresh_postgresql_database",
    "fresh_mariadb_database",
    "with_driver",
    "fresh_rabbitmq_vhost",
    "fresh_redis_place",
    "RedisPlace",
    # servers of one's own, which may be frozen, killed and started again
    "PrivateServer",
    "PrivateRedis",
    "PrivatePostgres",
    "PrivateMariadb",
    "PrivateRabbit",
]
