"""The command that starts a run: `start`."""

from __future__ import annotations

from typing import Any

import click

from celery_saga.cli.arguments import INSTANT, JSON, NAMED_JSON, SECONDS
from celery_saga.cli.reading import show_run
from celery_saga.cli.session import Session, command
from celery_saga.client import documents

__all__ = ["given_arguments", "start"]


@command("start", short_help="Start a run.")
@click.argument("saga")
@click.option(
    "--arg", "named", type=NAMED_JSON, multiple=True, help="One argument by name, like --arg amount=5. Repeatable."
)
@click.option("--args", "given", type=JSON, help="All arguments: a JSON list by position, or an object by name.")
@click.option("--key", help="The run's key, instead of the one that the saga makes of its arguments.")
@click.option("--version", type=click.IntRange(min=1), help="Of the saga; the highest unless given.")
@click.option("--if-exists", type=click.Choice(["return", "raise", "restart_failed"]), help="When the key is taken.")
@click.option("--countdown", type=SECONDS, help="Seconds before its first step.")
@click.option("--eta", type=INSTANT, help="Instant before which it takes no step (ISO 8601, UTC without a zone).")
@click.option("--deadline", type=SECONDS, help="Seconds after which it fails, and is undone.")
@click.option("--priority", type=int, help="0 to 2097151, higher first.")
@click.option("--lane", metavar="NAME", help="What it queues in, instead of what the saga says.")
@click.option("--tag", "tags", multiple=True, help="To list runs by. Repeatable.")
@click.option("--wait", "wait_s", type=SECONDS, help="Wait so many seconds for the end, and fail with it.")
def start(
    session: Session,
    saga: str,
    named: tuple[tuple[str, Any], ...],
    given: Any,
    version: int | None,
    wait_s: float | None,
    **options: Any,
) -> None:
    """Start a run of SAGA, or find the one that its key names."""
    args, kwargs = given_arguments(given, dict(named))
    definition = session.named(saga, version)
    chosen = {name: value for name, value in options.items() if value is not None and value != ()}
    handle = (definition.options(**chosen) if chosen else definition).start(*args, **kwargs)
    if wait_s is not None:
        handle.wait(wait_s)
    record = session.engine.run_of(handle.id, purged=True)
    if session.out.as_json:
        session.out.document({**documents.run_document(record), "created": handle.created})
        return
    if not handle.created:
        left = "" if record.purged_at is None else ", of which only its key is left: it was purged"
        session.out.say(f"this run was there already{left}; nothing was started")
    show_run(session, record, session.store.now())


def given_arguments(given: Any, named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments by position and by name, of `--args` and `--arg`.

    Raises:
        UsageError: something else than a list or an object, or one of them twice.
    """
    if given is None:
        return (), named
    if isinstance(given, list):
        return tuple(given), named
    if not isinstance(given, dict):
        raise click.UsageError("--args takes a JSON list (by position) or object (by name).")
    twice = sorted(given.keys() & named.keys())
    if twice:
        raise click.UsageError(f"{', '.join(twice)} is given twice, by --args and by --arg.")
    return (), {**given, **named}
