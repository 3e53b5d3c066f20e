"""The command for a broker that has lost its messages: `redispatch`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import click

from celery_saga.cli.diagnostics import Trouble
from celery_saga.cli.session import Session, command
from celery_saga.cli.tables import Cell, Table, ago, counted
from celery_saga.client.documents import redispatch_document

__all__ = ["redispatch"]


@command("redispatch", short_help="Send lost wake-ups again, after the broker has lost its messages.")
@click.option("--dry-run", is_flag=True, help="Only tell what would be sent.")
@click.option("--saga", metavar="NAME", help="Only wake-ups of this saga.")
@click.option("--queue", metavar="QUEUE", help="Only those that go to this queue.")
@click.option("--again", is_flag=True, help="Also what was redispatched within the last saga_lease.")
def redispatch(session: Session, dry_run: bool, saga: str | None, queue: str | None, again: bool) -> None:
    """Send every wake-up again that runs and steps still wait for, each once; claimed steps are left alone."""
    session.check_saga(saga)
    result = session.saga.redispatch(dry_run, saga=saga, queue=queue, again=again)
    if session.out.as_json:
        session.out.document(redispatch_document(result))
    else:
        now = session.store.now()
        rows: list[Sequence[Cell | str]] = [
            (
                each.run_id,
                each.saga,
                each.key or "",
                each.step or "(the run)",
                each.queue or "",
                "" if each.last_sent_at is None else ago(each.last_sent_at, now),
            )
            for each in result.wake_ups
        ]
        if rows:
            session.out.table(Table(("run", "saga", "key", "step", "queue", "last sent"), rows, least=("key",)))
        queues = Counter(each.queue or "?" for each in result.wake_ups)
        to = ", ".join(f"{count} to {name}" for name, count in sorted(queues.items()))
        told = "would be sent again" if dry_run else "sent again"
        session.out.say(f"{counted(len(result.wake_ups), 'wake-up')} {told}" + (f": {to}" if to else ""))
    if result.unsent:
        raise Trouble(
            "BROKER_UNAVAILABLE",
            f"the broker took no more, {counted(result.unsent, 'wake-up')} of a batch went back to the sweepers; "
            "redispatch again once it is there",
        )
