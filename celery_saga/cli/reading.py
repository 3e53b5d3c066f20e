"""Commands that read: `runs`, `show`, `history`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import click

from celery_saga.cli import views
from celery_saga.cli.arguments import INSTANT, RUN
from celery_saga.cli.session import Session, command
from celery_saga.cli.watch_view import waiting_text
from celery_saga.client import documents
from celery_saga.client.filters import MAX_LIMIT
from celery_saga.core.records import Action, RunRecord, StepKind, StepRecord
from celery_saga.core.status import RunStatus

__all__ = ["history", "runs", "show"]

_OF_THE_CODE = {"body_error", "non_determinism", "input"}
"""Reasons for which a run is parked until its code is mended: the traceback tells where."""


@command("runs", rows=True, short_help="List runs, newest first.")
@click.option("--saga", metavar="NAME", help="Only runs of this saga.")
@click.option("--version", type=click.IntRange(min=1), help="Only runs of this version.")
@click.option("--status", type=click.Choice([each.value for each in RunStatus]), multiple=True, help="Repeatable.")
@click.option("--key", help="Only the run with this key.")
@click.option("--lane", help="Only runs of this lane.")
@click.option("--tag", help="Only runs with this tag.")
@click.option("--since", type=INSTANT, help="Created then or later (ISO 8601, UTC without a zone).")
@click.option("--until", type=INSTANT, help="Created before then.")
@click.option("--attention", is_flag=True, help="Only runs that wait for a person.")
@click.option("--stuck", is_flag=True, help="Only runs that should get on and do not: overdue, or woken in vain.")
@click.option("--purged", is_flag=True, help="Only runs of which just the key is kept.")
@click.option("--limit", type=click.IntRange(1, MAX_LIMIT), default=100, show_default=True, help="At most so many.")
@click.option("--after", metavar="PLACE", help="Go on there, as the page before told; or after the run with this id.")
def runs(session: Session, status: tuple[str, ...], **filters: Any) -> None:
    """List runs, newest first."""
    session.check_saga(filters["saga"])
    page = session.saga.runs(status=status or None, **filters)
    if session.out.as_json:
        for run in page:
            session.out.line(documents.run_document(run))
        return
    session.out.table(views.runs_table(page, session.store.now()))
    if not len(page):
        session.out.say("no runs")
    if page.next is not None:
        session.out.say(f"more: --after {page.next}")


@command("show", short_help="Show a run, its steps and its error.")
@click.argument("run", metavar=RUN)
@click.option("--all", "all_generations", is_flag=True, help="Steps of every generation, not only the present one.")
@click.option("--traceback", is_flag=True, help="The stored traceback of its error too, with --json as well.")
def show(session: Session, run: str, all_generations: bool, traceback: bool) -> None:
    """Show a run with its steps. RUN is a run id or SAGA:KEY."""
    record = session.run(run)
    steps = session.store.steps(record.id, all_generations=all_generations)
    if session.out.as_json:
        waits, signals = session.handle(record.id).waiting_on, session.store.signals(record.id)
        session.out.document(documents.shown_document(record, steps, waits, signals, traceback=traceback))
        return
    now = session.store.now()
    show_run(session, record, now)
    waiting = waiting_text(session.handle(record.id).waiting_on, now)
    if waiting:
        session.out.say(f"waits for: {waiting}")
    if steps:
        session.out.say("")
        session.out.table(views.steps_table(steps, generations=all_generations, now=now))
    for line in _closed_by_hand(session, record, steps):
        session.out.say(line)
    trace = views.traceback_lines(record.error) if traceback or record.reason in _OF_THE_CODE else []
    if trace:
        session.out.say("")
        session.out.verbatim(trace)


@command("history", rows=True, short_help="Show what happened to a run.")
@click.argument("run", metavar=RUN)
@click.option("--after", type=click.IntRange(min=0), default=0, help="Only rows with a higher number.")
def history(session: Session, run: str, after: int) -> None:
    """Show what happened to a run, oldest first. RUN is a run id or SAGA:KEY."""
    record = session.run(run)
    rows = session.store.history(record.id, after=after)
    if session.out.as_json:
        for row in rows:
            session.out.line(documents.history_document(row))
        return
    session.out.table(views.history_table(rows))


def show_run(session: Session, record: RunRecord, now: datetime) -> None:
    """Print the facts of a run for people."""
    session.out.facts(views.run_facts(record, now))


def _closed_by_hand(session: Session, record: RunRecord, steps: Iterable[StepRecord]) -> Iterator[str]:
    """What people have said of undos, which the table shows as ended like any other."""
    if not any(step.kind is StepKind.UNDO and step.status.is_end for step in steps):
        return
    for row in session.store.history(record.id):
        if row.action is Action.RESOLVE_UNDO:
            why = f": {row.reason}" if row.reason else ""
            yield f"{row.step} was closed by hand as {row.detail} by {row.by or 'nobody named'}{why}"
