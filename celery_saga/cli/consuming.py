"""The command that takes signals and starts from the broker: `consume`."""

from __future__ import annotations

import logging

import click

from celery_saga.cli.session import Session, command
from celery_saga.runtime.consumer import run_consumer

__all__ = ["consume"]


@command("consume", short_help="Take signals and starts as plain JSON from a queue.")
@click.option(
    "--prefetch", type=click.IntRange(1, 1000), default=16, show_default=True, help="How many messages it may hold."
)
@click.option("--loglevel", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True)
def consume(session: Session, prefetch: int, loglevel: str) -> None:
    """Take messages of services that are not Python until SIGTERM or SIGINT. The setting saga_inbox names the queue."""
    logging.basicConfig(level=loglevel.upper(), format="[%(asctime)s: %(levelname)s/%(name)s] %(message)s")
    if not session.out.as_json:
        session.out.say(f"consuming {session.saga.services.settings.inbox!r} for the app {session.app.main!r}")
    run_consumer(session.app, prefetch=prefetch)
    if session.out.as_json:
        session.out.document({"consumed": True})
