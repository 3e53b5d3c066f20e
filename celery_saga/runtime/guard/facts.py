"""What the checks look at: everything that was seen or asked, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from celery_saga.runtime.guard.bounded import Unasked
from celery_saga.store.legible import Legible

__all__ = [
    "Asks",
    "BrokerFacts",
    "ConfiguredFacts",
    "DatabaseFacts",
    "Facts",
    "PoolFacts",
    "QueueFacts",
    "RedisFacts",
    "ResultFacts",
    "Role",
    "RouteFacts",
    "SchemaState",
    "ServerFacts",
    "TaskFacts",
]


class Role(StrEnum):
    """Which process asks."""

    WORKER = "worker"
    CLIENT = "client"


class Asks(StrEnum):
    """Who is asked besides the app: nobody, the broker, or the broker and the database."""

    NOBODY = "nobody"
    BROKER = "broker"
    ALL = "all"


class SchemaState(StrEnum):
    """The saga tables of the database, compared with what this version needs."""

    ABSENT = "absent"
    OUTDATED = "outdated"
    CURRENT = "current"
    NEWER = "newer"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """A registered task of the user, as Celery would run it."""

    name: str
    time_limit_s: float | None
    soft_time_limit_s: float | None
    acks_late: bool
    reject_on_worker_lost: bool
    ignores_result: bool
    overrides_apply_async: bool
    longest_retry_delay_s: float
    """The longest countdown of its declared retries; 0 when it declares none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteFacts:
    """Where the router sends a task; `queue` is None when it names none, or was refused."""

    task: str
    queue: str | None
    refused: str | None
    """What the router raised."""
    unknown_queue: bool
    """It named a queue that `task_queues` does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """A queue on RabbitMQ."""

    name: str
    exists: bool
    consumers: int
    quorum: bool
    conflict: str | None = None
    """What the server said to the declaration that this app would send."""
    unasked: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisFacts:
    """What a Redis server says of itself."""

    maxmemory_bytes: int
    maxmemory_policy: str
    persistent: bool | None
    """Snapshots or an append-only file; None when the server does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """The broker, by configuration and by asking it."""

    driver: str
    """kombu's driver type: redis, amqp, memory, ...; the URL's scheme if it is not loaded."""
    import_error: str | None = None
    missing_module: str | None = None
    counts_messages: bool = True
    visibility_timeout_s: float | None = None
    visibility_timeout_given: bool = False
    confirm_publish: bool = False
    unreachable: str | None = None
    redis: RedisFacts | Unasked | None = None
    queues: tuple[QueueFacts, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What a database server says of itself."""

    product: str
    version: tuple[int, ...]
    max_connections: int | None
    """For this user and database, without the reserved ones; None: no limit."""
    connections_in_use: int
    clock_ahead_s: float
    """The server's clock minus this host's, in seconds."""
    read_only: bool
    not_durable: tuple[str, ...]
    """Settings, as NAME=VALUE, with which a commit can be lost in a crash."""
    statement_binlog: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseFacts:
    """The saga database, by its URL and by asking it."""

    dialect: str
    driver: str
    in_memory: bool = False
    invalid: str | None = None
    missing_module: str | None = None
    unreachable: str | None = None
    """Why no connection could be opened."""
    server: ServerFacts | Unasked | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFacts:
    """How this worker (or one started like this) runs tasks."""

    kind: str
    """prefork, solo, threads, gevent, eventlet, or the name of a pool of the user's own."""
    concurrency: int
    start_method: str
    max_tasks_per_child: int | None
    patched: bool | None
    """gevent's or eventlet's patching of sockets and threads; None for other pools."""
    psycopg2_waits_cooperatively: bool
    open_engine_pools: int
    """SQLAlchemy pools in this process that hold open connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredFacts:
    """What the caller of `gather` said, as it was said."""

    nodes: int = 1
    connections_per_process: int = 1
    engine_options: Mapping[str, object] = field(default_factory=dict)
    remote_steps: frozenset[str] = frozenset()
    step_timeouts_s: Mapping[str, float] = field(default_factory=dict)
    schema: SchemaState | Unasked | None = None
    legible: Legible | Unasked | None = None
    """What of the latest live runs can be read here; None: nobody asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFacts:
    """The app's result backend."""

    disabled: bool = False
    to_caller_only: bool = False
    """rpc: a result can be read only by the process that sent the task."""
    unusable: str | None = None
    """What making the backend raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that the checks look at besides `app.conf`."""

    role: Role
    celery_version: str
    broker: BrokerFacts
    database: DatabaseFacts | None
    """None: no saga database is configured."""
    pool: PoolFacts
    tasks: tuple[TaskFacts, ...]
    routes: tuple[RouteFacts, ...]
    """Those of celery_saga's own tasks first, then one for each of the user's."""
    listens_to: frozenset[str] | None
    """Queues that this worker consumes; None for a client."""
    configured: ConfiguredFacts
    results: ResultFacts
