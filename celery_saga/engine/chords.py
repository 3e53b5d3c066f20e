"""Hanging a task on a run's signals: under the run's lock, with every signal that it has received until then."""

from __future__ import annotations

from datetime import datetime

from celery_saga.core import chords
from celery_saga.core.orders import Call, RunSpec, StepSpec
from celery_saga.core.records import StepKind
from celery_saga.core.snapshot import Snapshot
from celery_saga.engine.world import World, refuse_purged
from celery_saga.errors import IllegalTransition, RunNotFound, SignalNotExpected

_TRIES = 50


def chord(world: World, run_id: str, call: Call, spec: StepSpec) -> str:
    """Add a chord to a run; what it observes is in `spec.chord`.

    Returns:
        The key of its step.
    Raises:
        RunNotFound: there is no such run.
        ResultPurged: only its key is left.
        SignalNotExpected: the saga declares its signals, and one of the header is none of them.
        IllegalTransition: the run has ended, or its forward part has.
        PayloadUnreadable: something of the run cannot be read here. In every case nothing was written.
    """
    for _ in range(_TRIES):
        loaded = world.store.load(run_id)
        if loaded is None:
            raise RunNotFound(f"run {run_id!r}: there is no such run; nothing was written", run_id=run_id)
        refuse_purged(loaded.snapshot.run)
        version = loaded.snapshot.run.state_version
        # What is taken is not in the inbox any more. While the version stands nobody takes any.
        taken = [x for x in world.store.signals(run_id) if x.taken_by is not None]
        is_moved = False

        def hang(s: Snapshot, now: datetime) -> Snapshot:
            nonlocal is_moved
            is_moved = s.run.state_version != version  # noqa: B023 - called in this turn of the loop
            if is_moved:
                return s
            _refuse(s, spec)
            seen = sorted([*taken, *s.inbox], key=lambda x: x.id)  # noqa: B023 - as above
            return chords.hang(s, call, spec, seen, now, world.resend_s)

        done = world.for_clients().change(run_id, hang)
        if done is not None:
            refuse_purged(done.new.run)
        if done is not None and not is_moved:
            return [x.key for x in done.new.steps.values() if x.kind is StepKind.CHORD][-1]
    raise IllegalTransition(f"run {run_id!r}: it moved on {_TRIES} times meanwhile; nothing was written. Try again.")


def _refuse(s: Snapshot, spec: StepSpec) -> None:
    run = s.run
    header = () if spec.chord is None else spec.chord.header
    declared = RunSpec.from_text(run.spec_text).signals
    unknown = [] if declared is None else [name for name in header if name not in declared]
    if unknown:
        raise SignalNotExpected(
            f"run {run.id!r}: saga {run.saga!r} declares no signal {unknown[0]!r} "
            f"(it declares {', '.join(declared or ()) or 'none'}); nothing was written",
            signal=unknown[0],
        )
    if run.outcome is not None or run.status.is_end:
        raise IllegalTransition(
            f"run {run.id!r}: chord() is not allowed while the run is {run.status.value}: its forward part has ended, "
            "and no further signal is to come; nothing was written"
        )
