"""Between a parent and its child: what the parent wants is read and done, and the child's end is brought back.

Each of the two writes in a transaction of its own, and each can be repeated; whoever dies in between is followed by
the sweeper, for the one that has something to say keeps a wake-up until it has been heard.
"""

from __future__ import annotations

from celery_saga.core.child_ends import Wish, may_obey, obey, report, reported, wish_of
from celery_saga.core.children import focus_of_child
from celery_saga.core.focus import Extent, Incomplete
from celery_saga.core.records import RunRecord
from celery_saga.engine.world import World


def attend(world: World, run: RunRecord) -> bool:
    """Do what the parent of this run wants of it, and tell the parent how it ended.

    Returns:
        Whether the run was changed; what was read of it is then old.
    """
    wish = _wish(world, run)
    if may_obey(run, wish):
        done = world.change(run.id, lambda s, now: obey(s, wish, now, world.resend_s))
        if done is not None and done.new is not done.old:
            return True
    if not run.status.is_end or (run.wake_at is None and wish is not Wish.UNDO):
        return False
    focus = focus_of_child(run.parent_key or "")
    world.change(run.parent_id or "", lambda s, now: report(s, run, now, world.resend_s), focus=focus)
    if run.wake_at is not None:
        world.change(run.id, lambda s, now: reported(s, run))
    return True


def _wish(world: World, run: RunRecord) -> Wish:
    """What the parent wants, read without a lock: a child of thousands reads a few rows."""
    parent_id = run.parent_id or ""
    loaded = world.store.load(parent_id, focus=focus_of_child(run.parent_key or ""))
    if loaded is None:
        return Wish.NOTHING
    if loaded.unreadable is not None:
        raise world.refused(parent_id, loaded.unreadable)
    try:
        return wish_of(loaded.snapshot, run)
    except Incomplete:
        loaded = world.store.load(parent_id, extent=Extent.ALL)
    return Wish.NOTHING if loaded is None else wish_of(loaded.snapshot, run)
