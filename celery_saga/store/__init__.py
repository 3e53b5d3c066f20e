"""Runs in SQL: PostgreSQL, SQLite, MariaDB and MySQL through SQLAlchemy Core."""

from __future__ import annotations

from celery_saga.store.dialects.base import UNPOOLED
from celery_saga.store.migrations import migrate, pending, schema_state
from celery_saga.store.sql_store import SqlStore, open_store, url_of
from celery_saga.store.stepping import in_transaction_of
from celery_saga.store.vault import Codec, Offload, Vault

__all__ = [
    "UNPOOLED",
    "Codec",
    "Offload",
    "SqlStore",
    "Vault",
    "in_transaction_of",
    "migrate",
    "open_store",
    "pending",
    "schema_state",
    "url_of",
]
