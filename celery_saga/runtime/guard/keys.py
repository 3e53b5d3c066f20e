"""Checks of `saga_codec`: what others have sealed can be read here."""

from __future__ import annotations

from collections.abc import Iterator

from celery import Celery

from celery_saga.runtime.guard.bounded import Unasked
from celery_saga.runtime.guard.facts import Facts, SchemaState
from celery_saga.runtime.guard.finding import Code, Finding, Level

__all__ = ["CHECKS", "CODES"]

PAYLOADS_UNREADABLE = Code(
    "PAYLOADS_UNREADABLE",
    Level.ERROR,
    "None of the {looked} latest live runs can be read here ({why}). A worker or a sweeper with these settings parks "
    "what it comes upon, and clients can neither signal nor cancel these runs.",
    "Give `saga_codec` the keys that the other processes have, before this one works; then resume what was parked: "
    "`celery -A proj saga resume --reason-code unreadable`.",
)
PAYLOADS_PARTLY_UNREADABLE = Code(
    "PAYLOADS_PARTLY_UNREADABLE",
    Level.WARNING,
    "{unreadable} of the {looked} latest live runs cannot be read here ({why}): they were sealed with a key that this "
    "process lacks, or were damaged.",
    "Let `saga_codec` know the older keys too, or the newer ones that other processes seal with.",
)
PAYLOADS_NOT_ASKED = Code(
    "PAYLOADS_NOT_ASKED",
    Level.WARNING,
    "Whether this process can read the runs that are stored could not be asked ({reason}).",
    "See that the saga database and what `saga_codec` asks for keys answer, then check again.",
)


def keys(app: Celery, facts: Facts) -> Iterator[Finding]:
    """The latest runs can be read."""
    seen = facts.configured.legible
    if isinstance(seen, Unasked):
        # Else the checks of the database and its tables say why.
        if facts.configured.schema in (SchemaState.CURRENT, SchemaState.NEWER):
            yield PAYLOADS_NOT_ASKED.found(reason=seen.reason)
    elif seen is not None and seen.unreadable:
        code = PAYLOADS_UNREADABLE if seen.unreadable == seen.looked else PAYLOADS_PARTLY_UNREADABLE
        yield code.found(looked=seen.looked, unreadable=seen.unreadable, why=seen.why)


CODES = (PAYLOADS_UNREADABLE, PAYLOADS_PARTLY_UNREADABLE, PAYLOADS_NOT_ASKED)
CHECKS = (keys,)
