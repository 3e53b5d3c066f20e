"""Broker, database, ledger and workers of one test, and the claims that hold after every fault."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg2
import redis
from celery import Celery, _state

from celery_saga import CelerySaga, RunHandle
from celery_saga.client import binding
from celery_saga.core.records import StepRecord
from celery_saga.engine.ports import StepMessage
from celery_saga.runtime.messages import prepared, publish, step_envelope, task_id_of
from celery_saga.store import migrate, open_store
from tests.faults.asking import libpq, open_transactions, rows
from tests.faults.points import DIRECTORY, LEDGER, PLAN, Fault, hold_mark, plan_text
from tests.faults.seen import Effect, Step
from tests.servers import (
    fresh_mariadb_database,
    fresh_postgresql_database,
    fresh_rabbitmq_vhost,
    fresh_redis_place,
    with_driver,
)
from tests.workers import Worker, is_alarm, wait_until

APP, PLAIN_APP = "tests.faults.app", "tests.faults.plain_app"
MODULES = ("tests.faults.tasks", "tests.faults.sagas", "tests.faults.step_c")
LEASE_S, SWEEP_S = 3.0, 1.0
LOG_FORMAT = "[%(levelname)s %(name)s %(process)d] %(message)s"
ENDS = ("completed", "failed", "cancelled", "compensation_failed")

_FX = """CREATE TABLE fx (id bigserial PRIMARY KEY, run text, key text, token text, attempt int, pid int, told text,
                          ts timestamptz DEFAULT clock_timestamp())"""


class World:
    """What one test works with. Workers are its own, to be started as context managers.

    Args:
        settings: of the Celery app, with broker, saga_database_url, saga_lease and saga_sweep_interval.
        directory: of the test, for marks.
        ledger_url: libpq URL of a PostgreSQL database that no fault of the test touches; `fx` is made there.
    """

    def __init__(self, settings: Mapping[str, Any], directory: Path, ledger_url: str) -> None:
        self.settings = dict(settings)
        self.directory = directory
        self.ledger_url = ledger_url
        self.started: list[Worker] = []
        store = open_store(self.settings["saga_database_url"])
        migrate(store)
        store.close()
        self._ledger = psycopg2.connect(ledger_url)
        self._ledger.autocommit = True
        self.ledger(_FX)
        self.app = Celery("faults-client", set_as_current=False)
        self.app.conf.update(**self.settings)
        self._app_before = getattr(_state._tls, "current_app", None)
        self.app.set_current()
        self.saga = CelerySaga(self.app)
        self._resolver_before = binding.set_resolver(lambda _saga: self.saga)

    # -- processes ---------------------------------------------------------------------------------------------
    def environment(self, plan: Sequence[Fault] = (), modules: Sequence[str] = MODULES) -> dict[str, str]:
        """What `tests.faults.app` reads."""
        return {
            "FAULTS_SETTINGS": json.dumps(self.settings),
            "FAULTS_MODULES": ",".join(modules),
            PLAN: plan_text(plan),
            DIRECTORY: str(self.directory),
            LEDGER: self.ledger_url,
        }

    def worker(
        self,
        plan: Sequence[Fault] = (),
        *,
        app: str = APP,
        modules: Sequence[str] = MODULES,
        more: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Worker:
        """A worker of this world, not yet started: a context manager. `options` as of `Worker`."""
        made = Worker(app, {**self.environment(plan, modules), **(more or {})}, **options)
        self.started.append(made)
        return made

    def release(self, order: str, step: str) -> None:
        """End the `hold` of a step."""
        hold_mark(self.directory, order, step).touch()

    # -- looking -----------------------------------------------------------------------------------------------
    def sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Rows of a statement on the sagas' database, as psycopg2 takes it, whichever database it is."""
        return rows(self.settings["saga_database_url"], statement, values)

    def ledger(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Rows of a statement on the ledger's database."""
        with self._ledger.cursor() as cursor:
            cursor.execute(statement, values or None)
            return [] if cursor.description is None else cursor.fetchall()

    def effects(self, *runs: RunHandle[Any], key: str | None = None) -> list[Effect]:
        """Rows of the ledger, oldest first; of these runs and this key where given."""
        wanted = "run = ANY(%s)" if runs else "%s = '{}'"
        statement = f"SELECT id, run, key, token, attempt, pid, told, ts FROM fx WHERE {wanted} ORDER BY id"
        found = [Effect(*row) for row in self.ledger(statement, [run.id for run in runs])]
        return [each for each in found if key in {None, each.key}]

    def steps(self, *runs: RunHandle[Any]) -> list[Step]:
        """Step rows of these runs, of all where none is named, by run and then in the order of their orders."""
        store = self.saga.services.store
        wanted = sorted({run.id for run in runs} or {str(row[0]) for row in self.sql("SELECT id FROM saga_run")})
        return [Step.of(record) for run_id in wanted for record in store.steps(run_id)]

    def statuses(self, runs: Iterable[RunHandle[Any]]) -> Counter[str]:
        """How many of these runs have which status now."""
        ids = [run.id for run in runs]
        return Counter(dict(self.sql("SELECT status, count(*) FROM saga_run WHERE id = ANY(%s) GROUP BY status", ids)))

    def received(self, run: RunHandle[Any], key: str) -> int:
        """Messages of a step, under its own id, that the workers of this world have received so far."""
        mark = f"[{task_id_of(self.step(run, key))}] received"
        return sum(mark in line for worker in self.started for line in worker.text.splitlines())

    def step(self, run: RunHandle[Any], key: str) -> StepRecord:
        """A step as the store has it now."""
        return next(step for step in run.steps() if step.key == key)

    # -- the broker --------------------------------------------------------------------------------------------
    def depth(self, *queues: str) -> int:
        """Messages in these queues, default `celery`, and, over Redis, those that workers hold unacknowledged."""
        names = queues or ("celery",)
        if not self.settings["broker_url"].startswith("redis"):
            with self.app.connection_for_read() as connection:
                return sum(_depth(connection, name) for name in names)
        prefix = self.settings.get("broker_transport_options", {}).get("global_keyprefix", "")
        with closing(redis.Redis.from_url(self.settings["broker_url"])) as client:
            waiting = sum(int(client.llen(f"{prefix}{name}")) for name in names)  # type: ignore[arg-type]
            return waiting + int(client.hlen(f"{prefix}unacked"))  # type: ignore[arg-type]

    def messages(self, queue: str = "celery") -> list[dict[str, Any]]:
        """Headers of every message that waits in a queue; call it while nobody else looks at the queue.

        They are taken, and put back at the end.
        """
        found = []
        with self.app.connection_for_read() as connection, connection.channel() as channel:
            taken = []
            while (message := channel.basic_get(queue)) is not None:
                taken.append(message)
                found.append(dict(message.headers))
            for message in taken:
                channel.basic_reject(message.delivery_tag, requeue=True)
        return found

    def send_again(self, run: RunHandle[Any], key: str, *, task_id: str | None = None) -> None:
        """Send a step's message once more, as a broker that delivers twice does; under another id where given."""
        message = StepMessage(self.saga.engine.run_of(run.id), self.step(run, key))
        plain = step_envelope(self.app, message)
        envelope = replace(plain, task_id=task_id or plain.task_id)
        with self.app.producer_pool.acquire(block=True) as producer:
            publish(self.app.amqp, producer, envelope, *prepared(self.app, self.app.amqp, envelope))

    def purge(self, queue: str = "celery") -> int:
        """Lose every message that waits in a queue; how many."""
        with self.app.connection_for_write() as connection, connection.channel() as channel:
            return int(channel.queue_purge(queue) or 0)

    # -- waiting -----------------------------------------------------------------------------------------------
    def wait_ended(self, runs: Sequence[RunHandle[Any]], timeout_s: float) -> Counter[str]:
        """Return once all of these runs have ended; how many with which status. (I1)"""
        seen: list[Counter[str]] = []

        def ended() -> bool:
            seen.append(self.statuses(runs))
            return sum(seen[-1][status] for status in ENDS) == len(runs)

        try:
            wait_until(ended, timeout_s, "the end of all runs")
        except AssertionError as error:
            raise AssertionError(f"{error}: {dict(seen[-1])}; {self._late(runs)}") from None
        return seen[-1]

    def wait_sql(self, statement: str, value: object, *values: object, timeout_s: float = 20.0) -> None:
        """Return once the statement's first row is `(value,)`."""
        wait_until(lambda: self.sql(statement, *values)[:1] == [(value,)], timeout_s, f"{statement} = {value!r}")

    def wait_effect(self, run: RunHandle[Any], key: str, count: int = 1, timeout_s: float = 20.0) -> None:
        """Return once the ledger has `count` rows of a step."""
        wait_until(lambda: len(self.effects(run, key=key)) >= count, timeout_s, f"{count} effects of {key!r}")

    def _late(self, runs: Sequence[RunHandle[Any]]) -> str:
        late = self.sql(
            """SELECT r.key, r.status, r.reason, s.key, s.status, s.attempt
               FROM saga_run r LEFT JOIN saga_step s ON s.run_id = r.id WHERE r.id = ANY(%s) AND NOT r.status = ANY(%s)
               ORDER BY r.id""",
            [run.id for run in runs],
            list(ENDS),
        )
        return "; ".join(map(str, late[:30]))

    # -- the end -----------------------------------------------------------------------------------------------
    def close(self) -> None:
        """Leave no connection open."""
        binding.set_resolver(self._resolver_before)
        self.saga.services.close()
        self.app.close()
        pool = self.app.__dict__.get("_pool") or self.app._pool
        if pool is not None:
            pool.force_close_all()
        _state._set_current_app(self._app_before)
        self._ledger.close()


def _depth(connection: Any, queue: str) -> int:
    with connection.channel() as channel:
        try:
            return int(channel.queue_declare(queue, passive=True).message_count)
        except connection.channel_errors:
            return 0  # nobody has declared it yet


@contextmanager
def world_with(
    broker: str,
    directory: Path,
    *,
    broker_settings: Mapping[str, Any] | None = None,
    database: str = "postgresql",
    database_url: str | None = None,
    **settings: Any,
) -> Iterator[World]:
    """A world on servers of the machine.

    Args:
        broker: `redis` or `rabbitmq`; a place of its own on the shared server.
        directory: of the test.
        broker_settings: instead, as `{"broker_url": private_redis.url}` of a server that may be flushed or killed.
        database: of the sagas: `postgresql`, `psycopg`, `mariadb` or `sqlite`. The ledger is in PostgreSQL in any case.
        database_url: of the sagas, instead of a fresh database, as of a private server. The ledger stays apart.
        settings: more of the Celery app, as `task_acks_late=True` or `saga_max_stalls=2`.
    """
    common = {
        "broker_connection_retry_on_startup": True,
        "saga_lease": LEASE_S,
        "saga_sweep_interval": SWEEP_S,
        "worker_log_format": LOG_FORMAT,
        "worker_task_log_format": LOG_FORMAT,
    }
    with (
        fresh_postgresql_database() as fresh_url,
        _database(database, fresh_url, directory) as its_url,
        _broker(broker, broker_settings) as found,
    ):
        url = database_url or its_url
        world = World({**common, **found, "saga_database_url": url, **settings}, directory, libpq(fresh_url))
        try:
            yield world
        finally:
            world.close()


@contextmanager
def _database(database: str, fresh_url: str, directory: Path) -> Iterator[str]:
    if database == "mariadb":
        with fresh_mariadb_database() as url:
            yield url
    else:
        urls = {
            "postgresql": fresh_url,
            "psycopg": with_driver(fresh_url, "psycopg"),
            "sqlite": f"sqlite:///{directory}/saga.db",
        }
        yield urls[database]


@contextmanager
def _broker(broker: str, settings: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    if settings is not None:
        yield settings
    elif broker == "redis":
        with fresh_redis_place() as place:
            yield {"broker_url": place.url, "broker_transport_options": place.settings["broker_transport_options"]}
    else:
        assert broker == "rabbitmq", broker
        with fresh_rabbitmq_vhost() as url:
            yield {"broker_url": url}


# -- the claims that hold after every fault ----------------------------------------------------------------------
def check(world: World, runs: Sequence[RunHandle[Any]], *, drained: Callable[[], bool] | None = None) -> None:
    """I2 to I6, for runs that have ended; workers may go on. `drained`: instead of "no message is left"."""
    check_tokens(world, runs)
    check_nothing_after_its_checkpoint(world, runs)
    for run in runs:
        check_undos(world, run)
    wait_until(drained or (lambda: world.depth() == 0), what="an empty broker")
    check_quiet(world)
    check_logs(world.started)


def check_tokens(world: World, runs: Sequence[RunHandle[Any]]) -> None:
    """I2: however often a step was executed, the outside world has seen one token of it."""
    tokens: dict[tuple[str, str], set[str]] = {}
    for each in world.effects(*runs):
        tokens.setdefault((each.run, each.key), set()).add(each.token)
    assert {place: found for place, found in tokens.items() if len(found) != 1} == {}


def check_nothing_after_its_checkpoint(world: World, runs: Sequence[RunHandle[Any]]) -> None:
    """I3: no effect of a step later than its checkpoint; what has effects has a row."""
    steps = {(step.run, step.key): step for step in world.steps(*runs)}
    for each in world.effects(*runs):
        step = steps[each.run, each.key]
        assert step.ended_at is None or each.ts <= step.ended_at, f"{each} came after its checkpoint: {step}"


def check_undos(world: World, run: RunHandle[Any]) -> None:
    """I4: undone is what was done or may have been, last in first out, each before the next begins."""
    steps = {step.key: step for step in world.steps(run)}
    effects = world.effects(run)
    status = run.refresh().status.value
    forward = [step for step in steps.values() if step.kind != "undo"]
    owed = {x.key for x in forward if x.has_undo and (x.status == "done" or (x.maybe and x.status != "done"))}
    undone = [step.removesuffix("!undo") for step in dict.fromkeys(x.key for x in effects if x.key.endswith("!undo"))]
    if status == "completed":
        owed = {key for key in owed if steps[key].status != "done"}
    not_undone = owed - set(undone)
    excused = {key for key in not_undone if steps.get(f"{key}!undo") and steps[f"{key}!undo"].status != "done"}
    assert set(undone) <= owed, f"{run}: undone without need: {set(undone) - owed}"
    assert not_undone == excused, f"{run}: not undone: {not_undone}"
    seqs = [steps[key].seq for key in undone]
    assert seqs == sorted(seqs, key=lambda seq: -(seq or 0)), f"{run}: undone in the order {undone}"
    spans = [[x.id for x in effects if x.key == f"{key}!undo"] for key in undone]
    assert all(max(a) < min(b) for a, b in pairwise(spans)), f"{run}: undos overlap"


def check_quiet(world: World) -> None:
    """I5: no lease, no attempt, no transaction is left open."""
    assert world.sql("SELECT run_id, task FROM saga_step WHERE status = 'running' OR lease_until IS NOT NULL") == []
    assert world.sql("SELECT id, status FROM saga_run WHERE lease_until IS NOT NULL OR claim_token IS NOT NULL") == []
    # One that works at this moment may be between two statements: what stays open is what is wrong.
    wait_until(lambda: open_transactions(world.settings["saga_database_url"]) == 0, 5.0, "no open transaction")


def check_logs(workers: Iterable[Worker]) -> None:
    """I6: the plug-in logged no error but what is meant for people: a run that needs them, a server that is down."""
    needs_them = (" is parked (", ": compensation_failed: ")
    meant = (*needs_them, "BROKER_UNREACHABLE", "DATABASE_UNREACHABLE", "SCHEMA_NOT_ASKED")
    bad = [
        line
        for worker in workers
        for line in worker.text.splitlines()
        if is_alarm(line) and not any(word in line for word in meant)
    ]
    assert bad == []
