"""The command that takes parked runs back into work: `resume`, one or many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from celery_saga.cli import views
from celery_saga.cli.arguments import REASONS, RUN
from celery_saga.cli.diagnostics import Trouble
from celery_saga.cli.reading import show_run
from celery_saga.cli.session import Session, command
from celery_saga.cli.steering import by_whom
from celery_saga.cli.tables import counted
from celery_saga.client import documents
from celery_saga.core.records import RunRecord
from celery_saga.core.status import RunStatus
from celery_saga.errors import IllegalTransition, RunNotFound

__all__ = ["resume"]

_PAGE = 500


@command("resume", short_help="Take parked runs back into work.")
@click.argument("run", metavar=f"[{RUN}]", required=False)
@click.option("--saga", metavar="NAME", help="All parked runs of this saga.")
@click.option("--version", type=click.IntRange(min=1), help="Only those of this version.")
@click.option("--reason-code", type=click.Choice(REASONS), help="All runs that are parked for this reason.")
@click.option("--dry-run", is_flag=True, help="Only tell which runs these are.")
@by_whom
def resume(session: Session, run: str | None, dry_run: bool, reason: str, by: str, **filters: Any) -> None:
    """Resume one parked run (RUN is a run id or SAGA:KEY), or all that the filters name."""
    many = any(value is not None for value in filters.values())
    if (run is None) is not many:
        raise click.UsageError("Give either a RUN, or at least one of --saga, --version and --reason-code.")
    if run is None:
        session.check_saga(filters["saga"])
        _resume_many(session, list(_parked(session, **filters)), dry_run=dry_run, reason=reason, by=by)
        return
    record = session.run(run)
    if not dry_run:
        session.handle(record.id).resume(reason=reason, by=by)
        record = session.engine.run_of(record.id)
    if session.out.as_json:
        session.out.document(documents.run_document(record))
        return
    show_run(session, record, session.store.now())


def _parked(session: Session, *, saga: str | None, version: int | None, reason_code: str | None) -> Iterator[RunRecord]:
    after: str | None = None
    while True:
        status = (RunStatus.SUSPENDED.value,)
        page = session.saga.runs(saga=saga, version=version, status=status, limit=_PAGE, after=after)
        yield from (run for run in page if reason_code in {None, run.reason})
        after = page.next
        if after is None:
            return


def _resume_many(session: Session, runs: list[RunRecord], *, dry_run: bool, reason: str, by: str) -> None:
    refused: dict[str, str] = {}
    if not dry_run:
        for run in runs:
            try:
                session.handle(run.id).resume(reason=reason, by=by)
            except (IllegalTransition, RunNotFound) as error:
                # Somebody else was faster; the others are still to be resumed.
                refused[run.id] = str(error)
    resumed = [] if dry_run else [run.id for run in runs if run.id not in refused]
    if session.out.as_json:
        matched = [run.id for run in runs]
        session.out.document({"dry_run": dry_run, "matched": matched, "resumed": resumed, "refused": refused})
    elif dry_run:
        session.out.table(views.runs_table(runs, session.store.now()))
        session.out.say(f"{counted(len(runs), 'parked run')} would be resumed")
    else:
        session.out.say(_resumed(len(resumed), len(runs)))
    if refused:
        raise Trouble(
            "ILLEGAL_TRANSITION",
            f"{counted(len(refused), 'run')} could not be resumed: {next(iter(refused.values()))}",
        )


def _resumed(done: int, of: int) -> str:
    if not of:
        return "no parked run matches; nothing was changed"
    verb = "was" if done == 1 else "were"
    return f"{counted(done, 'parked run')} {verb} resumed" + ("" if done == of else f", of {of} that match")
