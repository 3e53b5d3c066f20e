"""The compensation desk: `desk list`, `desk retry`, `desk done`, `desk skip`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from celery_saga.cli.session import Session, command
from celery_saga.cli.tables import Cell, Table, ago, status
from celery_saga.cli.undoing import close_undo, of_step, retrying
from celery_saga.cli.views import error_line
from celery_saga.client.desk import DeskEntry
from celery_saga.client.documents import desk_document

__all__ = ["desk"]


@command("list", rows=True, short_help="List runs that need a person, longest waiting first.")
@click.option("--saga", metavar="NAME", help="Only runs of this saga.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="At most so many.")
@click.option("--after", metavar="CURSOR", help="Go on after the page before: what it says at its end.")
def list_(session: Session, saga: str | None, limit: int, after: str | None) -> None:
    """List runs that need a person, why, since when, and what can be done."""
    session.check_saga(saga)
    page = session.saga.desk(saga=saga, limit=limit, after=after)
    if session.out.as_json:
        for entry in page:
            session.out.line(desk_document(entry))
        return
    if not len(page):
        session.out.say("the desk is empty: no run needs a person")
        return
    session.out.table(_table(page.items, session))
    for entry in page:
        session.out.say("")
        session.out.say(f"{entry.run.id}: {entry.sentence}")
        for undo in entry.undos:
            tried = f"{undo.attempts} attempts, {undo.failures} failed, {undo.stalls} lost"
            session.out.indented(f"undo of {undo.step} ({undo.task}): {undo.status}, {tried}", first=2, rest=4)
            session.out.indented(error_line(undo.error), "red", first=4, rest=4)
    if page.next is not None:
        session.out.say(f"more: --after {page.next}")


def _table(entries: tuple[DeskEntry, ...], session: Session) -> Table:
    now = session.store.now()
    rows: list[Sequence[Cell | str]] = [
        (
            entry.run.id,
            entry.run.saga,
            entry.run.key or "",
            status(entry.run.status),
            Cell(entry.why, "yellow"),
            ago(entry.since, now),
            ", ".join(undo.step for undo in entry.undos),
            ", ".join(dict.fromkeys((*entry.verbs, *(verb for undo in entry.undos for verb in undo.verbs)))),
        )
        for entry in entries
    ]
    return Table(("run", "saga", "key", "status", "why", "since", "undos", "what can be done"), rows, least=("key",))


@command("done", short_help="Say that a person has undone a step.")
@of_step
def done(session: Session, run: str, step: str, reason: str, by: str) -> None:
    """Close the undo of STEP as done: a person did it elsewhere. RUN is a run id or SAGA:KEY."""
    close_undo(session, run, step, "done", reason=reason, by=by)


@command("skip", short_help="Say that a step shall not be undone.")
@of_step
def skip(session: Session, run: str, step: str, reason: str, by: str) -> None:
    """Close the undo of STEP as skipped; --reason is required. RUN is a run id or SAGA:KEY."""
    if not reason.strip():
        raise click.UsageError("--reason is required: who reads the history later has to know why it was not undone.")
    close_undo(session, run, step, "skipped", reason=reason, by=by)


@click.group("desk", short_help="Runs that need a person, and their undos.")
def desk() -> None:
    """The compensation desk: runs that need a person, and what can be done about each. Every command takes --json."""


for _each in (list_, retrying("retry"), done, skip):
    desk.add_command(_each)
