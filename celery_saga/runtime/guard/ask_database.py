"""Asks the saga database what only the server knows, through the URL's own driver."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from celery_saga.runtime.guard.ask_server import ask_mariadb, ask_postgresql
from celery_saga.runtime.guard.bounded import Unasked, ask
from celery_saga.runtime.guard.facts import DatabaseFacts, ServerFacts

__all__ = ["Connect", "ask_database"]

Connect = Callable[[], Any]
"""Opens a DB-API connection to the saga database; it is closed after the questions."""

_DIALECTS = {
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "mysql": "mysql",
    "mariadb": "mysql",
    "sqlite": "sqlite",
}
_DEFAULT_DRIVERS = {"postgresql": "psycopg2", "mysql": "pymysql", "sqlite": "pysqlite"}
_MODULES = {"pysqlite": "sqlite3", "mysqldb": "MySQLdb"}


def ask_database(
    url: str, *, connect: Connect | None, now: Callable[[], datetime], timeout_s: float, asks: bool = True
) -> DatabaseFacts:
    """What the URL says, and what the server answers within `timeout_s` seconds.

    Args:
        url: as `saga_database_url`; it may hold a password, which no finding shows.
        connect: used instead of the URL, for engines with options of their own.
        asks: False: the server is not asked.
    """
    scheme, _, rest = url.partition("://")
    name, _, driver = scheme.partition("+")
    dialect = _DIALECTS.get(name)
    if dialect is None or not (rest or url.endswith("://")):
        what = f"{name!r} is not one of {', '.join(sorted(_DIALECTS))}"
        return DatabaseFacts(dialect=name if rest else "", driver=driver, invalid=what)
    driver = driver or _DEFAULT_DRIVERS[dialect]
    if dialect == "sqlite":
        return DatabaseFacts(dialect=dialect, driver=driver, in_memory=_in_memory(rest))
    try:
        module: Any = importlib.import_module(_MODULES.get(driver, driver))
    except ImportError as error:
        return DatabaseFacts(dialect=dialect, driver=driver, missing_module=error.name or driver)
    if not asks:
        return DatabaseFacts(dialect=dialect, driver=driver)
    opener = connect or _opener(module, driver, url, timeout_s)
    if opener is None:
        reason = f"the driver {driver} cannot be used for questions"
        return DatabaseFacts(dialect=dialect, driver=driver, server=Unasked(reason))
    asked = ask_postgresql if dialect == "postgresql" else ask_mariadb

    is_open: list[bool] = []

    def question() -> ServerFacts:
        with closing(opener()) as connection, closing(connection.cursor()) as cursor:
            is_open.append(True)
            return asked(cursor, now)

    answer = ask(question, timeout_s=timeout_s)
    if isinstance(answer, Unasked) and not is_open:
        return DatabaseFacts(dialect=dialect, driver=driver, unreachable=answer.reason)
    server = answer if isinstance(answer, Unasked) else answer.value
    return DatabaseFacts(dialect=dialect, driver=driver, server=server)


def _in_memory(rest: str) -> bool:
    path, _, query = rest.partition("?")
    return path.strip("/") in ("", ":memory:") or ":memory:" in path or "mode=memory" in query


def _opener(module: Any, driver: str, url: str, timeout_s: float) -> Connect | None:
    whole_s = max(1, round(timeout_s))
    if driver in ("psycopg2", "psycopg"):
        # libpq reads the same URLs, but for the driver's name
        uri = "postgresql://" + url.partition("://")[2]
        return lambda: module.connect(uri, connect_timeout=whole_s)
    if driver in ("pymysql", "mysqldb"):
        return _mysql_opener(module, driver, url, whole_s)
    return None


def _mysql_opener(module: Any, driver: str, url: str, whole_s: int) -> Connect:
    parts = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    given: dict[str, Any] = {
        "host": parts.hostname or "localhost",
        "port": parts.port or 3306,
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "database": unquote(parts.path.lstrip("/")),
        "connect_timeout": whole_s,
        "read_timeout": whole_s,
        "write_timeout": whole_s,
    }
    given |= {name: query[name] for name in ("unix_socket", "charset") if name in query}
    if driver == "mysqldb":
        given["passwd"], given["db"] = given.pop("password"), given.pop("database")
    return lambda: module.connect(**given)
