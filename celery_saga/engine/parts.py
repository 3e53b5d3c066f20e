"""Decides one part of a join: claimed like a step, passed over outside any transaction, checked in once.

Only the part's own records and those around it are read, so that item 10,000 of a map costs what item 100 does.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from celery_saga.core import decision as decisions
from celery_saga.core import wakeup
from celery_saga.core.advance import settle
from celery_saga.core.attempts import Fenced
from celery_saga.core.decision import Decision
from celery_saga.core.focus import Focus, Incomplete, focus_of, region_of
from celery_saga.core.ports import Claimed
from celery_saga.core.replacing import replace
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepEvent, StepStatus
from celery_saga.core.waits import tick
from celery_saga.engine.journal import tell_handed_back
from celery_saga.engine.world import World
from celery_saga.errors import PayloadUnreadable

Basis = frozenset[tuple[str, int | None, str | None]]
"""What a decision over a part rests on: the steps it saw, and which of them had ended with what."""


def coordinate_part(world: World, run_id: str, generation: int, key: str, *, owner: str) -> None:
    """Decide a part and write what follows. Harmless when it is not there to be decided, or somebody else does it.

    Args:
        key: of the part.
        owner: `host:pid` of the process that decides.
    """
    with suppress(PayloadUnreadable):  # the run is parked
        claimed = claim_part(world, run_id, generation, key, owner=owner)
        if claimed is not None:
            decide_part(world, claimed)


def claim_part(world: World, run_id: str, generation: int, key: str, *, owner: str) -> Claimed | None:
    """Take a part that is to be decided, as of `coordinate_part`; None: it is not there to be taken."""
    token, lease_s = world.token(), world.limits.lease_s
    try:
        return world.store.claim(
            run_id, generation, key, token=token, owner=owner, lease_s=lease_s, focus=focus_of(key)
        )
    except PayloadUnreadable as error:
        world.park_unreadable(run_id, error)
        raise


def decide_part(world: World, claimed: Claimed) -> bool:
    """Decide a claimed part and write what follows; False: the claim is no longer ours, nothing was written."""
    key, s, now = claimed.step.key, claimed.snapshot, claimed.now
    try:
        decided = world.definitions.decide(s, now, region=region_of(key))
    except Incomplete:
        loaded = world.store.load(claimed.step.run_id)
        if loaded is None:
            return False
        if loaded.unreadable is not None:
            raise world.refused(claimed.step.run_id, loaded.unreadable) from None
        s, now = loaded.snapshot, loaded.now
        decided = world.definitions.decide(s, now, region=region_of(key))
    return _check_in(world, claimed, decided, basis_of(s, key))


def basis_of(s: Snapshot, *without: str) -> Basis:
    """What a decision over the region of these steps rests on, themselves left out."""
    region = region_of(without[0])
    around = focus_of(without[0]) or Focus(("",))
    seen = [x for x in s.steps.values() if x.key not in without]
    return frozenset(
        (x.key, x.seq, x.error_text if x.status.is_end else None)
        for x in seen
        if not x.folded and (region_of(x.key) in around.regions or region_of(x.key).startswith(region))
    )


def _check_in(world: World, claimed: Claimed, decided: Decision | None, basis: Basis) -> bool:
    """Write what was decided, if it still holds; else the part is to be decided again."""
    key, token, run = claimed.step.key, claimed.step.claim_token, claimed.snapshot.run

    def change(s: Snapshot, now: datetime) -> Snapshot:
        part = s.steps.get(key)
        if part is None or part.claim_token != token or part.status is not StepStatus.RUNNING:
            raise Fenced(key)
        new = tick(s, now, world.resend_s)
        part = new.steps[key]
        if part.status is not StepStatus.RUNNING:
            return settle(new, now, world.resend_s)
        if decided is None or not new.run.status.is_forward or basis_of(s, key) != basis:
            is_handed_back = decided is None
            delay_s = wakeup.offered_again_s(part.failures, world.draw()) if is_handed_back else 0.0
            new = new.move_step(key, StepEvent.RETRIED, claim_token=None)
            again = replace(new.steps[key], sends=0, failures=part.failures + is_handed_back)
            new = new.with_step(wakeup.scheduled(again, now, world.resend_s, delay_s))
        else:
            new = decisions.apply_to_part(new, decided, now, world.resend_s)
        return settle(new, now, world.resend_s)

    try:
        transition = world.transact(run.id, change, focus=focus_of(key))
    except Fenced:
        return False
    if decided is None:
        tell_handed_back(run, world.monotonic_s())
    world.follow(transition)
    return transition is not None
