"""Commands about what is kept: `purge`, `purge-orphans`, `export`, `import`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from celery_saga.cli.arguments import AGE, RUN
from celery_saga.cli.diagnostics import Trouble
from celery_saga.cli.session import Session, command
from celery_saga.client import documents
from celery_saga.core.retention import PURGEABLE
from celery_saga.core.strict_json import AmbiguousJson, read_json
from celery_saga.engine.purging import BATCH
from celery_saga.errors import RunNotFound

__all__ = ["export", "import_run", "purge", "purge_orphans"]


@command("purge", short_help="Delete runs that ended long ago.")
@click.option(
    "--older-than",
    type=AGE,
    required=True,
    help="Ended longer ago than that, like 30d, 12h, 8w (s, m, h, d, w); or before an instant (ISO 8601).",
)
@click.option("--saga", metavar="NAME", help="Only runs of this saga.")
@click.option("--status", type=click.Choice([each.value for each in PURGEABLE]), multiple=True, help="Repeatable.")
@click.option("--keep-latest", type=click.IntRange(min=1), help="Of each saga so many runs stay, the latest to end.")
@click.option("--no-keep-keys", is_flag=True, help="Delete keys too: the same start would run again.")
@click.option("--batch", type=click.IntRange(1, 10_000), default=BATCH, show_default=True, help="Runs a transaction.")
@click.option("--dry-run", is_flag=True, help="Only count.")
def purge(
    session: Session, status: tuple[str, ...], keep_latest: int | None, no_keep_keys: bool, **options: Any
) -> None:
    """Delete runs that have completed, failed or been cancelled long ago, with all that belongs to them.

    May be stopped and repeated; prints one JSON document.
    """
    session.check_saga(options["saga"])
    done = session.saga.purge(
        status=status or None, keep_latest_per_saga=keep_latest, keep_keys=not no_keep_keys, **options
    )
    session.out.document(done)


@command("purge-orphans", short_help="Delete what saga_offload keeps and no row names.")
@click.option("--older-than", type=AGE, required=True, help="Put there longer ago than that, like 1d; at least 2h.")
@click.option("--dry-run", is_flag=True, help="Only count.")
def purge_orphans(session: Session, older_than: Any, dry_run: bool) -> None:
    """Delete objects that were put into saga_offload by somebody who died before the commit; it must list its objects.

    Reads all tables once; may be stopped and repeated; prints one JSON document.
    """
    session.out.document(session.saga.purge_orphans(older_than=older_than, dry_run=dry_run))


@command("export", short_help="Print all that is stored of a run, as JSON.")
@click.argument("run", metavar=RUN)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="A file to write it to, instead of printing it.")
def export(session: Session, run: str, output: str | None) -> None:
    """Print a run with its steps, history and signals as one JSON document. RUN is a run id or SAGA:KEY."""
    record = session.run(run)
    document = session.saga.export(record.id)
    if document is None:
        raise RunNotFound(f"run {record.id!r}: there is no such run; nothing was written", run_id=record.id)
    if output is None:
        session.out.document(document)
        return
    try:
        Path(output).write_text(documents.text(document, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise Trouble("NOT_WRITTEN", f"{output!r} cannot be written: {error}") from error


@command("import", short_help="Write a run that was exported elsewhere.")
@click.argument("file", type=click.File("r", encoding="utf-8"), default="-")
def import_run(session: Session, file: Any) -> None:
    """Write the run of an exported document, which is read from FILE, or from the standard input.

    Nothing of it happens by itself: a run that has not ended must be suspended, and stays so until it is resumed.
    """
    try:
        document = read_json(file.read())
    except AmbiguousJson as error:
        raise Trouble("INVALID_ARGUMENT", f"{file.name}: it {error}; nothing was written") from error
    except UnicodeDecodeError as error:
        raise Trouble("INVALID_ARGUMENT", f"{file.name}: it is no UTF-8: {error}; nothing was written") from error
    handle = session.saga.import_run(document)
    session.out.document(documents.run_document(session.run(handle.id)))
