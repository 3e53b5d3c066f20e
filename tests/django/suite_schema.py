"""Django's migrations and models beside the library's tables; run by test_schema.py on an empty database."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from django.apps import apps
from django.core.management import call_command
from django.db import connection, models, transaction
from django.db.migrations.loader import MigrationLoader
from django.test import override_settings
from django.utils.timezone import localtime
from proj import celery_app
from shop.sagas import checkout
from sqlalchemy import BigInteger, Boolean, Integer, SmallInteger, create_engine

from celery_saga import DefinitionError, SchemaOutdated
from celery_saga.store import SqlStore, migrate, pending, schema_state
from celery_saga.store.hosted import parts
from celery_saga.store.schema import Schema
from celery_saga.store.types import Instant, Name
from contrib_django.fields import HAS_JOINT_KEYS, InstantField
from contrib_django.migrating import RunPart
from contrib_django.models import Run, Step, Tag

PREFIX = "app_"
SCHEMA = Schema(PREFIX)


@pytest.fixture(autouse=True)
def no_test_database(django_db_blocker: Any) -> Iterator[None]:
    with django_db_blocker.unblock():
        call_command("migrate", "celery_saga", "zero", verbosity=0)
        yield
        connection.close()


@pytest.fixture
def store() -> Iterator[SqlStore]:
    yield celery_app.saga.store
    celery_app.saga.services.close()


def manage(*words: str) -> str:
    told = StringIO()
    call_command(*words, stdout=told, verbosity=1)
    return told.getvalue()


def there() -> set[str]:
    return {name for name in connection.introspection.table_names() if "saga_" in name and "celery_saga" not in name}


def differences(store: SqlStore) -> list[Any]:
    engine = create_engine(store.own_sessions.engine.url)
    with engine.connect() as own:
        ours = {"include_name": lambda name, kind, _: kind != "table" or name.startswith(f"{PREFIX}saga_")}
        found = compare_metadata(MigrationContext.configure(own, opts=ours), SCHEMA.metadata)
    engine.dispose()
    return list(found)


def test_the_tables_are_those_of_the_schema_and_both_sides_know_it(store: SqlStore) -> None:
    manage("migrate")

    assert there() == set(SCHEMA.metadata.tables)
    assert differences(store) == []
    assert (schema_state(store), pending(store), migrate(store)) == ("current", [], [])


def test_tables_that_the_library_has_made_are_taken_over(store: SqlStore) -> None:
    migrate(store)
    run = checkout.start(1, 100)

    manage("migrate")

    assert Run.objects.get().id == run.id
    assert differences(store) == []


def test_backwards_to_zero_nothing_of_it_is_left(store: SqlStore) -> None:
    manage("migrate")
    manage("migrate", "celery_saga", "zero")

    assert there() == set()
    assert schema_state(store) == "absent"
    manage("migrate")
    assert there() == set(SCHEMA.metadata.tables)


def test_nothing_is_left_to_make() -> None:
    assert "No changes" in manage("makemigrations", "--check", "--dry-run")


def test_the_sql_is_shown_and_nothing_is_done() -> None:
    forwards, backwards = (
        manage("sqlmigrate", "celery_saga", "0001"),
        manage("sqlmigrate", "celery_saga", "0001", "--backwards"),
    )

    assert {name for name in SCHEMA.metadata.tables if f"CREATE TABLE {name} (" in forwards} == set(
        SCHEMA.metadata.tables
    )
    assert forwards.count("CREATE INDEX") == sum(len(table.indexes) for table in SCHEMA.metadata.tables.values())
    assert {name for name in SCHEMA.metadata.tables if f"DROP TABLE {name};" in backwards} == set(
        SCHEMA.metadata.tables
    )
    assert there() == set()


def test_each_part_of_the_librarys_migrations_is_one_of_djangos() -> None:
    nodes = MigrationLoader(None).disk_migrations
    ran = [
        (operation.number, operation.phase)
        for (label, _), migration in sorted(nodes.items())
        if label == "celery_saga"
        for operation in migration.operations
        if isinstance(operation, RunPart)
    ]

    assert ran == [(number, phase) for number, phase, _ in parts()]


KINDS: dict[type, type] = {
    Instant: InstantField,
    Name: models.CharField,
    Boolean: models.BooleanField,
    BigInteger: models.BigIntegerField,
    Integer: models.IntegerField,
    SmallInteger: models.SmallIntegerField,
}


def described(column: Any) -> tuple[Any, ...]:
    kind = KINDS.get(type(column.type), models.TextField)
    if column.name == "id" and kind is models.BigIntegerField:
        kind = models.BigAutoField
    return kind, getattr(column.type, "length", None), column.nullable


def of_field(field: Any) -> tuple[Any, ...]:
    field = field.target_field if isinstance(field, models.ForeignKey) else field
    return type(field), field.max_length, field.null


def test_the_models_have_the_columns_of_the_tables() -> None:
    mine = {model._meta.db_table: model for model in apps.get_app_config("celery_saga").get_models()}
    assert set(mine) == set(SCHEMA.metadata.tables) - {SCHEMA.applied.name}
    for name, table in SCHEMA.metadata.tables.items():
        if name not in mine:
            continue
        meta = mine[name]._meta
        fields = {field.column: of_field(field) for field in meta.concrete_fields if field.column}
        assert fields == {column.name: described(column) for column in table.columns}, name
        if HAS_JOINT_KEYS:
            key = [field.column for field in meta.pk_fields]
            assert key == [column.name for column in table.primary_key.columns], name


def created_at(run: Any) -> datetime:
    loaded = celery_app.saga.store.load(run.id)
    assert loaded is not None
    return loaded.snapshot.run.created_at


# -- reading ----------------------------------------------------------------------------------------------------
def test_rows_are_read_and_filtered() -> None:
    manage("migrate")
    before = datetime.now(UTC) - timedelta(minutes=1)
    first = checkout.options(tags=["vip"]).start(1, 100)
    second = checkout.start(2, 100)

    assert [run.key for run in Run.objects.order_by("created_at")] == ["1", "2"]
    assert Run.objects.get(pk=first.id).created_at.tzinfo is UTC
    assert Run.objects.get(pk=first.id).created_at == created_at(first)
    assert Run.objects.filter(created_at__gt=before, created_at__lt=before + timedelta(hours=1)).count() == 2
    assert Run.objects.filter(created_at=created_at(second)).get().id == second.id
    assert Run.objects.filter(created_at__gte=created_at(second)).get().id == second.id
    assert [tag.tag for tag in Run.objects.get(pk=first.id).tags.all()] == ["vip"]
    assert Tag.objects.get(run__saga="djshop_checkout").run.id == first.id
    assert Run.objects.values_list("status").annotate(number=models.Count("id")).get() == ("queued", 2)
    first.cancel()
    assert Run.objects.get(pk=first.id).get_status_display() == "cancelled"


def test_parts_of_instants_are_in_the_current_time_zone() -> None:
    manage("migrate")
    run = checkout.start(1, 100)
    at = localtime(created_at(run))

    assert Run.objects.filter(created_at__date=at.date(), created_at__year=at.year, created_at__hour=at.hour).exists()
    assert not Run.objects.filter(created_at__date=at.date() + timedelta(days=1)).exists()


def test_instants_are_in_utc_also_where_django_has_no_time_zones() -> None:
    manage("migrate")
    run = checkout.start(1, 100)
    there = celery_app.saga.engine.run_of(run.id).created_at

    with override_settings(USE_TZ=False, TIME_ZONE="Asia/Kathmandu"):
        rows = Run.objects.filter(created_at__in=Run.objects.values("created_at"))
        assert [row.created_at for row in rows.order_by("created_at").distinct()] == [there]
        assert Run.objects.aggregate(last=models.Max("created_at")) == {"last": there}
        assert list(Run.objects.filter(created_at__gte=there).values_list("created_at", flat=True)) == [there]
        assert list(Run.objects.annotate(at=models.F("created_at")).values_list("at", flat=True)) == [there]
        assert list(Run.objects.values("created_at").union(Run.objects.values("created_at"))) == [{"created_at": there}]


def test_nothing_is_written_through_a_model() -> None:
    manage("migrate")
    run = checkout.start(1, 100)
    row = Run.objects.get()

    def refused(write: Any, *args: Any, **kwargs: Any) -> None:
        with pytest.raises(DefinitionError, match="nothing was written"):
            write(*args, **kwargs)

    refused(row.save)
    refused(row.delete)
    refused(row.save_base, raw=True)
    refused(Run.objects.create, id="x")
    refused(Run.objects.filter(pk=run.id).update, status="completed")
    refused(Run.objects.all().delete)
    refused(Run.objects.bulk_create, [Run(id="x")])
    refused(Run.objects.bulk_update, [row], ["status"])
    refused(Run.objects.get_or_create, id="x")
    refused(Run.objects.update_or_create, id="x")
    refused(Run._base_manager.filter(pk=run.id).update, status="completed")
    refused(row.steps.create, key="x")
    refused(row.steps.add, Step(key="x"), bulk=False)
    assert (Run.objects.count(), Run.objects.get().status, Step.objects.count()) == (1, "queued", 0)


def test_missing_tables_are_told_as_everywhere() -> None:
    with pytest.raises(SchemaOutdated, match="lacks a table"), transaction.atomic():
        checkout.start(1, 100)
