"""What the definitions of tables have in common: kinds of columns and options."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Dialect, Integer

__all__ = ["ROW_ID", "TABLE", "checks_status"]

ROW_ID = BigInteger().with_variant(Integer(), "sqlite")
TABLE: dict[str, Any] = {
    f"{family}_{option}": value
    for family in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("row_format", "DYNAMIC"))
}


def checks_status(ddl: Any, target: Any, bind: Any, tables: Any = None, state: Any = None, **how: Any) -> bool:
    """Whether the database checks what is written into `status`.

    PostgreSQL would read that check from its catalog, and plan it, in each statement: a fifteenth of all that it does
    for a step. What is written comes from the tables of `core.status` either way.
    """
    dialect: Dialect = how["dialect"]
    return dialect.name != "postgresql"
