"""The error of a body that asks for something else than is recorded: it names both sides."""

from __future__ import annotations

from collections.abc import Collection

from celery_saga.core.masking import masked
from celery_saga.core.records import StepKind
from celery_saga.core.snapshot import Snapshot
from celery_saga.errors import NonDeterminismError

_SHOWN = 200  # characters of each side's arguments
_BEFORE = 60  # of these in front of the first difference


def both_arguments(recorded: str, given: str) -> str:
    """What a step was ordered with, and what the body gives now; of long ones what surrounds the first difference."""
    if recorded == given:  # of a join, whose row names its parts
        return f"with other parts than the body now gives ({recorded[:_SHOWN]})"
    begin = 0
    recorded, given = masked(recorded), masked(given)
    if max(len(recorded), len(given)) > _SHOWN:
        same = next((at for at, (one, other) in enumerate(zip(recorded, given, strict=False)) if one != other), 0)
        begin = max(0, same - _BEFORE)
    mine, its = (("..." if begin else "") + text[begin : begin + _SHOWN] for text in (recorded, given))
    return f"with the arguments {mine}, the body now gives {its}"


def mismatch_of(s: Snapshot, text: str, asked: Collection[str]) -> NonDeterminismError:
    """The error that parks a run.

    Args:
        text: what is recorded, and what the body asks for instead.
        asked: keys of the changes that the body has asked for with `patched`.
    """
    patches = (step.key for step in s.steps.values() if step.kind is StepKind.PATCH)
    unasked = [repr(key.partition("!")[0]) for key in patches if key not in asked]
    if unasked:  # it may be older code than that which took the run so far
        text += f", and has not asked for {', '.join(unasked)}, which the run has taken up"
    return NonDeterminismError(
        f"run {s.run.id!r} ({s.run.saga} version {s.run.version}): {text}; nothing was changed. "
        "Give changed code a new version or ask run.patched(), or put the old order back and resume the run."
    )
