"""Advances a run: reads it, decides outside any transaction, and writes the orders if nothing has moved meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from celery_saga.core import admission, failure, wakeup
from celery_saga.core import decision as decisions
from celery_saga.core.admission import is_gated
from celery_saga.core.advance import settle
from celery_saga.core.decision import Decision
from celery_saga.core.parking import park
from celery_saga.core.records import StepRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import Admission
from celery_saga.core.waits import tick, unseen
from celery_saga.engine.admission import pursue
from celery_saga.engine.children import attend
from celery_saga.engine.journal import tell_handed_back
from celery_saga.engine.ports import Loaded
from celery_saga.engine.world import World
from celery_saga.errors import PayloadUnreadable, SagaError

_TRIES = 3


class Moved(Exception):  # noqa: N818 - not an error: somebody else was first
    """The run has moved since it was read; nothing was written."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a decision is taken on: a snapshot, its time, and the token of a careful advance."""

    snapshot: Snapshot
    now: datetime
    token: str | None = None
    read_s: float = 0.0  # when that was, on the monotonic clock

    def about_now(self, world: World) -> datetime:
        """About the time that the database has now."""
        return self.now + timedelta(seconds=world.monotonic_s() - self.read_s)


Live = Callable[[Reading], bool]
"""Decides and writes instead, executing steps as it goes. False: it did nothing; it raises Moved as writing does."""


def coordinate(world: World, run_id: str, live: Live | None = None) -> None:
    """Decide a run and write what follows. Harmless when there is nothing to decide, or when somebody else does it too.

    Optimistic: the decision is written only if the run's version is the one it was taken on. After losing three times
    it is taken under the run's lock, so that a busy run cannot starve.
    """
    with suppress(PayloadUnreadable):  # it is parked
        _coordinate(world, run_id, live)


def _coordinate(world: World, run_id: str, live: Live | None) -> None:
    token: str | None = None
    for _ in range(_TRIES):
        reading = _read(world, run_id, token)
        if reading is None:
            return
        if live is not None and reading.token is None:
            try:
                if live(reading):
                    return
            except Moved:
                continue
        decided = world.definitions.decide(reading.snapshot, reading.now)
        if decided is None:
            _hand_back(world, reading)
            return
        try:
            _write(world, reading, decided)
        except Moved:
            token = reading.token
            continue
        return
    _decide_under_lock(world, run_id)


def _read(world: World, run_id: str, token: str | None) -> Reading | None:
    """The run as it is to be decided; None where there is nothing to decide, or not now, or not here.

    Args:
        token: of the careful advance that this process has begun; None: of none.
    """

    def enlist(s: Snapshot, now: datetime) -> Snapshot:
        return admission.enlist(world.look(s, now), now, world.resend_s)

    loaded = world.store.load(run_id)
    if loaded is not None and loaded.unreadable is not None:
        raise world.refused(run_id, loaded.unreadable)
    if loaded is None or (loaded.snapshot.run.parent_id is not None and attend(world, loaded.snapshot.run)):
        return None
    s, now = loaded.snapshot, loaded.now
    if not s.is_live:
        return None
    if s.run.admission == Admission.ASKED:
        pursue(world, run_id)
    if _has_news(world, loaded):
        event = world.whole(enlist if loaded.is_held_back else world.look, settled=True)
        transition = world.transact(run_id, event)
        if transition is None:
            return None
        s, now = transition.new, transition.now
        world.follow(transition, decides=_may_decide(s, now))
    if not _may_decide(s, now):
        return None
    if is_careful(s) and (s.run.saga, s.run.version) in set(world.definitions.known()):
        return _take(world, run_id, token or world.token())
    return Reading(s, now, read_s=world.monotonic_s())


def _may_decide(s: Snapshot, now: datetime) -> bool:
    return is_to_be_decided(s, now) and not is_gated(s.run)


def _has_news(world: World, loaded: Loaded) -> bool:
    """Something is to be written before the run can be decided."""
    s = loaded.snapshot
    if not s.run.status.is_forward or loaded.is_held_back or s.run.admission == Admission.OUT:
        return True
    return tick(s, loaded.now, world.resend_s) is not s or any(unseen(x) for x in s.inbox)


def is_to_be_decided(s: Snapshot, now: datetime) -> bool:
    """The body still decides, and its delay or back-off is over."""
    run = s.run
    return run.status.is_forward and (run.not_before_at is None or run.not_before_at <= now)


def is_careful(s: Snapshot) -> bool:
    """An attempt was lost, or a wake-up had to be repeated: the body may be what kills its process."""
    return s.run.sends > 1 or s.run.stalls > 0 or any(x.stalls and not _is_passed(s, x) for x in s.steps.values())


def _is_passed(s: Snapshot, step: StepRecord) -> bool:
    """The body has gone on since this step: something was ordered after it in its scope."""
    if step.join_key is not None:
        return False
    return any(x.scope == step.scope and x.ordinal > step.ordinal for x in s.steps.values())


def _take(world: World, run_id: str, token: str) -> Reading | None:
    """A counted claim on the run before its body is executed; parks the run once too many of them ended unseen.

    Under a token that holds the run already it is prolonged and not counted: this process came too late with its
    decision, which is no stall, and must not be kept out by its own claim until the lease ends.
    """

    def claim(s: Snapshot, now: datetime) -> Snapshot:
        run = s.run
        is_mine = run.claim_token == token
        is_held = run.claim_token is not None and run.lease_until is not None and run.lease_until > now
        if not run.status.is_forward or (is_held and not is_mine):
            return s
        if run.stalls > world.limits.max_stalls and not is_mine:
            hung = SagaError(
                f"run {run.id!r}: its body killed or hung its process {run.stalls} times; nothing was undone. "
                "Fix it, then resume the run."
            )
            return park(s, now, "stalled", detail=str(hung), error_text=failure.to_text(failure.capture(hung)))
        until = now + timedelta(seconds=world.limits.lease_s)
        stalls = run.stalls if is_mine else run.stalls + 1
        return s.with_run(stalls=stalls, claim_token=token, lease_until=until, wake_at=until)

    transition = world.change(run_id, claim)
    if transition is None or transition.new.run.claim_token != token:
        return None
    return Reading(transition.new, transition.now, token, world.monotonic_s())


def _write(world: World, reading: Reading, decided: Decision) -> None:
    """Write a decision in one transaction, then publish.

    Raises:
        Moved: the run is no longer as it was read; nothing was written.
    """
    version = reading.snapshot.run.state_version

    def change(s: Snapshot, now: datetime) -> Snapshot:
        if s.run.state_version != version or tick(s, now, world.resend_s) is not s:
            raise Moved
        return written(world, s, decided, now)

    basis, at = reading.snapshot, reading.about_now(world)
    world.follow(world.transact(basis.run.id, change, basis=basis, at=at, is_blind=False))


def written(world: World, s: Snapshot, decided: Decision, now: datetime) -> Snapshot:
    """The snapshot after a decision and all that follows from it; the same one where it says nothing new."""
    new = settle(
        decisions.apply(s, decided, now, world.resend_s, jitter=world.draw(), at_once=world.limits.at_once),
        now,
        world.resend_s,
    )
    return s if new == s else new


def _decide_under_lock(world: World, run_id: str) -> None:
    def change(s: Snapshot, now: datetime) -> Snapshot:
        s = world.look(tick(s, now, world.resend_s), now)
        if not _may_decide(s, now):
            return settle(s, now, world.resend_s)
        decided = world.definitions.decide(s, now)
        return s if decided is None else written(world, s, decided, now)

    transition = world.transact(run_id, change)
    world.follow(transition)


def _hand_back(world: World, reading: Reading) -> None:
    """This process does not know the saga's version: another one shall try, soon, then less and less often."""
    tell_handed_back(reading.snapshot.run, world.monotonic_s())
    delay_s = wakeup.offered_again_s(max(0, reading.snapshot.run.sends - 1), world.draw())
    world.store.put_off_run(reading.snapshot.run, delay_s=delay_s)
