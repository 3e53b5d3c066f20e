"""Models of what is not of one run alone: graphs, schedules, lanes, and what workers tell each other."""

from __future__ import annotations

from django.db import models

from contrib_django import columns
from contrib_django.fields import HAS_JOINT_KEYS, LAST_OF_KEY
from contrib_django.reading import Stored
from contrib_django.saga_database import table

__all__ = ["Definition", "Fire", "Grant", "Lane", "Outbox", "Relay", "Schedule", "Slot", "Sweeper"]


class Definition(Stored):
    """A state graph, with the first run of its name and version."""

    if HAS_JOINT_KEYS:
        pk = models.CompositePrimaryKey("name", "version")
    name = columns.name()
    version = models.IntegerField(**LAST_OF_KEY)
    digest = columns.name(64)
    graph_text = columns.text()
    created_at = columns.instant(null=False)

    class Meta(Stored.Meta):
        db_table = table("saga_definition")


class Schedule(Stored):
    """When runs of a saga are started by the clock."""

    if HAS_JOINT_KEYS:
        pk = models.CompositePrimaryKey("saga", "id")
    saga = columns.name()
    id = columns.name(**LAST_OF_KEY)
    version = models.IntegerField()
    kind = columns.name(24)
    pattern = columns.name()
    tz = columns.name()
    input_text = columns.text()
    input_digest = columns.text()
    overlap = columns.name(24)
    catch_up = columns.name(24)
    source = columns.name(24)
    owner = columns.name()
    driver = columns.name(24)
    created_at = columns.instant(null=False)
    updated_at = columns.instant(null=False)
    anchor_at = columns.instant(null=False)
    next_at = columns.instant()
    wake_at = columns.instant()
    last_fire_at = columns.instant()
    last_run_id = columns.maybe(64)
    handled_at = columns.instant()
    exempt_until_at = columns.instant()
    paused = models.BooleanField()
    pause_reason = columns.text(null=True)
    pause_by = columns.text(null=True)
    failures = models.IntegerField()
    error = columns.text(null=True)
    fire_seq = models.IntegerField()

    class Meta(Stored.Meta):
        db_table = table("saga_schedule")


class Fire(Stored):
    """What came of a schedule's nominal times."""

    if HAS_JOINT_KEYS:
        pk = models.CompositePrimaryKey("saga", "schedule", "seq")
    saga = columns.name()
    schedule = columns.name()
    seq = models.IntegerField(**LAST_OF_KEY)
    nominal_at = columns.instant(null=False)
    until_at = columns.instant(null=False)
    count = models.IntegerField()
    outcome = columns.name(24)
    reason = columns.maybe(24)
    run_id = columns.maybe(64)
    at = columns.instant(null=False)

    class Meta(Stored.Meta):
        db_table = table("saga_fire")


class Sweeper(Stored):
    """A process that wakes what is due."""

    name = columns.name(primary_key=True)
    host = columns.name()
    pid = models.BigIntegerField()
    since_at = columns.instant(null=False)
    seen_at = columns.instant(null=False)
    sagas_text = columns.text()

    class Meta(Stored.Meta):
        db_table = table("saga_sweeper")


class Outbox(Stored):
    """What is still to be announced."""

    id = models.BigAutoField(primary_key=True)
    purpose = columns.name(8)
    run_id = columns.name(64)
    saga = columns.name()
    event = columns.name(24)
    event_id = columns.name()
    at = columns.instant(null=False)
    body_text = columns.text()

    class Meta(Stored.Meta):
        db_table = table("saga_outbox")
        verbose_name_plural = "outbox"


class Relay(Stored):
    """Who empties the outbox."""

    name = columns.name(24, primary_key=True)
    token = columns.maybe(64)
    lease_until = columns.instant()

    class Meta(Stored.Meta):
        db_table = table("saga_relay")


class Lane(Stored):
    """What is said of a lane: how many runs may be active in it."""

    name = columns.name(primary_key=True)
    cap = models.IntegerField(null=True)
    hold = columns.name(24)
    limit = models.IntegerField(null=True)
    window_ms = models.BigIntegerField(null=True)
    source = columns.name(24)
    said_at = columns.instant()
    paused_at = columns.instant()
    paused_by = columns.text(null=True)
    paused_reason = columns.text(null=True)
    limited_until = columns.instant()
    enlisting = models.BooleanField()
    wake_at = columns.instant()

    class Meta(Stored.Meta):
        db_table = table("saga_lane")


class Slot(Stored):
    """A run's place in a lane, or in the queue before it."""

    id = models.BigAutoField(primary_key=True)
    lane = columns.name()
    run = columns.of_run("slots")
    rank = models.IntegerField()
    turn = models.IntegerField()
    counts = models.BooleanField()
    kept = models.BooleanField()
    state = columns.name(24)
    hold = columns.name(24)
    limited = models.BooleanField()
    ask = models.IntegerField()
    said_text = columns.text(null=True)
    wake_at = columns.instant()

    class Meta(Stored.Meta):
        db_table = table("saga_slot")


class Grant(Stored):
    """When a run became active in a lane with a limit."""

    id = models.BigAutoField(primary_key=True)
    lane = columns.name()
    at = columns.instant(null=False)

    class Meta(Stored.Meta):
        db_table = table("saga_grant")
