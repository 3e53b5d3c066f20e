"""Graphs, schedules, lanes and what workers tell each other, as models in the state of the first migration."""

from __future__ import annotations

from django.db import migrations, models

from contrib_django.fields import LAST_OF_KEY, InstantField, joint_key
from contrib_django.saga_database import table

OPERATIONS = (
    migrations.CreateModel(
        name="Definition",
        fields=[
            *joint_key("name", "version"),
            ("name", models.CharField(max_length=255)),
            ("version", models.IntegerField(**LAST_OF_KEY)),
            ("digest", models.CharField(max_length=64)),
            ("graph_text", models.TextField()),
            ("created_at", InstantField()),
        ],
        options={
            "db_table": table("saga_definition"),
            "default_permissions": ("view",),
            "base_manager_name": "objects",
        },
    ),
    migrations.CreateModel(
        name="Fire",
        fields=[
            *joint_key("saga", "schedule", "seq"),
            ("saga", models.CharField(max_length=255)),
            ("schedule", models.CharField(max_length=255)),
            ("seq", models.IntegerField(**LAST_OF_KEY)),
            ("nominal_at", InstantField()),
            ("until_at", InstantField()),
            ("count", models.IntegerField()),
            ("outcome", models.CharField(max_length=24)),
            ("reason", models.CharField(max_length=24, null=True)),
            ("run_id", models.CharField(max_length=64, null=True)),
            ("at", InstantField()),
        ],
        options={
            "db_table": table("saga_fire"),
            "default_permissions": ("view",),
            "base_manager_name": "objects",
        },
    ),
    migrations.CreateModel(
        name="Grant",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("lane", models.CharField(max_length=255)),
            ("at", InstantField()),
        ],
        options={
            "db_table": table("saga_grant"),
            "default_permissions": ("view",),
            "base_manager_name": "objects",
        },
    ),
    migrations.CreateModel(
        name="Lane",
        fields=[
            ("name", models.CharField(max_length=255, primary_key=True, serialize=False)),
            ("cap", models.IntegerField(null=True)),
            ("hold", models.CharField(max_length=24)),
            ("limit", models.IntegerField(null=True)),
            ("window_ms", models.BigIntegerField(null=True)),
            ("source", models.CharField(max_length=24)),
            ("said_at", InstantField(null=True)),
            ("paused_at", InstantField(null=True)),
            ("paused_by", models.TextField(null=True)),
            ("paused_reason", models.TextField(null=True)),
            ("limited_until", InstantField(null=True)),
            ("enlisting", models.BooleanField()),
            ("wake_at", InstantField(null=True)),
        ],
        options={
            "db_table": table("saga_lane"),
            "default_permissions": ("view",),
            "base_manager_name": "objects",
        },
    ),
    migrations.CreateModel(
        name="Outbox",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("purpose", models.CharField(max_length=8)),
            ("run_id", models.CharField(max_length=64)),
            ("saga", models.CharField(max_length=255)),
            ("event", models.CharField(max_length=24)),
            ("event_id", models.CharField(max_length=255)),
            ("at", InstantField()),
            ("body_text", models.TextField()),
        ],
        options={
            "verbose_name_plural": "outbox",
            "db_table": table("saga_outbox"),
            "default_permissions": ("view",),
            "base_manager_name": "objects",
        },
    ),
    migrations.CreateModel(
        name="Relay",
        fields=[
            ("name", models.CharField(max_length=24, primary_key=True, serialize=False)),
            ("token", models.CharField(max_length=64, null=True)),
            ("lease_until", InstantField(null=True)),
        ],
        options={
            "db_table": table("saga_relay"),
            "default_permissions": ("view",),
            "base_manager_name": "objects",
        },
    ),
    migrations.CreateModel(
        name="Schedule",
        fields=[
            *joint_key("saga", "id"),
            ("saga", models.CharField(max_length=255)),
            ("id", models.CharField(max_length=255, **LAST_OF_KEY)),
            ("version", models.IntegerField()),
            ("kind", models.CharField(max_length=24)),
            ("pattern", models.CharField(max_length=255)),
            ("tz", models.CharField(max_length=255)),
            ("input_text", models.TextField()),
            ("input_digest", models.TextField()),
            ("overlap", models.CharField(max_length=24)),
            ("catch_up", models.CharField(max_length=24)),
            ("source", models.CharField(max_length=24)),
            ("owner", models.CharField(max_length=255)),
            ("driver", models.CharField(max_length=24)),
            ("created_at", InstantField()),
            ("updated_at", InstantField()),
            ("anchor_at", InstantField()),
            ("next_at", InstantField(null=True)),
            ("wake_at", InstantField(null=True)),
            ("last_fire_at", InstantField(null=True)),
            ("last_run_id", models.CharField(max_length=64, null=True)),
            ("handled_at", InstantField(null=True)),
            ("exempt_until_at", InstantField(null=True)),
            ("paused", models.BooleanField()),
            ("pause_reason", models.TextField(null=True)),
            ("pause_by", models.TextField(null=True)),
            ("failures", models.IntegerField()),
            ("error", models.TextField(null=True)),
            ("fire_seq", models.IntegerField()),
        ],
        options={
            "db_table": table("saga_schedule"),
            "default_permissions": ("view",),
            "base_manager_name": "objects",
        },
    ),
    migrations.CreateModel(
        name="Sweeper",
        fields=[
            ("name", models.CharField(max_length=255, primary_key=True, serialize=False)),
            ("host", models.CharField(max_length=255)),
            ("pid", models.BigIntegerField()),
            ("since_at", InstantField()),
            ("seen_at", InstantField()),
            ("sagas_text", models.TextField()),
        ],
        options={
            "db_table": table("saga_sweeper"),
            "default_permissions": ("view",),
            "base_manager_name": "objects",
        },
    ),
    migrations.CreateModel(
        name="Slot",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("lane", models.CharField(max_length=255)),
            ("rank", models.IntegerField()),
            ("turn", models.IntegerField()),
            ("counts", models.BooleanField()),
            ("kept", models.BooleanField()),
            ("state", models.CharField(max_length=24)),
            ("hold", models.CharField(max_length=24)),
            ("limited", models.BooleanField()),
            ("ask", models.IntegerField()),
            ("said_text", models.TextField(null=True)),
            ("wake_at", InstantField(null=True)),
            (
                "run",
                models.ForeignKey(
                    db_column="run_id",
                    db_constraint=False,
                    db_index=False,
                    on_delete=models.DO_NOTHING,
                    related_name="slots",
                    to="celery_saga.run",
                ),
            ),
        ],
        options={
            "db_table": table("saga_slot"),
            "default_permissions": ("view",),
            "base_manager_name": "objects",
        },
    ),
)
