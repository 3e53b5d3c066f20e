"""The command that follows what happens to a run, a line for each outcome: `events`."""

from __future__ import annotations

import sys

import click

from celery_saga.cli.arguments import RUN
from celery_saga.cli.session import Session, command
from celery_saga.client import documents

__all__ = ["events"]


@command("events", rows=True, short_help="Follow the history of a run up to its end, from any place in it.")
@click.argument("run", metavar=RUN)
@click.option("--after", type=click.IntRange(min=0), default=0, help="Only what comes behind this number.")
def events(session: Session, run: str, after: int) -> None:
    """Print each outcome of a run once and in order, also those that are to come. RUN is a run id or SAGA:KEY."""
    handle = session.handle(session.run(run).id)
    for row in handle.events(after=after):
        if session.out.as_json:
            session.out.line(documents.history_document(row))
        else:
            what = " ".join(filter(None, (row.kind, row.step, row.detail)))
            session.out.say(f"{row.seq:>5}  {row.at.isoformat()}  {row.action.value:<10}  {what}")
        sys.stdout.flush()  # whoever reads a pipe is to see it now
