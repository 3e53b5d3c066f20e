"""Checks of the saga tables: there, and of the version that this code needs."""

from __future__ import annotations

from collections.abc import Iterator

from celery import Celery

from celery_saga.runtime.guard.bounded import Unasked
from celery_saga.runtime.guard.facts import Facts, SchemaState
from celery_saga.runtime.guard.finding import Code, Finding, Level

__all__ = ["CHECKS", "CODES"]

_MIGRATE = "Run `celery -A proj saga migrate`, or your Django migrations."

SCHEMA_ABSENT = Code(
    "SCHEMA_ABSENT",
    Level.ERROR,
    "The saga tables do not exist in the saga database.",
    _MIGRATE,
)
SCHEMA_OUTDATED = Code(
    "SCHEMA_OUTDATED",
    Level.ERROR,
    "The saga tables are older than this version of celery_saga.",
    _MIGRATE,
)
SCHEMA_NEWER = Code(
    "SCHEMA_NEWER",
    Level.WARNING,
    "The saga tables are newer than this version of celery_saga: fine while an upgrade is "
    "rolled out, and not for longer.",
    "Upgrade celery_saga here too.",
)
SCHEMA_NOT_ASKED = Code(
    "SCHEMA_NOT_ASKED",
    Level.ERROR,
    "Whether the saga tables are up to date could not be asked ({reason}).",
    "See that the saga database answers, then check again.",
)
_CODES = {
    SchemaState.ABSENT: SCHEMA_ABSENT,
    SchemaState.OUTDATED: SCHEMA_OUTDATED,
    SchemaState.NEWER: SCHEMA_NEWER,
}


def tables(app: Celery, facts: Facts) -> Iterator[Finding]:
    """The tables fit this version."""
    state = facts.configured.schema
    if isinstance(state, Unasked):
        yield SCHEMA_NOT_ASKED.found(reason=state.reason)
    elif state in _CODES:
        yield _CODES[state].found()


CODES = (SCHEMA_ABSENT, SCHEMA_OUTDATED, SCHEMA_NEWER, SCHEMA_NOT_ASKED)
CHECKS = (tables,)
