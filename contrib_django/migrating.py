"""Migrations of Django that run those of the library: the DDL is written once, and both agree on what was applied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from django.db.migrations.operations import SeparateDatabaseAndState
from django.db.migrations.operations.base import Operation

from celery_saga.store.hosted import apply_part, drop_statements, drop_tables, statements_of
from contrib_django.saga_database import saga_alias, table

__all__ = ["RunPart"]

_FIRST = 1


class RunPart(SeparateDatabaseAndState):
    """One part of one of the library's migrations, and what it changes of the models.

    It runs on Django's own connection, in the transaction of Django's migration, and only on the saga database. What
    `celery saga migrate` has applied before is taken over. Backwards, the first one drops all tables, and the others
    change nothing: older code works on newer tables.

    Args:
        number: of the library's migration, from 1.
        phase: pre or post.
        state_operations: what has become of the models.
    """

    def __init__(
        self, number: int, phase: Literal["pre", "post"] = "pre", state_operations: Sequence[Operation] = ()
    ) -> None:
        super().__init__(state_operations=list(state_operations))
        self.number = number
        self.phase = phase

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        """As it is written in a migration."""
        words = {"number": self.number, "phase": self.phase, "state_operations": self.state_operations}
        return type(self).__name__, [], words

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Apply it, unless it was applied."""
        connection = schema_editor.connection
        if connection.alias != saga_alias():
            return
        if schema_editor.collect_sql:
            schema_editor.collected_sql += _shown(statements_of(_url(connection), table(""), self.number, self.phase))
        else:
            apply_part(connection, _url(connection), table(""), self.number, self.phase)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """The first part of all: drop the tables."""
        connection = schema_editor.connection
        if connection.alias != saga_alias() or (self.number, self.phase) != (_FIRST, "pre"):
            return
        if schema_editor.collect_sql:
            schema_editor.collected_sql += _shown(drop_statements(_url(connection), table("")))
        else:
            drop_tables(connection, _url(connection), table(""))

    def describe(self) -> str:
        """As `migrate --plan` shows it."""
        return f"Apply migration {self.number:04d} ({self.phase}) of celery_saga"


def _url(connection: Any) -> str:
    """What kind of database it is, and through which driver."""
    if connection.vendor == "sqlite":
        return "sqlite://"
    driver = connection.Database.__name__.partition(".")[0]
    if connection.vendor == "mysql":
        kind = "mariadb" if connection.mysql_is_mariadb else "mysql"
        return f"{kind}+{'mysqldb' if driver == 'MySQLdb' else driver}://"
    return f"{connection.vendor}+{driver}://"


def _shown(statements: list[str]) -> list[str]:
    return [f"{statement.rstrip(';')};" for statement in statements]
