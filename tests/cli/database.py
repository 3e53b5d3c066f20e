"""A database with our tables, for the programs to work on."""

from __future__ import annotations

from celery_saga.store import migrate, open_store


def with_tables(url: str) -> str:
    """Make the tables there; the URL again. Nothing is left open."""
    store = open_store(url)
    try:
        migrate(store)
    finally:
        store.close()
    return url
