"""Commands about lanes: `pause`, `unpause`, `lanes`, `set-lane`, `forget-lane`."""

from __future__ import annotations

import re
from typing import Any

import click

from celery_saga.cli.session import Session, command
from celery_saga.cli.steering import by_whom
from celery_saga.cli.tables import Cell, Table
from celery_saga.client import documents
from celery_saga.client.lanes import LaneInfo
from celery_saga.definition.lane import MAX_CAP

__all__ = ["forget_lane", "lanes", "pause", "set_lane", "unpause"]


class _Count(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    name = "n|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """A number from 1, or the word `none`. Not 0, which would stop as well as it would open."""
        text = str(value).strip()
        if text == _NONE:
            return _NONE
        if not re.fullmatch(r"[0-9]{1,10}", text) or not 1 <= int(text) <= MAX_CAP:
            told = f"{value!r} is no whole number from 1 to {MAX_CAP}; write none for any number"
            self.fail(f"{told}, and stop a lane with `pause`", param, ctx)
        return int(text)


_NONE = "none"
_COUNT = _Count()


def _which(function: Any) -> Any:
    """The options that name one lane, or one saga."""
    function = click.option("--lane", metavar="NAME", help="The lane.")(function)
    return click.option("--saga", metavar="NAME", help="All runs of this saga; '*' means all sagas.")(function)


def _check(session: Session, saga: str | None, lane: str | None) -> None:
    if (saga is None) == (lane is None):
        raise click.UsageError("Give --saga or --lane, one of them.")
    if saga != "*":
        session.check_saga(saga)


@command("pause", short_help="Let no run of a saga or lane be active.")
@_which
@by_whom
def pause(session: Session, saga: str | None, lane: str | None, reason: str, by: str) -> None:
    """Let no run of a saga, or in a lane, begin another step until `unpause`; what runs ends, undos go on."""
    _check(session, saga, lane)
    info = session.saga.pause(saga=saga, lane=lane, reason=reason, by=by)
    if session.out.as_json:
        session.out.document(documents.lane_document(info))
        return
    session.out.say(f"{_title(info)}: paused by {info.paused_by}, {info.queued} queued")


@command("unpause", short_help="Let the runs of a saga or lane go on.")
@_which
@by_whom
def unpause(session: Session, saga: str | None, lane: str | None, reason: str, by: str) -> None:
    """Let the runs of a paused saga or lane be active again."""
    _check(session, saga, lane)
    was_paused = session.saga.unpause(saga=saga, lane=lane, reason=reason, by=by)
    if session.out.as_json:
        session.out.document({"saga": saga, "lane": lane, "changed": was_paused})
        return
    which = f"lane {lane}" if lane is not None else "all sagas" if saga == "*" else f"saga {saga}"
    session.out.say(f"{which}: {'unpaused' if was_paused else 'it was not paused; nothing was changed'}")


@command("lanes", rows=True, short_help="List lanes, caps and pauses with their use.")
def lanes(session: Session) -> None:
    """List all lanes, and the sagas with a cap or a pause: what is said of them, who is in and who queues."""
    found = session.saga.lanes()
    if session.out.as_json:
        for each in found:
            session.out.line(documents.lane_document(each))
        return
    table = Table(("lane", "cap", "held", "queued", "hold", "limit", "paused", "said by"))
    for each in found:
        limit = "" if each.limit is None else f"{each.limit} in {each.window_s:g} s"
        row = (str(each.cap or "none"), str(each.held), str(each.queued), each.hold, limit)
        table.rows.append((_title(each), *row, _paused(each), each.source))
    session.out.table(table)


@command("set-lane", short_help="Change a lane, or the cap of a saga.")
@_which
@click.option("--cap", type=_COUNT, help="Runs at a time, from 1; none: any number.")
@click.option("--hold", type=click.Choice(["active", "life"]), help="For how long a run keeps its slot.")
@click.option("--limit", type=_COUNT, help="Runs that become active in a window, from 1; none: any number.")
@click.option("--window", type=click.FloatRange(min=0, min_open=True), help="The window of the limit, in seconds.")
def set_lane(session: Session, saga: str | None, lane: str | None, **given: Any) -> None:
    """Change a lane, or the cap of a saga, for all processes; it goes before what code and settings say."""
    _check(session, saga, lane)
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes:
        raise click.UsageError("Give at least one of --cap, --hold, --limit and --window.")
    changes = {name: None if value == _NONE else value for name, value in changes.items()}
    if "limit" in changes and changes["limit"] is None:
        changes["window"] = None
    info = session.saga.set_lane(lane, saga=saga, **changes)
    if session.out.as_json:
        session.out.document(documents.lane_document(info))
        return
    session.out.say(f"{_title(info)}: cap {info.cap or 'none'}, {info.held} held, {info.queued} queued")


@command("forget-lane", short_help="Delete a lane that nobody uses and nothing names.")
@click.argument("lane", metavar="NAME")
@by_whom
def forget_lane(session: Session, lane: str, reason: str, by: str) -> None:
    """Delete the lane NAME with what was said of it: one that was mistyped, say. Refused while a run uses it."""
    changed = session.saga.forget_lane(lane, reason=reason, by=by)
    if session.out.as_json:
        session.out.document({"lane": lane, "changed": changed})
        return
    session.out.say(f"lane {lane}: {'forgotten' if changed else 'there is none; nothing was changed'}")


def _title(lane: LaneInfo) -> str:
    return "all sagas" if lane.kind == "all" else f"{lane.kind} {lane.name}"


def _paused(lane: LaneInfo) -> Cell:
    if lane.paused_at is None:
        return Cell("")
    why = f": {lane.paused_reason}" if lane.paused_reason else ""
    return Cell(f"since {lane.paused_at:%Y-%m-%d %H:%M} by {lane.paused_by or 'nobody named'}{why}", "yellow")
