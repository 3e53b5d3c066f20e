"""Checks what a purge is asked for, before the database is."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from celery_saga.core import asked
from celery_saga.core.retention import PURGEABLE, PurgeFilter
from celery_saga.core.retry import seconds
from celery_saga.core.status import RunStatus
from celery_saga.errors import DefinitionError, InvalidPayload

__all__ = ["MAX_BATCH", "MAX_LATEST", "check_count", "orphan_cutoff", "purge_filter"]

_LEFT = "nothing was purged"
_LONGEST_COMMIT = timedelta(hours=2)  # a checkpoint is tried for an hour

MAX_BATCH = 10_000
"""Most runs of one transaction."""

MAX_LATEST = 1_000_000
"""Most runs of a saga that can be told to stay."""


def purge_filter(
    *,
    older_than: float | timedelta | datetime,
    now: datetime,
    saga: str | None,
    status: str | Iterable[str] | None,
    keep_keys: bool,
) -> PurgeFilter:
    """The filter of a purge, each part checked.

    Raises:
        InvalidPayload: naming the part, its value and what is allowed; nothing was purged.
    """
    if saga is not None:
        asked.text("purge()", "saga", saga, _LEFT)
    keep_keys = asked.flag("purge()", "keep_keys", keep_keys, _LEFT)
    cutoff = _cutoff(older_than, now)
    return PurgeFilter(cutoff, saga, PURGEABLE if status is None else _statuses(status), keep_keys)


def orphan_cutoff(older_than: object, now: datetime) -> datetime:
    """Before which instant an object must have been put to be taken for one that no row will name any more.

    Raises:
        InvalidPayload: it is none, or less than 2 hours ago; nothing was purged.
    """
    call = "purge_orphans()"
    cutoff = _cutoff(older_than, now, call)
    if cutoff > now - _LONGEST_COMMIT:
        rule = "must be 2 hours or more: what was put since may still be waiting for its commit"
        raise asked.refused(call, "older_than", rule, older_than, _LEFT)
    return cutoff


def check_count(value: int | None, name: str, most: int) -> int | None:
    """A whole number from 1 on, or None.

    Raises:
        InvalidPayload: something else; nothing was purged.
    """
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most):
        raise _refused(name, f"must be a whole number from 1 to {most}", value)
    return value


def _cutoff(older_than: object, now: datetime, call: str = "purge()") -> datetime:
    if isinstance(older_than, datetime):
        try:
            cutoff = asked.utc(older_than)
        except ValueError as error:
            raise _refused("older_than", str(error), older_than, call) from None
    else:
        try:
            age_s = seconds(older_than, "older_than")  # type: ignore[arg-type]  # checks it
            cutoff = now - timedelta(seconds=age_s)
        except (DefinitionError, OverflowError):
            raise _refused(
                "older_than", "must be seconds, a timedelta or an aware datetime", older_than, call
            ) from None
    if cutoff >= now:
        raise _refused("older_than", f"must lie before the database's now, {now.isoformat()}", older_than, call)
    return cutoff


def _statuses(status: object) -> tuple[RunStatus, ...]:
    given = (status,) if isinstance(status, str) else status
    known = [each.value for each in PURGEABLE]
    wanted = tuple(given) if isinstance(given, Iterable) else ()
    if not wanted:
        raise _refused("status", "takes a status or several", status)
    for each in wanted:
        if each not in known:
            raise _refused("status", f"must be of {', '.join(known)}: nothing else is ever purged", each)
    return tuple(RunStatus(each) for each in wanted)


def _refused(name: str, rule: str, value: object, call: str = "purge()") -> InvalidPayload:
    return asked.refused(call, name, rule, value, _LEFT)
