"""Kinds of columns that the models of the saga tables have in common."""

from __future__ import annotations

from typing import Any

from django.db import models

from contrib_django.fields import InstantField

__all__ = ["instant", "maybe", "name", "of_run", "text"]


def name(length: int = 255, **options: Any) -> Any:
    """A name or key that is always there."""
    return models.CharField(max_length=length, **options)


def maybe(length: int = 255) -> Any:
    """A name or key that may be missing."""
    return models.CharField(max_length=length, null=True)


def text(*, null: bool = False) -> Any:
    """A text of any length."""
    return models.TextField(null=null)


def instant(*, null: bool = True) -> Any:
    """A point in time."""
    return InstantField(null=null)


def of_run(related: str) -> Any:
    """The run of a row. Without a constraint: a purge deletes the rows of many runs table by table."""
    return models.ForeignKey(
        "celery_saga.Run",
        models.DO_NOTHING,
        related_name=related,
        db_column="run_id",
        db_constraint=False,
        db_index=False,
    )
