"""The command that makes or updates the tables: `migrate`."""

from __future__ import annotations

from typing import Any

import click

from celery_saga.cli.diagnostics import Trouble
from celery_saga.cli.session import Session, command
from celery_saga.store import migrations

__all__ = ["migrate"]


@command("migrate", short_help="Create or update the saga tables.")
@click.option("--check", "only_check", is_flag=True, help="Change nothing; fail where something is to be done.")
@click.option("--phase", type=click.Choice(["pre", "post"]), help="Only what goes before, or after, the deploy.")
def migrate(session: Session, only_check: bool, phase: Any) -> None:
    """Create or update the saga tables. Running it again changes nothing."""
    store = session.own_store
    applied = [] if only_check else migrations.migrate(store, phase=phase)
    state, pending = migrations.schema_state(store), migrations.pending(store)
    if session.out.as_json:
        session.out.document({"state": state, "applied": applied, "pending": pending})
    else:
        for label in applied:
            session.out.say(f"applied {label}")
        session.out.say(f"the tables are {state}" + (f"; to be applied: {', '.join(pending)}" if pending else ""))
    if only_check and (state in {"absent", "outdated"} or pending):
        what = ", ".join(pending)
        raise Trouble("SCHEMA_OUTDATED", f"the saga tables are {state}; `saga migrate` would apply {what}")
