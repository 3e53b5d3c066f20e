"""What is wrong with the runs of an app, as far as its database tells."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from celery_saga.core.records import RunRecord
from celery_saga.definition.registry import Registry
from celery_saga.runtime.sweeper import ALIVE_S
from celery_saga.store import SqlStore

__all__ = ["examined"]


def examined(store: SqlStore, registry: Registry, attention: Iterable[RunRecord]) -> dict[str, Any]:
    """See `CelerySaga.doctor`.

    Args:
        attention: the runs that wait for a person.
    """
    sweepers = store.sweepers()
    alive = [each for each in sweepers if each["silent_s"] < ALIVE_S]
    # Who asks need not be who works: an operator's process has the newest code, the workers may not.
    known = {(str(name), int(version)) for each in alive for name, version in each["sagas"]}
    if not alive:
        known.update(registry.known())
    return {
        "without_wake_up": store.without_wake_up(),
        "attention": list(attention),
        "unknown_versions": [
            (name, version, count)
            for name, version, count in store.live_versions()
            # A graph that is stored is found by every worker.
            if (name, version) not in known and store.definition(name, version) is None
        ],
        "sweepers": sweepers,
    }
