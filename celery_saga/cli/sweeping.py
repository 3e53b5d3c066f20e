"""The command that sweeps without a worker: `sweeper`."""

from __future__ import annotations

import logging

import click

from celery_saga.cli.session import Session, command
from celery_saga.runtime.app import run_sweeper
from celery_saga.store import migrations

__all__ = ["sweeper"]


@command("sweeper", short_help="Wake due runs from a process of its own, without a worker.")
@click.option("--loglevel", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True)
def sweeper(session: Session, loglevel: str) -> None:
    """Wake due runs until SIGTERM or SIGINT. For deployments whose workers run with --no-saga-sweeper."""
    logging.basicConfig(level=loglevel.upper(), format="[%(asctime)s: %(levelname)s/%(name)s] %(message)s")
    # Told now rather than over and over by the loop, which survives every error.
    session.engine.store.live_versions()
    if not session.out.as_json:
        session.out.say(f"sweeping for the app {session.app.main!r}; tables: {migrations.schema_state(session.store)}")
    run_sweeper(session.app)
    if session.out.as_json:
        session.out.document({"swept": True})
