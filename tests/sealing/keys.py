"""Codecs and another store for tests, which can lose keys and objects, and tell what they did."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from celery import Celery
from cryptography.fernet import Fernet, MultiFernet
from sqlalchemy import text

from celery_saga import CelerySaga
from celery_saga.store import SqlStore
from celery_saga.testing import Lab

FIRST, SECOND, THIRD = (Fernet.generate_key().decode() for _ in range(3))


class Keys:
    """Encrypts with the first key, decrypts with any; the keys can be changed under way."""

    def __init__(self, *keys: str) -> None:
        self.use(*keys)

    def use(self, *keys: str) -> None:
        self._fernet = MultiFernet([Fernet(key) for key in keys])

    def encode(self, text: str) -> str:
        return self._fernet.encrypt(text.encode("utf-8", "surrogatepass")).decode()

    def decode(self, text: str) -> str:
        return self._fernet.decrypt(text).decode("utf-8", "surrogatepass")


class Shelf:
    """Texts in memory, by reference."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.is_down = False
        self.seen: Callable[[str], object] = lambda _: None

    def put(self, text: str) -> str:
        self._ask("put")
        reference = uuid.uuid4().hex
        self.texts[reference] = text
        return reference

    def get(self, reference: str) -> str:
        self._ask("get")
        return self.texts[reference]

    def delete(self, reference: str) -> None:
        self._ask("delete")
        self.texts.pop(reference, None)

    def _ask(self, what: str) -> None:
        self.seen(what)
        if self.is_down:
            raise ConnectionError("the shelf does not answer")


@contextmanager
def lab_with(**settings: Any) -> Iterator[Lab]:
    """A laboratory of an app with these settings, without the prefix."""
    app = Celery("sealing", set_as_current=False)
    CelerySaga(app, database_url="sqlite://", **settings)
    try:
        with Lab(app) as lab:
            yield lab
    finally:
        app.close()


def store_of(lab: Lab) -> SqlStore:
    store = lab.engine.store
    assert isinstance(store, SqlStore)
    return store


def at_rest(store: SqlStore) -> dict[str, list[str]]:
    """Everything that stands in the tables, as text, by table and column."""
    found: dict[str, list[str]] = {}
    with store.own_sessions.engine.connect() as connection:
        for table in store.schema.metadata.sorted_tables:
            for row in connection.execute(text(f"SELECT * FROM {table.name}")).mappings():
                for name, value in row.items():
                    found.setdefault(f"{table.name}.{name}", []).append(str(value))
    return found


def where(store: SqlStore, marker: str) -> set[str]:
    """The columns in which a text stands in clear."""
    return {column for column, values in at_rest(store).items() if any(marker in value for value in values)}
