"""Checks what a listing of runs is asked for, before the database is."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from celery_saga.core import asked
from celery_saga.core.ports import RunFilter
from celery_saga.core.records import RunRecord
from celery_saga.core.status import RunStatus
from celery_saga.errors import InvalidPayload

__all__ = ["MAX_LIMIT", "check_run_id", "place_of", "run_filter", "whole_number"]

MAX_LIMIT = 10_000
"""Most runs of one page."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_VERSION = 2_147_483_647
_LEFT = "nothing was read"


def run_filter(
    call: str = "runs()",
    *,
    saga: str | None,
    version: int | None,
    status: str | Iterable[str] | None,
    key: str | None,
    lane: str | None,
    tag: str | None,
    since: datetime | None,
    until: datetime | None,
    attention: bool,
    late_s: float | None = None,
    purged: bool,
    limit: int,
    after: str | None,
) -> RunFilter:
    """The filter of a page, each part checked.

    Args:
        call: what was called, for errors.
        late_s: only runs that nothing has moved for so long; None: any.

    Raises:
        InvalidPayload: naming the part, its value and what is allowed; nothing was read.
    """
    for name, value in (("saga", saga), ("key", key), ("lane", lane), ("tag", tag), ("after", after)):
        if value is not None:
            asked.text(call, name, value)
    after_at, after = (None, None) if after is None else _place(after, call)
    return RunFilter(
        saga=saga,
        version=None if version is None else asked.whole(call, "version", version, 1, _MAX_VERSION),
        status=None if status is None else _statuses(status, call),
        key=key,
        lane=lane,
        tag=tag,
        since=_instant(since, "since", call),
        until=_instant(until, "until", call),
        attention=asked.flag(call, "attention", attention, _LEFT),
        late_s=late_s,
        purged=asked.flag(call, "purged", purged, _LEFT),
        limit=asked.whole(call, "limit", limit, 1, MAX_LIMIT),
        after=after,
        after_at=after_at,
    )


def place_of(run: RunRecord) -> str:
    """What `after=` takes to go on behind this run, also when that is gone by then."""
    return f"{(run.created_at - _EPOCH) // timedelta(microseconds=1)}~{run.id}"


def _place(after: str, call: str) -> tuple[datetime | None, str]:
    """When the run was created, if that is told, and its id."""
    micros, tilde, run_id = after.partition("~")
    if not tilde or not run_id or not micros.lstrip("-").isdecimal():
        return None, after
    try:
        return _EPOCH + timedelta(microseconds=int(micros)), run_id
    except (ValueError, OverflowError):
        raise _refused(call, "after", "must be `next` of the page before", after) from None


def check_run_id(run_id: object) -> str:
    """The run id, if it is text.

    Raises:
        InvalidPayload: it is something else; nothing was read.
    """
    try:
        return asked.text("", "id", run_id)
    except InvalidPayload:
        raise InvalidPayload(
            f"a run id is text without NUL, got {asked.shown(run_id)}; nothing was read. Give str(...) of a UUID.",
            path="id",
        ) from None


def whole_number(value: object, name: str, what: str, most: int = MAX_LIMIT) -> int:
    """A number from 1 to `most`.

    Args:
        name, what: of the argument, and of the call that got it.
    Raises:
        InvalidPayload: it is something else; nothing was read.
    """
    return asked.whole(what, name, value, 1, most)


def _statuses(status: object, call: str) -> tuple[str, ...]:
    given = (status,) if isinstance(status, str) else status
    if not isinstance(given, Iterable):
        raise _refused(call, "status", "takes a status or several", status)
    known = [each.value for each in RunStatus]
    wanted = tuple(given)
    for each in wanted:
        if each not in known:
            raise _refused(call, "status", f"must be of {', '.join(known)}", each)
    return tuple(RunStatus(each).value for each in wanted)


def _instant(at: object, name: str, call: str) -> datetime | None:
    try:
        return None if at is None else asked.utc(at)
    except ValueError as error:
        raise _refused(call, name, str(error), at) from None


def _refused(call: str, name: str, rule: str, value: Any) -> InvalidPayload:
    return asked.refused(call, name, rule, value, _LEFT)
