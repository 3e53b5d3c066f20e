"""The command that tells Flower again: `announce`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta

import click

from celery_saga.cli.arguments import AGE, RUN
from celery_saga.cli.diagnostics import Trouble
from celery_saga.cli.session import Session, command
from celery_saga.cli.tables import counted

__all__ = ["announce"]


@command("announce", short_help="Tell Flower again of runs, after it was down or has forgotten them.")
@click.argument("run", metavar=f"[{RUN}]", required=False)
@click.option("--since", type=AGE, help="All live runs, and those that ended since: 12h, 30d, or an instant.")
@click.option("--saga", metavar="NAME", help="Only runs of this saga.")
@click.option("--worker", metavar="NAME", help="The worker to show them under, instead of one that answers.")
def announce(
    session: Session, run: str | None, since: timedelta | datetime | None, saga: str | None, worker: str | None
) -> None:
    """Send the task events of one run or of many, with their steps, as the tables have them. May be repeated."""
    if (run is None) == (since is None):
        raise click.UsageError("Name a run, or give --since.")
    session.check_saga(saga)
    run_id = None if run is None else session.run(run).id
    done = session.saga.announce(run_id, since=since, saga=saga, worker=worker)
    if session.out.as_json:
        session.out.document(asdict(done))
    else:
        session.out.say(f"{counted(done.runs, 'run')} and {counted(done.steps, 'step')} were told")
    if done.trouble:
        raise Trouble("BROKER_UNAVAILABLE", f"not all was sent: {done.trouble}")
