"""A signal: written into the inbox first, then offered to the open waits under the run's lock."""

from __future__ import annotations

from collections.abc import Iterable

from celery_saga.core import wakeup
from celery_saga.core.orders import RunSpec
from celery_saga.core.ports import Loaded
from celery_saga.core.records import SignalRecord
from celery_saga.core.replacing import replace
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.waits import is_over
from celery_saga.engine.world import World, cannot_be_read
from celery_saga.errors import PayloadUnreadable, RunNotFound, SignalDuplicate, SignalExpired, SignalNotExpected


def signal(
    world: World,
    run_id: str,
    name: str,
    *,
    signal_id: str | None = None,
    value_text: str = "null",
    error_text: str | None = None,
    may_precede: bool = False,
) -> str:
    """Send a signal to a run.

    Args:
        signal_id: what makes it the same signal when it is sent again; None: a fresh one.
        value_text: codec text of its value.
        error_text: failure text; the wait raises it instead of giving a value.
        may_precede: the run may start later (it is addressed by saga and key): kept for `saga_signal_ttl` until then.
    Returns:
        "delivered": a wait took it; "kept": it is in the inbox until a wait asks for it or the run ends.
    Raises:
        RunNotFound: there is no such run and it may not precede it; nothing was written.
        SignalNotExpected: the saga declares its signals, not this one; nothing was written.
        SignalExpired: the run has ended, or the wait for it is over; nothing was written, or nobody will take it.
        SignalDuplicate: this id was sent before; nothing was written, the run was woken all the same.
        PayloadUnreadable: something of the run cannot be read here; nothing was written.
    """
    _, sent = prepare(
        world, run_id, name, signal_id=signal_id, value_text=value_text, error_text=error_text, may_precede=may_precede
    )
    _, written = world.store.put_signal(sent)
    try:
        transition = world.change(run_id, world.look)
    except PayloadUnreadable:  # since it was looked at; the signal is there, and wakes the run
        transition = None
    if not written:
        raise SignalDuplicate(
            f"run {run_id!r}: signal {name!r} with id {sent.signal_id!r} was sent before; nothing was written",
            signal=name,
        )
    if transition is None:
        return "kept"
    if _is_taken(transition.new.inbox, sent) or _is_taken(world.store.signals(run_id), sent):
        return "delivered"
    _refuse_ended(transition.new, name)
    return "kept"


def prepare(
    world: World,
    run_id: str,
    name: str,
    *,
    signal_id: str | None = None,
    value_text: str = "null",
    error_text: str | None = None,
    may_precede: bool = False,
) -> tuple[Loaded | None, SignalRecord]:
    """The run as it is, None before it exists, and the row to be written for a signal to it, with its wake-up.

    Raises:
        RunNotFound, SignalNotExpected, SignalExpired, PayloadUnreadable: as `signal`; nothing was written.
    """
    loaded = world.store.load(run_id)
    if loaded is not None:
        _refuse(loaded.snapshot, name)
        if loaded.unreadable is not None:
            # It would be sealed with a key that those who can read the run may not have, and park it.
            raise cannot_be_read(run_id, loaded.unreadable)
    elif not may_precede:
        raise RunNotFound(f"run {run_id!r}: there is no such run; nothing was written", run_id=run_id)
    now = world.store.now() if loaded is None else loaded.now
    sent = SignalRecord(0, run_id, name, signal_id or world.token(), now, value_text, error_text)
    if loaded is None:
        sent = replace(sent, expires_at=wakeup.after(now, world.limits.signal_ttl_s))
    return loaded, replace(sent, wake_at=wakeup.after(now, world.resend_s))


def _is_taken(signals: Iterable[SignalRecord], sent: SignalRecord) -> bool:
    """By our own look, or by somebody else's transition between our insert and our look."""
    return any(x.name == sent.name and x.signal_id == sent.signal_id and x.taken_by is not None for x in signals)


def _refuse_ended(s: Snapshot, name: str) -> None:
    if not s.is_live:
        ended = f"run {s.run.id!r} has ended ({s.run.status.value})"
        raise SignalExpired(f"{ended}: nobody will take signal {name!r}", signal=name)


def _refuse(s: Snapshot, name: str) -> None:
    run = s.run
    declared = RunSpec.from_text(run.spec_text).signals
    if declared is not None and name not in declared:
        raise SignalNotExpected(
            f"run {run.id!r}: saga {run.saga!r} declares no signal {name!r} "
            f"(it declares {', '.join(declared) or 'none'}); nothing was written",
            signal=name,
        )
    _refuse_ended(s, name)
    if is_over(s, name):
        raise SignalExpired(f"run {run.id!r}: the wait for signal {name!r} is over; nothing was written", signal=name)
