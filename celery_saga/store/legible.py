"""Whether this process can read what the others write: what a check asks before a wrong key meets a run."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Text, select, type_coerce

from celery_saga.core.status import RunStatus
from celery_saga.core.unreadable import Unreadable
from celery_saga.store.session import Tx
from celery_saga.store.sql_store import SqlStore

__all__ = ["Legible", "legible"]

_LIVE = tuple(status for status in RunStatus if not status.is_end)


@dataclass(frozen=True, slots=True)
class Legible:
    """What was looked at.

    Args:
        looked: how many live runs.
        unreadable: of how many of them a text cannot be read here.
        why: what is wrong with the first of these, in a few words that hold nothing of the text.
    """

    looked: int
    unreadable: int = 0
    why: str = ""


def legible(store: SqlStore, *, each: int = 4) -> Legible:
    """Open one short text of the latest live runs, `each` of every status. Takes no lock, writes nothing.

    Raises:
        StoreUnavailable: the database, or the codec, is out of reach.
        SchemaOutdated: there are no tables yet.
    """
    run = store.schema.run
    digest = type_coerce(run.c.input_digest, Text)  # as it is stored

    def work(tx: Tx) -> list[str]:
        found: list[str] = []
        for status in _LIVE:
            latest = select(digest).where(run.c.status == status.value).order_by(run.c.created_at.desc()).limit(each)
            found += tx.run("look what can be read", latest).scalars()
        return found

    raws = store.sessions.read("legible", work)
    bad = [text for text in map(store.vault.opened, raws) if isinstance(text, Unreadable)]
    return Legible(len(raws), len(bad), bad[0].why if bad else "")
