"""The saga tables as Django models, to read; their DDL is the library's own, see `contrib_django.migrations`.

Fields are named as the columns of `celery_saga.store.schema`. Texts ending in `_text` are JSON as stored, closed where
a codec closes payloads: `app.saga.get(run_id)` opens and decodes them.
"""

from __future__ import annotations

from django.db import models

from celery_saga.core.status import RunStatus, StepStatus
from contrib_django import columns
from contrib_django.fields import HAS_JOINT_KEYS, LAST_OF_KEY
from contrib_django.reading import Stored
from contrib_django.saga_database import table
from contrib_django.service_models import Definition, Fire, Grant, Lane, Outbox, Relay, Schedule, Slot, Sweeper

__all__ = [
    "Definition",
    "Fire",
    "Grant",
    "History",
    "Lane",
    "Outbox",
    "Relay",
    "Run",
    "Schedule",
    "Signal",
    "Slot",
    "Step",
    "Sweeper",
    "Tag",
]


class Run(Stored):
    """One execution of a saga."""

    id = columns.name(64, primary_key=True)
    saga = columns.name()
    version = models.IntegerField()
    key = columns.maybe()
    status = columns.name(24, choices=[(each.value, each.value.replace("_", " ")) for each in RunStatus])
    created_at = columns.instant(null=False)
    updated_at = columns.instant(null=False)
    generation = models.IntegerField()
    state_version = models.BigIntegerField()
    input_text = columns.text(null=True)
    input_digest = columns.text()
    spec_text = columns.text()
    headers_text = columns.text()
    result_text = columns.text(null=True)
    error_text = columns.text(null=True)
    error_step = columns.maybe()
    reason = columns.text(null=True)
    outcome = columns.maybe(24)
    restart = models.BooleanField()
    cut_text = columns.text(null=True)
    skip_undos = models.BooleanField()
    started_at = columns.instant()
    ended_at = columns.instant()
    wake_at = columns.instant()
    not_before_at = columns.instant()
    deadline_at = columns.instant()
    priority = models.IntegerField()
    lane = columns.maybe()
    tags_text = columns.text()
    queue = columns.maybe()
    parent_id = columns.maybe(64)
    parent_key = columns.maybe()
    failures = models.IntegerField()
    stalls = models.IntegerField()
    claim_token = columns.maybe(64)
    lease_until = columns.instant()
    sends = models.IntegerField()
    sent_at = columns.instant()
    redispatched_at = columns.instant()
    attention_at = columns.instant()
    step_seq = models.IntegerField()
    history_seq = models.IntegerField()
    folded = models.BooleanField()
    shields = models.IntegerField()
    pending_text = columns.text(null=True)
    pivoted = models.BooleanField()
    scheduled_for = columns.instant()
    admission = columns.name(24)
    asks = models.IntegerField()
    purged_at = columns.instant()

    class Meta(Stored.Meta):
        db_table = table("saga_run")
        permissions = (
            ("start_run", "Can start runs"),
            ("cancel_run", "Can cancel runs"),
            ("suspend_run", "Can suspend runs"),
            ("resume_run", "Can resume runs"),
            ("retry_run", "Can retry failed runs"),
            ("signal_run", "Can send signals to runs"),
            ("settle_undo", "Can retry undos, and mark them done"),
            ("purge_run", "Can purge runs"),
            ("view_payload", "Can view payloads of runs"),
        )

    def __str__(self) -> str:
        return f"{self.saga} {self.key or self.id}"


class Step(Stored):
    """One task executed for a run, or an undo of one, or a wait."""

    if HAS_JOINT_KEYS:
        pk = models.CompositePrimaryKey("run_id", "generation", "key")
    run = columns.of_run("steps")
    generation = models.IntegerField()
    key = columns.name(**LAST_OF_KEY)
    kind = columns.name(24)
    status = columns.name(24, choices=[(each.value, each.value) for each in StepStatus])
    created_at = columns.instant(null=False)
    scope = columns.name()
    ordinal = models.IntegerField()
    born = models.IntegerField()
    task = columns.name()
    args_digest = columns.text()
    args_text = columns.text()
    spec_text = columns.text()
    attempt = models.IntegerField()
    failures = models.IntegerField()
    stalls = models.IntegerField()
    sends = models.IntegerField()
    sent_at = columns.instant()
    redispatched_at = columns.instant()
    maybe = models.BooleanField()
    seq = models.IntegerField(null=True)
    claim_token = columns.maybe(64)
    owner = columns.maybe()
    lease_until = columns.instant()
    due_at = columns.instant()
    wake_at = columns.instant()
    task_id = columns.maybe()
    result_text = columns.text(null=True)
    error_text = columns.text(null=True)
    undo_of = columns.maybe()
    progress_text = columns.text(null=True)
    progress_at = columns.instant()
    join_key = columns.maybe()
    join_total = models.IntegerField()
    join_left = models.IntegerField()
    join_next = models.IntegerField()
    folded = models.BooleanField()
    started_at = columns.instant()
    ended_at = columns.instant()
    place = models.BigIntegerField()
    region = columns.name()
    undoable = models.BooleanField()

    class Meta(Stored.Meta):
        db_table = table("saga_step")

    def __str__(self) -> str:
        return f"{self.key} ({self.status})"


class Tag(Stored):
    """A tag of a run."""

    if HAS_JOINT_KEYS:
        pk = models.CompositePrimaryKey("run_id", "tag")
    run = columns.of_run("tags")
    tag = columns.name(**LAST_OF_KEY)
    created_at = columns.instant(null=False)

    class Meta(Stored.Meta):
        db_table = table("saga_tag")


class Signal(Stored):
    """A message to a run."""

    id = models.BigAutoField(primary_key=True)
    run = columns.of_run("signals")
    name = columns.name()
    signal_id = columns.name()
    received_at = columns.instant(null=False)
    value_text = columns.text()
    error_text = columns.text(null=True)
    taken_by = columns.maybe()
    taken_generation = models.IntegerField(null=True)
    wake_at = columns.instant()
    expires_at = columns.instant()

    class Meta(Stored.Meta):
        db_table = table("saga_signal")


class History(Stored):
    """What happened to a run: outcomes, and what people did."""

    if HAS_JOINT_KEYS:
        pk = models.CompositePrimaryKey("run_id", "seq")
    run = columns.of_run("history")
    seq = models.IntegerField(**LAST_OF_KEY)
    at = columns.instant(null=False)
    action = columns.name(24)
    kind = columns.name(24)
    step = columns.maybe()
    attempt = models.IntegerField(null=True)
    generation = models.IntegerField()
    detail = columns.text(null=True)
    by = columns.text(null=True)
    reason = columns.text(null=True)

    class Meta(Stored.Meta):
        db_table = table("saga_history")
        verbose_name_plural = "history"
