"""Celery's own chains, which nothing makes durable, with their results in Redis or in PostgreSQL."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import psycopg2
import redis
from celery import chain
from sqlalchemy import make_url

from tests.bench.apps.chains import chains_app
from tests.bench.contestants.contestant import STEPS, Contestant, family
from tests.bench.contestants.ours import QUIET, plain
from tests.servers import fresh_postgresql_database, fresh_redis_place
from tests.workers import Worker


class Chains(Contestant):
    """One prefork worker, as for the sagas."""

    def settings(self) -> dict[str, Any]:
        """Of the app."""
        self.redis = self.stack.enter_context(fresh_redis_place())
        return self.redis.settings

    def open(self) -> None:
        """A place on the broker, and a worker."""
        settings = self.settings()
        self.app = chains_app(settings)
        self.stack.callback(self.app.close)
        environment = {"BENCH_SETTINGS": json.dumps(settings)}
        worker = Worker("tests.bench.apps.chains", environment, concurrency=self.processes, options=QUIET)
        (self.worker,) = self.serve(worker)

    def pids(self) -> list[int]:
        """The worker and its pool."""
        return family(self.worker.pid)

    def start(self, runs: int) -> None:
        """Each by one message."""
        nothing = self.app.tasks["bench.chains.nothing"]
        tasks = [nothing.si() for _ in range(STEPS)]
        self.last = [chain(*tasks, app=self.app).apply_async().id for _ in range(runs)]


class RedisResults(Chains):
    """What is lost with Redis is lost."""

    name = "Celery chain, results in Redis"
    guessed_rate = 300.0

    def open(self) -> None:
        """With a connection to look for the results."""
        super().open()
        self.client = self.stack.enter_context(closing(redis.Redis.from_url(self.redis.url)))

    def left(self) -> int:
        """By the results of the last tasks."""
        keys = [f"{self.redis.prefix}celery-task-meta-{task_id}" for task_id in self.last]
        return len(keys) - int(self.client.exists(*keys))


class SqlResults(Chains):
    """Celery's database backend on PostgreSQL."""

    name = "Celery chain, results in PostgreSQL"
    guessed_rate = 50.0

    def settings(self) -> dict[str, Any]:
        """Messages over Redis, results in a database."""
        settings = super().settings()
        url = self.stack.enter_context(fresh_postgresql_database("psycopg2"))
        self.url = url
        self.connection = self.stack.enter_context(closing(psycopg2.connect(plain(url))))
        self.connection.autocommit = True
        return {**settings, "result_backend": f"db+{url}", "result_backend_transport_options": {}}

    def database(self) -> str:
        """Of its own."""
        return make_url(self.url).database or ""

    def left(self) -> int:
        """By the results of the last tasks."""
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT to_regclass('celery_taskmeta') IS NULL")
            if cursor.fetchone()[0]:  # the backend makes it with the first result
                return len(self.last)
            cursor.execute("SELECT count(*) FROM celery_taskmeta WHERE task_id = ANY(%s)", (self.last,))
            return len(self.last) - int(cursor.fetchone()[0])
