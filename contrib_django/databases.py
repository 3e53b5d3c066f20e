"""A database of Django's `DATABASES` as the saga database: the same server, driver and options, on own connections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from django.db import connections
from django.utils.connection import ConnectionDoesNotExist

from celery_saga.errors import DefinitionError

__all__ = ["Database", "database_of", "said_now"]

_CHANGE: Final = "Point CELERY_SAGA_DATABASE at another one, or set CELERY_SAGA_DATABASE_URL."

_DJANGOS: Final[Mapping[str, frozenset[str]]] = {
    "postgresql": frozenset(
        # its pool, its rows, its cursors, its isolation level: our connections have their own
        ("pool", "isolation_level", "server_side_binding", "cursor_factory", "context", "prepare_threshold")
    ),
    "mysql": frozenset(("isolation_level", "conv", "autocommit", "use_unicode")),
    "sqlite": frozenset(("init_command", "transaction_mode", "isolation_level", "check_same_thread", "uri")),
}
"""Options of a connection of Django's that say how Django works on it: celery_saga says so for its own."""
_CARRIED: Final[Mapping[str, frozenset[str]]] = {"sqlite": frozenset(("timeout", "cached_statements"))}
"""Where not all other options go along: those that do."""


@dataclass(frozen=True, slots=True)
class Database:
    """Where runs are kept.

    Args:
        url: as `saga_database_url`.
        connect_args: what the driver gets beside it.
    """

    url: str = field(repr=False)
    connect_args: Mapping[str, Any] = field(repr=False)


def said_now(alias: str) -> tuple[str, ...]:
    """What tells one database from another, as `DATABASES` says it at this moment: a test runner changes it."""
    said = _said(alias)
    return tuple(str(said.get(name) or "") for name in ("ENGINE", "NAME", "HOST", "PORT", "USER"))


def database_of(alias: str) -> Database:
    """The saga database for an alias of `DATABASES`, as it is now.

    Raises:
        DefinitionError: there is no such alias, its database is of a kind that is not supported, or it has an option
            that cannot be carried over, which is named; nothing was opened.
    """
    said, vendor = _said(alias), _vendor(alias)
    make = {"postgresql": _postgresql, "mysql": _mysql, "sqlite": _sqlite}.get(vendor)
    if make is None:
        raise DefinitionError(
            f"the database {alias!r} of DATABASES is {vendor!r} ({said.get('ENGINE')}), which celery_saga does not "
            f"know; nothing was opened. {_CHANGE}"
        )
    options = {name: value for name, value in _options(said).items() if name not in _DJANGOS[vendor]}
    carried = _CARRIED.get(vendor, options)
    for name in options:
        if name not in carried:
            raise _refused(alias, name, "celery_saga cannot carry it over to its own connections")
    return make(alias, said, options)


def _said(alias: str) -> Mapping[str, Any]:
    there: Mapping[str, Mapping[str, Any]] = connections.settings
    try:
        return there[alias]
    except KeyError:
        raise DefinitionError(
            f"CELERY_SAGA_DATABASE names the database {alias!r}, and DATABASES has {', '.join(sorted(there))}; nothing "
            "was opened. Name one of them."
        ) from None


def _vendor(alias: str) -> str:
    try:
        return str(connections[alias].vendor)
    except ConnectionDoesNotExist:  # pragma: no cover - _said has found it
        raise DefinitionError(f"there is no database {alias!r}") from None


def _options(said: Mapping[str, Any]) -> dict[str, Any]:
    return dict(said.get("OPTIONS") or {})


def _refused(alias: str, name: str, why: str) -> DefinitionError:
    return DefinitionError(
        f"the database {alias!r} of DATABASES has the option {name!r}: {why}; nothing was opened. {_CHANGE}"
    )


def _url(scheme: str, said: Mapping[str, Any], host: str) -> str:
    user, password = str(said.get("USER") or ""), str(said.get("PASSWORD") or "")
    who = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "") + "@" if user else ""
    port = f":{said['PORT']}" if host and said.get("PORT") else ""
    where = f"[{host}]" if ":" in host else host
    return f"{scheme}://{who}{where}{port}/{quote(str(said.get('NAME') or ''), safe='')}"


def _postgresql(alias: str, said: Mapping[str, Any], options: dict[str, Any]) -> Database:
    from django.db.backends.postgresql.psycopg_any import is_psycopg3  # noqa: PLC0415 - needs one of the drivers

    driver = "psycopg" if is_psycopg3 else "psycopg2"
    role = options.pop("assume_role", None)
    if role:  # as Django's SET ROLE, for each connection
        options["options"] = f"{options.get('options', '')} -c role={_escaped(str(role))}".strip()
    host = str(said.get("HOST") or "")
    if host.startswith(("/", "@")) or "," in host:  # a socket, or several servers
        options["host"] = host
        if said.get("PORT"):
            options["port"] = str(said["PORT"])
        host = ""
    return Database(_url(f"postgresql+{driver}", said, host), options)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace(" ", "\\ ")


def _mysql(alias: str, said: Mapping[str, Any], options: dict[str, Any]) -> Database:
    from django.db.backends.mysql import base  # noqa: PLC0415 - needs a driver

    if str(options.pop("charset", "utf8mb4")).lower() != "utf8mb4":
        raise _refused(alias, "charset", "celery_saga writes utf8mb4")
    host = str(said.get("HOST") or "")
    if host.startswith("/"):
        options["unix_socket"], host = host, ""
    scheme = "mysql+pymysql" if base.Database.__name__ == "pymysql" else "mysql+mysqldb"
    return Database(_url(scheme, said, host), options)


def _sqlite(alias: str, said: Mapping[str, Any], options: dict[str, Any]) -> Database:
    name = str(said.get("NAME") or ":memory:")
    if not name.startswith("file:"):
        return Database("sqlite://" if name == ":memory:" else f"sqlite:///{quote(name)}", options)
    path, mark, query = name.partition("?")
    return Database(f"sqlite:///{quote(path, safe='/:')}{mark}{query}{'&' if mark else '?'}uri=true", options)
