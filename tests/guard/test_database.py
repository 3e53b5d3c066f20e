"""The saga database is asked, on real servers, what makes it unfit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, urlsplit

import psycopg2
import pytest
from celery import Celery

from celery_saga import CelerySaga
from celery_saga.runtime.guard import Level, gather
from celery_saga.runtime.guard.facts import ServerFacts
from tests.guard.private_mariadb import PrivateMariadb
from tests.guard.world import closed_port, findings, make_app, silent_server
from tests.servers import PrivatePostgres

UNREACHABLE = {"DATABASE_URL_INVALID", "DATABASE_DRIVER_MISSING", "DATABASE_UNREACHABLE", "DATABASE_NOT_ASKED"}
UNFIT = {
    "DATABASE_READ_ONLY",
    "DATABASE_NOT_DURABLE",
    "DATABASE_TOO_OLD",
    "DATABASE_CLOCK",
    "MARIADB_BINLOG_STATEMENT",
}


def with_settings(url: str, **settings: str) -> str:
    """The PostgreSQL URL with server settings for its sessions."""
    words = " ".join(f"-c {name}={value}" for name, value in settings.items())
    return f"{url}{'&' if '?' in url else '?'}options={quote(words)}"


def off_by(seconds: float) -> Callable[[], datetime]:
    """A host clock that far behind the real one."""
    return lambda: datetime.now(UTC) - timedelta(seconds=seconds)


def test_no_database_is_an_error_and_a_database_is_none(postgresql_url: str) -> None:
    assert findings(make_app())["DATABASE_URL_ABSENT"].level.value == "error"
    assert "DATABASE_URL_ABSENT" not in findings(make_app(saga_database_url=postgresql_url))


@pytest.mark.parametrize("url", ["nonsense", "oracle://scott:tiger@host/db", ""])
def test_a_url_that_names_no_known_database_is_an_error_that_shows_no_password(url: str) -> None:
    found = findings(make_app(), database_url=url)

    assert {"DATABASE_URL_INVALID", "DATABASE_URL_ABSENT"} & found.keys()
    assert not any("tiger" in one.sentence + one.remedy for one in found.values())


def test_a_driver_that_is_not_installed_is_named() -> None:
    found = findings(make_app(), database_url="mysql+oursql_not_there://root@127.0.0.1/db")

    assert "oursql_not_there" in found["DATABASE_DRIVER_MISSING"].sentence


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg", "mysql+pymysql", "mariadb"])
def test_a_refused_connection_is_told_as_that_and_not_as_a_time_out(scheme: str) -> None:
    with closed_port() as port:
        app = Celery("checked", broker=f"amqp://127.0.0.1:{port}//", set_as_current=False)
        sagas = CelerySaga(app, database_url=f"{scheme}://me@127.0.0.1:{port}/db")
        found = {finding.code: finding for finding in sagas.check()}

    down = ("BROKER_UNREACHABLE", "DATABASE_UNREACHABLE", "SCHEMA_NOT_ASKED")
    assert {found[code].level for code in down} == {Level.ERROR}
    assert ["refused" in found[code].sentence for code in down] == [True, True, True]
    assert not any("no answer" in finding.sentence for finding in found.values())


def test_a_server_that_answers_but_not_to_the_questions_is_a_warning(postgresql_url: str) -> None:
    class Mute(psycopg2.extensions.cursor):
        def execute(self, *_: object) -> None:
            raise psycopg2.errors.InsufficientPrivilege("not for you")

    def connect() -> psycopg2.extensions.connection:
        return psycopg2.connect(postgresql_url.replace("+psycopg2", ""), cursor_factory=Mute)

    found = findings(make_app(), database_url=postgresql_url, connect=connect)

    assert found["DATABASE_NOT_ASKED"].level is Level.WARNING
    assert "DATABASE_UNREACHABLE" not in found


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg", "mysql+pymysql"])
def test_a_database_that_is_down_is_a_finding_without_its_password(scheme: str) -> None:
    with closed_port() as port:
        found = findings(make_app(), database_url=f"{scheme}://me:hushhush@127.0.0.1:{port}/db")

    assert found["DATABASE_UNREACHABLE"].level is Level.ERROR
    assert "refused" in found["DATABASE_UNREACHABLE"].sentence
    assert "hushhush" not in found["DATABASE_UNREACHABLE"].sentence


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg", "mysql+pymysql"])
def test_a_database_that_never_answers_costs_no_more_than_its_time(scheme: str) -> None:
    with silent_server() as port:
        before_s = time.monotonic()
        found = findings(make_app(), database_url=f"{scheme}://me@127.0.0.1:{port}/db", timeout_s=1.0)
        took_s = time.monotonic() - before_s

    assert "no answer within 1 s" in found["DATABASE_UNREACHABLE"].sentence
    assert took_s < 5


def test_a_driver_that_cannot_be_used_for_questions_is_told() -> None:
    # a module that exists and is no driver
    assert "DATABASE_NOT_ASKED" in findings(make_app(), database_url="postgresql+json://me@127.0.0.1/db")


def test_fit_databases_are_asked_and_found_fit(postgresql_url: str, psycopg_url: str, mariadb_url: str) -> None:
    for url in (postgresql_url, psycopg_url, mariadb_url):
        app = make_app()
        facts = gather(app, database_url=url)

        assert facts.database is not None
        assert isinstance(facts.database.server, ServerFacts)
        assert not (UNFIT | UNREACHABLE) & findings(app, database_url=url).keys()


def test_the_connection_that_the_caller_opens_is_asked_and_closed(postgresql_url: str) -> None:
    opened: list[psycopg2.extensions.connection] = []

    def connect() -> psycopg2.extensions.connection:
        opened.append(psycopg2.connect(postgresql_url.replace("+psycopg2", "")))
        return opened[-1]

    facts = gather(make_app(), database_url="postgresql://nobody@nowhere.invalid/db", connect=connect)

    assert facts.database is not None
    assert isinstance(facts.database.server, ServerFacts)
    assert [bool(one.closed) for one in opened] == [True]


def test_a_read_only_postgresql_is_an_error(postgresql_url: str) -> None:
    read_only = with_settings(postgresql_url, default_transaction_read_only="on")

    assert "DATABASE_READ_ONLY" in findings(make_app(), database_url=read_only)


def test_a_postgresql_that_commits_asynchronously_is_told(postgresql_url: str) -> None:
    weak = with_settings(postgresql_url, synchronous_commit="off")

    found = findings(make_app(), database_url=weak)

    assert "synchronous_commit=off" in found["DATABASE_NOT_DURABLE"].sentence


def test_an_unfit_mariadb_is_told_what_is_wrong_with_it() -> None:
    settings = ("--log-bin", "--binlog-format=STATEMENT", "--innodb-flush-log-at-trx-commit=2")
    with PrivateMariadb(*settings, "--read-only=1") as server:
        found = findings(make_app(), database_url=server.url)

    assert {"DATABASE_READ_ONLY", "DATABASE_NOT_DURABLE", "MARIADB_BINLOG_STATEMENT"} <= found.keys()


def test_a_mariadb_with_a_row_binlog_is_fit() -> None:
    with PrivateMariadb("--log-bin", "--binlog-format=ROW") as server:
        assert not (UNFIT | UNREACHABLE) & findings(make_app(), database_url=server.url).keys()


@pytest.mark.parametrize(("behind_s", "told"), [(10, True), (-10, True), (3, False), (0, False)])
def test_clocks_more_than_5_seconds_apart_are_told(
    postgresql_url: str, mariadb_url: str, behind_s: float, told: bool
) -> None:
    for url in (postgresql_url, mariadb_url):
        found = findings(make_app(), database_url=url, now=off_by(behind_s))
        assert ("DATABASE_CLOCK" in found) is told


@contextmanager
def limited_role(url: str, connections: int) -> Iterator[str]:
    """The URL for a user that may open only so many connections."""
    plain = url.replace("+psycopg2", "")
    role = f"guard_{urlsplit(url).path.strip('/')}"[:60]
    admin = psycopg2.connect(plain)
    admin.autocommit = True
    try:
        with admin.cursor() as cursor:
            cursor.execute(f'CREATE ROLE "{role}" LOGIN CONNECTION LIMIT {connections}')
        parts = urlsplit(url)
        yield parts._replace(netloc=f"{role}@{parts.hostname}:{parts.port}").geturl()
    finally:
        with admin.cursor() as cursor:
            cursor.execute(f'DROP ROLE IF EXISTS "{role}"')
        admin.close()


def test_more_connections_than_postgresql_allows_are_an_error(postgresql_url: str) -> None:
    with limited_role(postgresql_url, connections=8) as url:
        over = findings(make_app(), database_url=url, pool="prefork", concurrency=4, nodes=2)
        within = findings(make_app(), database_url=url, pool="prefork", concurrency=3, nodes=2)

    assert "10 connections" in over["DATABASE_CONNECTIONS_EXCEEDED"].sentence
    assert "allows 8" in over["DATABASE_CONNECTIONS_EXCEEDED"].sentence
    assert "DATABASE_CONNECTIONS_EXCEEDED" not in within


def test_more_connections_than_mariadb_allows_are_an_error() -> None:
    with PrivateMariadb("--max-connections=10") as server:
        over = findings(make_app(), database_url=server.url, pool="prefork", concurrency=10)
        within = findings(make_app(), database_url=server.url, pool="prefork", concurrency=9)

    assert "DATABASE_CONNECTIONS_EXCEEDED" in over
    assert "DATABASE_CONNECTIONS_EXCEEDED" not in within


def test_connections_that_others_hold_make_them_scarce(private_postgres: PrivatePostgres) -> None:
    url = private_postgres.url
    facts = gather(make_app(), database_url=url)
    assert facts.database is not None
    assert isinstance(facts.database.server, ServerFacts)
    most = facts.database.server.max_connections
    assert most is not None
    asked = {"database_url": url, "pool": "prefork", "concurrency": most - 3}

    before = findings(make_app(), **asked)
    plain = url.replace("+psycopg2", "")
    held = [psycopg2.connect(plain) for _ in range(6)]
    during = findings(make_app(), **asked)
    for one in held:
        one.close()

    assert not {"DATABASE_CONNECTIONS_SCARCE", "DATABASE_CONNECTIONS_EXCEEDED"} & before.keys()
    assert "DATABASE_CONNECTIONS_SCARCE" in during


def test_threads_are_bounded_by_the_engines_pool(postgresql_url: str) -> None:
    with limited_role(postgresql_url, connections=8) as url:
        asked = {"database_url": url, "pool": "threads", "concurrency": 50}
        unbounded = findings(make_app(), **asked)
        bounded = findings(make_app(), **asked, engine_options={"pool_size": 5, "max_overflow": 2})

    assert "DATABASE_CONNECTIONS_EXCEEDED" in unbounded
    assert "DATABASE_CONNECTIONS_EXCEEDED" not in bounded


def test_an_old_server_without_skip_locked_is_an_error(mariadb_url: str) -> None:
    from dataclasses import replace

    from celery_saga.runtime.guard import inspect

    app = make_app()
    facts = gather(app, database_url=mariadb_url)
    assert facts.database is not None
    assert isinstance(facts.database.server, ServerFacts)
    for version, told in (((10, 5), True), ((10, 6), False)):
        server = replace(facts.database.server, version=version)
        old = replace(facts, database=replace(facts.database, server=server))
        assert ("DATABASE_TOO_OLD" in {one.code for one in inspect(app, old)}) is told


@pytest.mark.parametrize(
    ("state", "code"),
    [("absent", "SCHEMA_ABSENT"), ("outdated", "SCHEMA_OUTDATED"), ("newer", "SCHEMA_NEWER")],
)
def test_tables_that_do_not_fit_are_told(state: str, code: str) -> None:
    assert code in findings(make_app(), schema_state=lambda: state)


def test_tables_that_fit_or_were_not_looked_at_are_not_told() -> None:
    for options in ({"schema_state": lambda: "current"}, {}):
        assert not any(code.startswith("SCHEMA") for code in findings(make_app(), **options))


def test_a_schema_that_cannot_be_asked_is_a_finding() -> None:
    def down() -> str:
        raise ConnectionRefusedError("nobody there")

    found = findings(make_app(), schema_state=down)

    assert "nobody there" in found["SCHEMA_NOT_ASKED"].sentence
