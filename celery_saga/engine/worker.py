"""An attempt of a step: claimed with a fresh token, renewed while it runs, checked in once."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from celery_saga.core import attempts, failure, pivot
from celery_saga.core import decision as decisions
from celery_saga.core.advance import settle
from celery_saga.core.attempts import Failed, Fenced, Outcome
from celery_saga.core.decision import Decision
from celery_saga.core.focus import Extent, Focus, Incomplete, focus_of, part_of, region_of
from celery_saga.core.placing import AT_ONCE
from celery_saga.core.ports import Change, Claimed
from celery_saga.core.records import RunRecord, StepKind, StepRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepStatus
from celery_saga.core.waits import tick
from celery_saga.engine.coordinator import is_careful
from celery_saga.engine.limits import pause_s, wait_for_limit
from celery_saga.engine.parts import basis_of
from celery_saga.engine.ports import Transition
from celery_saga.engine.world import World
from celery_saga.errors import DefinitionError, PayloadUnreadable, RateLimited, SagaError, StoreUnavailable

_PATIENCE_S = 3600.0
_LONGEST_PAUSE_S = 5.0
_ORDERED_BLINDLY = AT_ONCE | {StepKind.STEP, StepKind.TIMER}


def claim(
    world: World, run_id: str, generation: int, key: str, *, owner: str, timeout_s: float | None = None
) -> Claimed | None:
    """Take the next attempt of a step; None: it is done, running, not due, gone, or unreadable, which parks its run.

    Args:
        owner: `host:pid` of the process that executes it.
        timeout_s: how long the attempt may take, in seconds: its lease is no longer; None: until it is not renewed.
    """
    lease_s = _no_longer_than(timeout_s, world.limits.lease_s)
    focus = _focus_of(key)
    token = world.token()
    try:
        return world.store.claim(run_id, generation, key, token=token, owner=owner, lease_s=lease_s, focus=focus)
    except PayloadUnreadable as error:
        world.park_unreadable(run_id, error)
        return None


def _focus_of(key: str) -> Focus | None:
    """A part that is one task, and its undo, is followed by no pass: only its join is looked at."""
    return focus_of(key, deciding=not key.removesuffix("!undo").endswith("]"))


def renew(world: World, claimed: Claimed, *, left_s: float | None = None) -> RunRecord | None:
    """Prolong the lease of an attempt; None: it is no longer ours. The run's `outcome` tells whether it shall stop.

    Args:
        left_s: seconds until its time-out; the lease goes no further. None: it has none.
    """
    step, lease_s = claimed.step, _no_longer_than(left_s, world.limits.lease_s)
    return world.store.renew(step.run_id, step.generation, step.key, token=step.claim_token or "", lease_s=lease_s)


def is_abandoned(world: World, claimed: Claimed) -> bool:
    """Nobody waits for this attempt any more: the join that it is a part of is over, or the part that it lies in is."""
    step = claimed.step
    region = region_of(step.key)
    if not region or step.kind is StepKind.UNDO:
        return False
    status = world.store.status_of(step.run_id, step.generation, step.join_key or part_of(region))
    return status is None or status.is_end


def _no_longer_than(bound_s: float | None, lease_s: float) -> float:
    return lease_s if bound_s is None else min(lease_s, max(0.0, bound_s))


def failed(
    world: World, claimed: Claimed, exc: BaseException, *, own_delay_s: float | None, maybe: bool = False
) -> Failed:
    """What an exception means for the step: when it is tried again, if at all.

    Args:
        own_delay_s: seconds after which the task itself asked to be tried again; None: it did not, or gave up.
        maybe: its effect may exist although it raised.
    """
    if isinstance(exc, RateLimited) and not maybe:
        try:
            wait_s = pause_s(exc)
        except DefinitionError as wrong:
            exc = wrong
        else:
            wait_for_limit(world, claimed.snapshot.run, wait_s)
            return Failed(failure.capture(exc), wait_s, is_put_back=True)
    error = failure.capture(exc)
    jitter = world.draw()
    delay_s = None if maybe else attempts.delay_s(claimed.step, error, own=own_delay_s, jitter=jitter)
    if delay_s is None:
        delay_s = pivot.again_s(claimed.snapshot, claimed.step, error, jitter)
    return Failed(error, delay_s, maybe)


def check_in(world: World, claimed: Claimed, outcome: Outcome, *, elapsed_s: float = 0.0) -> bool:
    """Checkpoint an attempt, and with it, where nothing has moved since the claim, what the body decides next.

    The decision is taken before the transaction, on the records read at the claim plus this outcome. Tries again until
    the checkpoint lands or is refused. Where the codec refuses what the body has decided, the checkpoint lands without
    that: what is done is not to be lost for what is to be done.

    Returns:
        False: the claim is no longer ours, or something of the run cannot be read; nothing was written.
    Raises:
        StoreUnavailable: the database stayed out of reach for an hour; nothing was written, the lease will end.
        SagaError: the codec refuses the checkpoint itself; nothing was written.
    """
    decided = _decide(world, claimed, outcome, elapsed_s)
    try:
        return _check_in(world, claimed, outcome, decided, elapsed_s)
    except SagaError as error:
        if decided is None or isinstance(error, StoreUnavailable):
            raise
    return _check_in(world, claimed, outcome, None, elapsed_s)


def _check_in(world: World, claimed: Claimed, outcome: Outcome, decided: Decision | None, elapsed_s: float) -> bool:
    step = claimed.step

    def change(s: Snapshot, now: datetime) -> Snapshot:
        ticked = tick(s, now, world.resend_s)
        new = attempts.check_in(ticked, step.key, step.claim_token or "", outcome, now, world.resend_s)
        if new is s:
            return s
        if decided is not None and ticked is s:
            new = _followed(world, claimed, s, new, decided, now)
        return settle(new, now, world.resend_s)

    try:
        at = claimed.now + timedelta(seconds=elapsed_s)
        has_all = decided is not None and not decided.region and claimed.snapshot.extent is not Extent.PART
        how: dict[str, Any] = {"basis": claimed.snapshot if has_all else None, "is_blind": _is_blind(claimed, decided)}
        transition = land(world, step, change, focus=_focus_of(step.key), at=at, **how)
    except (Fenced, PayloadUnreadable):  # of an unreadable run nothing can be written: it is parked
        return False
    if transition is None:
        return False
    world.follow(transition)
    return True


def _is_blind(claimed: Claimed, decided: Decision | None) -> bool:
    """Nothing but the attempt and what it orders is touched.

    Signals come without moving the run: where the body now waits for one, or has ended, the inbox counts.
    """
    if decided is None or decided.end is not None or claimed.snapshot.run.admission:
        return False
    return all(order.kind in _ORDERED_BLINDLY for order in decided.orders)


def _followed(world: World, claimed: Claimed, s: Snapshot, new: Snapshot, decided: Decision, now: datetime) -> Snapshot:
    """With the decision that was taken at the claim, where it still holds; else the wake-up stays that leads to one."""
    if not decided.region:
        if s.run.state_version != claimed.snapshot.run.state_version:
            return new
        return decisions.apply(new, decided, now, world.resend_s, jitter=world.draw(), at_once=world.limits.at_once)
    part = part_of(decided.region)
    before = s.steps.get(part)
    key = claimed.step.key
    if before is None or before.status is not StepStatus.WAITING or not new.run.status.is_forward:
        return new
    if basis_of(s, key, part) != basis_of(claimed.snapshot, key, part):
        return new
    # The decision takes the place of the wake-up that the part has just got.
    return decisions.apply_to_part(new.with_step(before), decided, now, world.resend_s)


def land(
    world: World,
    step: StepRecord,
    change: Change,
    *,
    focus: Focus | None = None,
    basis: Snapshot | None = None,
    at: datetime | None = None,
    is_blind: bool = True,
) -> Transition | None:
    """The transaction, again and again while the database is out of reach; what else it takes is as of the store.

    Raises:
        StoreUnavailable: it stayed out of reach for an hour; nothing was written.
    """
    begun_s, pause_s = world.monotonic_s(), 0.1
    while True:
        try:
            return world.transact(step.run_id, change, focus=focus, basis=basis, at=at, is_blind=is_blind)
        except StoreUnavailable:
            if world.monotonic_s() - begun_s > _PATIENCE_S:
                raise
        world.pause(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


def _decide(world: World, claimed: Claimed, outcome: Outcome, elapsed_s: float) -> Decision | None:
    """What the body decides once this outcome is in; None where that is left to the coordinator."""
    s, step = claimed.snapshot, claimed.step
    if step.kind is not StepKind.STEP or not s.run.status.is_forward or is_careful(s) or step.stalls:
        return None
    if step.join_key is not None:
        return None
    now = claimed.now + timedelta(seconds=elapsed_s)
    try:
        if tick(s, now, world.resend_s) is not s:
            return None
        after = attempts.check_in(s, step.key, step.claim_token or "", outcome, now, world.resend_s)
        if not after.steps[step.key].status.is_end:
            return None
        decided = world.definitions.decide(settle(after, now, world.resend_s), now, region=region_of(step.key))
    except Incomplete:
        return None
    if decided is not None and any(world.is_inline(s.run, order) for order in decided.orders):
        return None  # the coordinator executes it
    return decided


def end_attempt(
    world: World,
    run_id: str,
    key: str,
    token: str | None,
    *,
    limit_s: float | None = None,
    ended: bool = True,
) -> bool:
    """End an attempt that nobody will check in: its process died, a limit killed it, or its lease is over.

    Args:
        token: of the attempt; None: whichever is running.
        limit_s: the time limit, in seconds, that killed it.
        ended: it is known to be dead; False: only an expired lease counts.
    Returns:
        Whether something was written.
    """

    def lost(s: Snapshot, now: datetime) -> Snapshot:
        step = s.steps.get(key)
        if step is None or (token is not None and step.claim_token != token):
            return s
        mine = step.claim_token or ""
        return attempts.lose(
            s,
            key,
            mine,
            now,
            max_stalls=world.limits.max_stalls,
            resend_s=world.resend_s,
            jitter=world.draw(),
            timeout_s=world.limits.step_timeout_s,
            ended=ended,
            limit_s=limit_s,
        )

    try:
        transition = world.change(run_id, lost)
    except PayloadUnreadable:  # the run is parked; resumed, it ends this attempt
        return False
    return transition is not None and transition.new is not transition.old
