"""Places of a body: the counters of one of its scopes, and which records stand at a place of one."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from celery_saga.core.records import StepKind, StepRecord
from celery_saga.errors import DefinitionError

_MAX_KEY = 200
_PLACELESS = (StepKind.UNDO, StepKind.PATCH, StepKind.ROLLBACK, StepKind.CHORD)


@dataclass
class Scope:
    """Counters of one scope of the body: its names so far and the place of the next call."""

    prefix: str = ""
    next_ordinal: int = 0
    seen: dict[str, int] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    draws: int = 0
    patches: dict[str, bool] = field(default_factory=dict)  # answers to `patched` in this pass
    left: str | None = None  # it, or this scope around it, was left by an error: it can order nothing new


def check_step_name(name: str, prefix: str) -> None:
    """Refuse what cannot be the last part of a key.

    Args:
        prefix: of the scope that it is to stand in.
    Raises:
        DefinitionError: too long with its prefix, empty, or with characters that keys reserve; nothing was ordered.
    """
    if not _is_part(name):
        raise DefinitionError(
            f"step name {name!r}: needs 1 to {_MAX_KEY} characters, none of them ! # / [ ] or a control character"
        )
    check_key(prefix + name)


@lru_cache(maxsize=1024)
def _is_part(name: str) -> bool:
    return 1 <= len(name) <= _MAX_KEY and not any(c in name for c in "!#/[]\n\x00")


def check_key(key: str) -> None:
    """Refuse a key that the tables have no room for, with what stands behind that of an undo or a rollback.

    Raises:
        DefinitionError: it is longer than 200 characters; nothing was ordered.
    """
    if len(key) > _MAX_KEY:
        raise DefinitionError(
            f"the key {key[:40]!r}... has {len(key)} characters, at most {_MAX_KEY} are allowed, those of the scopes "
            "and parts around it included; nothing was ordered. Give those shorter names, or nest less deeply."
        )


def caught_bug(where: str, error: Exception) -> str:
    """What is wrong where a bug left a section of the body, and was caught outside."""
    return (
        f"{where} was left by {type(error).__name__}: {error}; that is not in errors= of the saga, so it is a bug, but "
        "the body caught it and went on; nothing was undone or ordered. Add it to errors=, or let it leave the body."
    )


def has_place(step: StepRecord) -> bool:
    """It was asked for by the body at a place of a scope; parts, undos and what the engine adds were not."""
    return step.kind not in _PLACELESS and step.join_key is None


def called(kind: StepKind, key: str, task: str) -> str:
    """How what a body asks for is called in an error."""
    return f"{kind.value} {key!r} ({task})" if task else f"{kind.value} {key!r}"


def name_of(record: StepRecord) -> str:
    """How a record is called in an error."""
    return (
        f"{record.kind.value} {record.key!r} ({record.task})" if record.task else f"{record.kind.value} {record.key!r}"
    )
