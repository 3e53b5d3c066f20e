"""An engine that only looks: each verb tells what it would do, or raises as it would, and writes nothing."""

from __future__ import annotations

from dataclasses import fields

from celery_saga.core.focus import Extent, Focus
from celery_saga.core.ports import Transition
from celery_saga.engine.engine import Engine
from celery_saga.engine.world import Event, World, cannot_be_read

__all__ = ["looking"]


class _Onlooker(World):
    """A world in which nothing is committed, and so nothing follows."""

    def change(
        self,
        run_id: str,
        event: Event,
        *,
        settled: bool = False,
        focus: Focus | None = None,
        as_stored: bool = False,
    ) -> Transition | None:
        """The transition as it would be now."""
        loaded = self.store.load(run_id, extent=Extent.ALL)
        if loaded is None:
            return None
        if loaded.unreadable is not None and not as_stored:
            raise cannot_be_read(run_id, loaded.unreadable)
        old = loaded.snapshot
        return Transition(old, self.whole(event, settled=settled)(old, loaded.now), loaded.now)


def looking(engine: Engine) -> Engine:
    """The same engine for operators' verbs that are only tried: `cancel` to `resolve_undo`.

    What it says is what would be at this moment: nothing is locked.
    """
    # Not of its own type: an engine that passes calls on to another one would let that act.
    made = object.__new__(Engine)
    made.__dict__.update(engine.__dict__)
    made.world = _Onlooker(**{field.name: getattr(engine.world, field.name) for field in fields(World)})
    return made
