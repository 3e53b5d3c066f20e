"""Schedules: `schedules list`, `show`, `add`, `remove`, `pause`, `unpause`, `fires`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from celery_saga.cli.arguments import INSTANT, JSON, NAMED_JSON
from celery_saga.cli.session import Session, command
from celery_saga.cli.starting import given_arguments
from celery_saga.cli.steering import by_whom
from celery_saga.cli.tables import Cell, Table, ago
from celery_saga.client.documents import fire_document, readable, schedule_document
from celery_saga.core.schedules import FireRecord, ScheduleRecord
from celery_saga.core.spans import span_text
from celery_saga.definition.scheduling import wanted

__all__ = ["schedules"]


def _of_schedule(function: Any) -> Any:
    return click.argument("saga")(click.argument("schedule")(function))


@command("list", rows=True, short_help="List schedules with their next and last time.")
@click.option("--saga", metavar="NAME", help="Only those of this saga.")
def list_(session: Session, saga: str | None) -> None:
    """List schedules: pattern, next and last nominal time, whether paused, who made them, what keeps them."""
    session.check_saga(saga)
    found = [each for each in session.saga.schedules() if saga is None or each.saga == saga]
    if session.out.as_json:
        for each in found:
            session.out.line(schedule_document(each))
        return
    if not found:
        session.out.say("no schedules")
        return
    now = session.store.now()
    table = Table(("saga", "id", "when", "next", "last", "source", "state"), least=("source", "last"), first=2)
    for each in found:
        ahead = "none any more" if each.next_at is None else ago(each.next_at, now)
        when = (each.saga, each.id, pattern_text(each), ahead, ago(each.last_fire_at, now))
        table.rows.append((*when, each.source, _state(each)))
    session.out.table(table)


@command("show", short_help="Show a schedule.")
@_of_schedule
def show(session: Session, saga: str, schedule: str) -> None:
    """Show a schedule of SAGA: what it starts, when, and what became of its last time."""
    _shown(session, session.saga.find_schedule(saga, schedule).record)


@command("add", short_help="Add a schedule, or change the one that is there.")
@_of_schedule
@click.option("--cron", help="Five fields, like '30 2 * * mon-fri'.")
@click.option("--every", type=float, metavar="SECONDS", help="Every so many seconds, at least 0.1, counted from now.")
@click.option("--at", type=INSTANT, help="Once, at this instant (ISO 8601, UTC without a zone).")
@click.option("--tz", help="The time zone of --cron; the app's unless given.")
@click.option("--arg", "named", type=NAMED_JSON, multiple=True, help="One argument of its runs, like --arg n=5.")
@click.option("--args", "given", type=JSON, help="All arguments: a JSON list by position, or an object by name.")
@click.option("--overlap", type=click.Choice(["skip", "allow"]), default="skip", help="While a run of it is live.")
@click.option("--catch-up", type=click.Choice(["latest", "all"]), default="latest", help="Of times that were missed.")
def add(
    session: Session, saga: str, schedule: str, named: tuple[tuple[str, Any], ...], given: Any, **said: Any
) -> None:
    """Let the clock start runs of SAGA: the schedule of this name is added, or changed where it differs."""
    args, kwargs = given_arguments(given, dict(named))
    book = session.engine.schedules
    words = {**said, "args": args, "kwargs": kwargs}
    limit_bytes = session.engine.limits.max_payload_bytes
    record, changed = book.put(
        wanted(session.named(saga), schedule, words, book, limit_bytes=limit_bytes, source="cli")
    )
    if not changed and not session.out.as_json:
        session.out.say("this schedule was there already; nothing was changed")
    _shown(session, record)


@command("remove", short_help="Remove a schedule with its log.")
@_of_schedule
def remove(session: Session, saga: str, schedule: str) -> None:
    """Remove a schedule of SAGA, with the log of its fires. Its runs are left alone."""
    handle = session.saga.find_schedule(saga, schedule)
    handle.remove()
    if session.out.as_json:
        session.out.document({"saga": handle.saga, "id": handle.id, "removed": True})
    else:
        session.out.say(f"schedule {handle.id} of saga {handle.saga} is removed")


@command("pause", short_help="Skip the times of a schedule from now on.")
@_of_schedule
@by_whom
def pause(session: Session, saga: str, schedule: str, reason: str, by: str) -> None:
    """Pause a schedule of SAGA: its times are skipped, which its log tells."""
    _shown(session, session.saga.find_schedule(saga, schedule).pause(reason=reason, by=by))


@command("unpause", short_help="Let a paused schedule fire again.")
@_of_schedule
def unpause(session: Session, saga: str, schedule: str) -> None:
    """Let a paused schedule of SAGA fire again, from its next time in the future on."""
    _shown(session, session.saga.find_schedule(saga, schedule).unpause())


@command("fires", rows=True, short_help="Tell what became of the times of a schedule.")
@_of_schedule
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="At most so many rows.")
def fires(session: Session, saga: str, schedule: str, limit: int) -> None:
    """Tell what became of the nominal times of a schedule of SAGA, newest first: the run, or why it was skipped."""
    found = session.saga.find_schedule(saga, schedule).fires(limit=limit)
    if session.out.as_json:
        for each in found:
            session.out.line(fire_document(each))
        return
    table = Table(("nominal time", "outcome", "run or reason"))
    for each in found:
        outcome = Cell(each.outcome.value, "green" if each.run_id else "yellow")
        table.rows.append((_when(each), outcome, each.run_id or (each.reason.value if each.reason else "")))
    session.out.table(table)
    if not found:
        session.out.say("nothing has come due yet")


@click.group("schedules", short_help="Schedules: what the clock starts.")
def schedules() -> None:
    """Schedules: what the clock starts, when, and what became of it. Each of them takes --json."""


for _each in (list_, show, add, remove, pause, unpause, fires):
    schedules.add_command(_each)


def pattern_text(schedule: ScheduleRecord) -> str:
    """When it fires, for people: `30 2 * * * (Europe/Berlin)`, `every 90 s`, `at 2026-12-24T18:00:00+00:00`."""
    if schedule.kind.value == "cron":
        return f"{schedule.pattern} ({schedule.tz})"
    if schedule.kind.value == "every":
        return f"every {span_text(float(schedule.pattern))}"
    return f"at {schedule.pattern}"


def _shown(session: Session, record: ScheduleRecord) -> None:
    if session.out.as_json:
        session.out.document(schedule_document(record))
        return
    now = session.store.now()
    by = "" if record.pause_by is None else f" by {record.pause_by}"
    paused = f"yes{by}{'' if record.pause_reason is None else f': {record.pause_reason}'}" if record.paused else ""
    session.out.facts(
        [
            ("schedule", record.id),
            ("saga", f"{record.saga} version {record.version}"),
            ("when", pattern_text(record)),
            ("next", _instant(record.next_at, now) or "none any more"),
            ("last", _instant(record.last_fire_at, now)),
            ("last run", record.last_run_id or ""),
            ("paused", paused),
            ("overlap", record.overlap),
            ("catch up", record.catch_up),
            ("source", record.source),
            ("woken by", record.driver),
            ("failures", str(record.failures) if record.failures else ""),
            ("error", Cell(record.error or "", "red")),
        ]
    )


def _instant(at: datetime | None, now: datetime) -> str:
    return "" if at is None else f"{readable(at)} ({ago(at, now)})"


def _when(fire: FireRecord) -> str:
    first = str(readable(fire.nominal_at))
    return first if fire.count == 1 else f"{first} to {readable(fire.until_at)} ({fire.count})"


def _state(schedule: ScheduleRecord) -> Cell:
    if schedule.error is not None:
        return Cell("paused", "yellow") if schedule.paused else Cell(schedule.error.splitlines()[0], "red")
    if schedule.next_at is None:
        return Cell("done", "green")
    return Cell("paused", "yellow") if schedule.paused else Cell("")
