"""What a list reads, as the statements that are sent show it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import event

from celery_saga.core.ports import RunFilter
from celery_saga.store import SqlStore, migrate, open_store
from celery_saga.store.rows import RUN_FIELDS
from celery_saga.store.searching import listed_columns
from celery_saga.store.types import Document, Payload
from celery_saga.testing.samples import LONG_AGO, a_run

READ = {"error_text", "tags_text"}  # bounded, and what a list is there to show


@pytest.fixture
def store() -> Iterator[SqlStore]:
    store = open_store("sqlite://")
    migrate(store)
    store.insert_run(a_run())
    yield store
    store.close()


@contextmanager
def said(store: SqlStore) -> Iterator[list[str]]:
    statements: list[str] = []

    def listen(connection: object, cursor: object, statement: str, *more: object) -> None:
        statements.append(statement)

    event.listen(store.sessions.engine, "before_cursor_execute", listen)
    yield statements
    event.remove(store.sessions.engine, "before_cursor_execute", listen)


@pytest.mark.parametrize(
    "wanted",
    [
        RunFilter(),
        RunFilter(saga="checkout"),
        RunFilter(version=1),
        RunFilter(tag="vip", lane="slow"),
        RunFilter(late_s=1),
        RunFilter(purged=True),
        RunFilter(attention=True, after="x", after_at=LONG_AGO),
    ],
    ids=["all", "saga", "version", "tag", "stuck", "purged", "page"],
)
def test_r034_no_list_reads_a_payload(store: SqlStore, wanted: RunFilter) -> None:
    payloads = {column.name for column in store.schema.run.c if isinstance(column.type, Payload | Document)} - READ

    with said(store) as statements:
        store.runs(wanted)

    lists = [statement for statement in statements if "saga_run.reason" in statement]
    assert len(lists) == 1
    assert {"input_text", "result_text", "spec_text", "headers_text", "cut_text", "pending_text"} <= payloads
    assert [name for name in payloads if f"saga_run.{name}" in lists[0]] == []
    assert "args_text" not in lists[0] and "value_text" not in lists[0]


def test_a_listed_run_has_every_field_of_a_run(store: SqlStore) -> None:
    assert [column.name for column in listed_columns(store.schema.run)] == list(RUN_FIELDS)
