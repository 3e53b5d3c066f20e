"""The command that seals payloads anew: `reencrypt`."""

from __future__ import annotations

import shlex
from typing import Any

import click

from celery_saga.cli.arguments import JSON
from celery_saga.cli.session import Session, command
from celery_saga.cli.tables import counted
from celery_saga.client import documents
from celery_saga.errors import InvalidPayload, PayloadUnreadable
from celery_saga.store.resealing import Resealed, reseal, tables_to_reseal

__all__ = ["reencrypt"]


@command("reencrypt", rows=True, short_help="Seal all stored payloads anew, under the codec's present key.")
@click.option("--batch", default=200, show_default=True, type=click.IntRange(1, 10_000), help="Rows in a transaction.")
@click.option("--after", type=JSON, default=None, help="Go on behind this place, as told by a call that was cut off.")
def reencrypt(session: Session, batch: int, after: Any) -> None:
    """Read each stored payload, and write it again as saga_codec seals it now. Runs go on meanwhile.

    A line for each batch tells the place to go on from. Called again it does all of it again, which harms nothing.
    Ends with 1 where something cannot be read: the keys that it needs must be kept.
    """
    tables = tables_to_reseal(session.own_store)
    place = None
    if after is not None:
        if not isinstance(after, list) or len(after) < 2 or after[0] not in tables:
            raise InvalidPayload(f"--after is no place that `reencrypt` tells, got {after!r}; nothing was written")
        tables, place = tables[tables.index(after[0]) :], tuple(after[1:])
    unreadable = 0
    for table in tables:
        while True:
            done = reseal(session.own_store, table, place, limit=batch)
            place = done.after
            unreadable += done.unreadable
            _tell(session, table, done)
            if place is None:
                break
    if unreadable:
        raise PayloadUnreadable(
            f"{counted(unreadable, 'text')} cannot be read now, and nothing of that was changed; keep every key until "
            "this ends with 0"
        )


def _tell(session: Session, table: str, done: Resealed) -> None:
    place = None if done.after is None else [table, *done.after]
    if session.out.as_json:
        document = {"table": table, "texts": done.texts, "unreadable": done.unreadable, "after": place}
        session.out.line(document)
    elif place is not None or done.texts or done.unreadable:
        bad = f", {done.unreadable} cannot be read" if done.unreadable else ""
        where = "; through" if place is None else f"; go on by --after {shlex.quote(documents.text(place))}"
        session.out.say(f"{table}: {done.texts} sealed{bad}{where}")
