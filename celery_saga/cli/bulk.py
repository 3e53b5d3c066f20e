"""The command that does one verb to all runs of a filter: `bulk`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from celery_saga.cli.arguments import INSTANT, JSON, REASONS
from celery_saga.cli.diagnostics import Trouble
from celery_saga.cli.session import Session, command
from celery_saga.cli.steering import by_whom
from celery_saga.cli.tables import Cell, Table, counted, status
from celery_saga.client.bulk import VERBS, BulkResult
from celery_saga.client.documents import bulk_document
from celery_saga.core.records import RunRecord
from celery_saga.core.status import RunStatus

__all__ = ["bulk"]


@command("bulk", short_help="Do one thing to all runs of a filter; a dry run unless --yes.")
@click.argument("verb", type=click.Choice(list(VERBS)))
@click.option("--saga", metavar="NAME", help="Runs of this saga.")
@click.option("--version", type=click.IntRange(min=1), help="Of this version.")
@click.option("--status", type=click.Choice([each.value for each in RunStatus]), multiple=True, help="Repeatable.")
@click.option("--lane", help="In this lane.")
@click.option("--tag", help="With this tag.")
@click.option("--since", type=INSTANT, help="Created then or later (ISO 8601, UTC without a zone).")
@click.option("--until", type=INSTANT, help="Created before then.")
@click.option("--reason-code", type=click.Choice(REASONS), help="Parked for this reason.")
@click.option("--limit", type=click.IntRange(1, 10_000), help="At most so many; 1000 unless given.")
@click.option("--after", metavar="RUN_ID", help="Go on where the call before has stopped.")
@click.option("--no-compensate", is_flag=True, help="Of cancel: do not run the undos.")
@click.option("--name", help="Of signal: its name.")
@click.option("--value", type=JSON, default=None, help="Of signal: its value, as JSON; null unless given.")
@click.option("--id", "signal_id", help="Of signal: a run that has one with this id already is left alone.")
@click.option("--yes", is_flag=True, help="Do it; without this it is only told what would be done.")
@by_whom
def bulk(session: Session, verb: str, yes: bool, status: tuple[str, ...], **options: Any) -> None:
    """Do VERB to all runs that the filters name, each in a transaction of its own."""
    options |= {"status": status or None, "dry_run": not yes}
    session.check_saga(options["saga"])
    result = _signal(session, options) if verb == "signal" else _steer(session, verb, options)
    if session.out.as_json:
        session.out.document(bulk_document(result))
    else:
        _tell(session, result)
    if result.stopped is not None:
        raise Trouble(result.stopped.code, f"stopped at run {result.stopped.run_id}: {result.stopped.message}")
    if result.refused:
        first = result.refused[0]
        raise Trouble(first.code, f"refused for {counted(len(result.refused), 'run')}, first: {first.message}")


def _steer(session: Session, verb: str, options: dict[str, Any]) -> BulkResult:
    if any(options.pop(name) is not None for name in ("name", "value", "signal_id")):
        raise click.UsageError("--name, --value and --id belong to the verb signal.")
    skips_undos = options.pop("no_compensate")
    if skips_undos and verb != "cancel":
        raise click.UsageError("--no-compensate belongs to the verb cancel.")
    return session.saga.bulk(verb, compensate=not skips_undos, **options)


def _signal(session: Session, options: dict[str, Any]) -> BulkResult:
    name, signal_id = options.pop("name"), options.pop("signal_id")
    if name is None:
        raise click.UsageError("Give the signal's name: --name NAME.")
    if options.pop("no_compensate") or options.pop("reason_code") is not None:
        raise click.UsageError("--no-compensate and --reason-code do not go with the verb signal.")
    for word in ("reason", "by"):
        del options[word]
    return session.saga.bulk_signal(name, options.pop("value"), id=signal_id, **options)


def _tell(session: Session, result: BulkResult) -> None:
    done, refused = counted(len(result.done), "run"), len(result.refused)
    word = "would be done of" if result.dry_run else "done of"
    runs = {run.id: run for run in result.runs}
    if result.done:
        rows: list[Sequence[Cell | str]] = [_shown(runs[run_id]) for run_id in result.done]
        session.out.table(Table(("run", "saga", "key", "status" if result.dry_run else "was"), rows, least=("key",)))
    if refused:
        rows = [(each.run_id, _named(runs[each.run_id]), each.code, each.why) for each in result.refused]
        session.out.table(Table(("run", "saga:key", "code", "refused because"), rows))
    session.out.say(
        f"{result.verb}: {word} {done}, of {result.matched} that match; {len(result.unchanged)} unchanged, "
        f"{refused} refused"
    )
    if result.dry_run:
        session.out.say("nothing was changed: --yes does it")
    if result.next is not None:
        session.out.say(f"more: --after {result.next}")


def _shown(run: RunRecord) -> Sequence[Cell | str]:
    return run.id, run.saga, run.key or "", status(run.status.value)


def _named(run: RunRecord) -> str:
    return run.saga if run.key is None else f"{run.saga}:{run.key}"
