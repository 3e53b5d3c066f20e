"""All that is stored of a run, as values that JSON can write."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields, replace
from datetime import datetime
from enum import Enum
from typing import Any

from celery_saga.core.ports import Store
from celery_saga.core.records import HistoryRecord, RunRecord, SignalRecord, StepRecord
from celery_saga.core.unreadable import opened
from celery_saga.engine.world import refuse_purged

__all__ = ["FORMAT", "SECRET", "document", "exported", "plain"]

FORMAT = "celery_saga/1"
"""What a document says of itself, so that a later version can tell what it reads."""

SECRET = frozenset({"claim_token"})
"""Fields that no document shows: who knows them could write for the attempt."""

_LOOKS = 5


def exported(store: Store, run_id: str) -> dict[str, Any] | None:
    """The document of a run; None: there is no such run.

    Its parts are of one moment, unless the run moves on faster than it can be read.

    Raises:
        ResultPurged: only its key is left.
    """
    for _ in range(_LOOKS):
        loaded = store.load(run_id)
        if loaded is None:
            return None
        run = loaded.snapshot.run
        refuse_purged(run)
        found = document(run, store.steps(run_id, all_generations=True), store.history(run_id), store.signals(run_id))
        again = store.load(run_id)
        if again is not None and again.snapshot.run == run:
            break
    return found


def document(
    run: RunRecord, steps: Iterable[StepRecord], history: Iterable[HistoryRecord], signals: Iterable[SignalRecord]
) -> dict[str, Any]:
    """A run with everything that belongs to it: `format`, `run`, `steps`, `history` and `signals`.

    A signal's `id` is its place in the order of arrival, from 1.
    """
    return {
        "format": FORMAT,
        "run": plain(run),
        "steps": [plain(x) for x in steps],
        "history": [plain(x) for x in history],
        "signals": [plain(replace(x, id=place)) for place, x in enumerate(signals, start=1)],
    }


def plain(record: RunRecord | StepRecord | HistoryRecord | SignalRecord) -> dict[str, Any]:
    """A record as JSON values: instants as ISO 8601, stored texts as what they hold, tags of the codec included.

    Raises:
        PayloadUnreadable: a stored text cannot be read now.
    """
    values: dict[str, Any] = {}
    for field in fields(record):
        if field.name in SECRET:
            continue
        value = getattr(record, field.name)
        if field.name.endswith("_text"):
            values[field.name.removesuffix("_text")] = None if value is None else json.loads(opened(value))
        elif isinstance(value, datetime):
            values[field.name] = value.isoformat()
        else:
            values[field.name] = value.value if isinstance(value, Enum) else value
    return values
