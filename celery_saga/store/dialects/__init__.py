"""What differs between the databases, one module each."""

from __future__ import annotations

from importlib import import_module

from celery_saga.errors import DefinitionError
from celery_saga.store.dialects.base import Database, Trouble

__all__ = ["Database", "Trouble", "database_named"]

# A process has one database, and SQLAlchemy's part for each of the others takes long to load.
_BY_NAME = {
    "postgresql": ("postgresql", "PostgreSql"),
    "sqlite": ("sqlite", "Sqlite"),
    "mysql": ("mysql", "MySql"),
    "mariadb": ("mysql", "MySql"),
}


def database_named(name: str) -> Database:
    """The database of a URL's first part.

    Raises:
        DefinitionError: there is no such database among those supported.
    """
    if name not in _BY_NAME:
        raise DefinitionError(f"the database {name!r} is not supported; use one of {', '.join(sorted(_BY_NAME))}")
    module, class_name = _BY_NAME[name]
    made: Database = getattr(import_module(f"{__name__}.{module}"), class_name)()
    return made
