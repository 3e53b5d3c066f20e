"""A body's call of a join: ordered with all its parts, entered for the part to be decided, or answered with its result.

Theory of operation. A pass over the body stops at a join that is not over; the functions of its parts are not called.
A pass over one part goes through the body as recorded, enters each join around that part and there calls the functions
of no part but the one that leads to it; where that returns or raises, the pass is over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from celery_saga.core import failure
from celery_saga.core.decision import Completed, Raised
from celery_saga.core.focus import Extent, Incomplete, region_of
from celery_saga.core.joins import names_of, winner
from celery_saga.core.pivot import refuse_bounded
from celery_saga.core.places import check_key
from celery_saga.core.placing import Order
from celery_saga.core.records import StepKind, StepRecord
from celery_saga.core.replacing import replace
from celery_saga.core.replay import Replay
from celery_saga.core.status import StepStatus

_FAILED = (StepStatus.FAILED, StepStatus.LOST)


@dataclass(frozen=True, slots=True)
class Entered:
    """The function of this part is to be called: its number among the parts, from 0, and its scope."""

    number: int
    prefix: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A join as the body asks for it.

    Args:
        mode: the verb: group, map, race.
        digest: hash of width, names and arguments.
        names: of the parts, where their keys have names instead of numbers.
        width: how many parts.
        spec_text: its policies, as StepSpec.
        parts: makes the orders of these parts, by number; key, scope and join are added.
    """

    mode: str
    digest: str
    width: int
    spec_text: str
    args_text: str
    parts: Callable[[Iterable[int]], Sequence[Order]]
    names: Sequence[str] | None = None


def ask_join(replay: Replay, name: str, asked: Asked, *, explicit: bool = False) -> StepRecord | Order | Entered:
    """The settled join, the order of an empty one, or which part's function is to be called.

    Raises:
        Suspended: it is not over.
        DuplicateStepError: the explicit name was used before in this scope.
        DefinitionError: the key of a part would be too long.
    """
    key = replay.peek_key(name)
    if key not in replay.snapshot.steps and not replay.suspended:
        # Their numbers or names are of different lengths: the longest decides.
        labels = [str(max(asked.width - 1, 0))] if asked.names is None else asked.names
        check_key(max((f"{key}[{label}]" for label in labels), key=len, default=key))
        if replay.pivoted:
            refuse_bounded(_parts(key, asked, range(asked.width)))
    entered = _entered(replay, key, asked)
    if entered is not None:
        replay.claim_key(StepKind.JOIN, name, explicit=explicit, task=asked.mode, digest=asked.digest)
        return entered

    def make() -> Order:
        return Order(
            StepKind.JOIN, "", "", 0, args_text=asked.args_text, spec_text=asked.spec_text, join_total=asked.width
        )

    def follow() -> None:
        replay.orders.extend(_parts(key, asked, range(asked.width)))

    record = replay.snapshot.steps.get(key)
    if record is not None and record.status is StepStatus.WAITING and region_of(key) == replay.region:
        _order_again(replay, record, asked)
    return replay.ask(
        StepKind.JOIN, name, explicit=explicit, task=asked.mode, digest=asked.digest, make=make, follow=follow
    )


def _parts(key: str, asked: Asked, numbers: Iterable[int]) -> list[Order]:
    wanted = list(numbers)
    labels: Sequence[Any] = range(asked.width) if asked.names is None else asked.names
    return [
        replace(order, key=f"{key}[{labels[number]}]", scope=f"{key}[{labels[number]}]/", ordinal=number, join_key=key)
        for number, order in zip(wanted, asked.parts(wanted), strict=True)
    ]


def _order_again(replay: Replay, join: StepRecord, asked: Asked) -> None:
    """A join that was reopened waits for parts that were cut from the record: they are ordered anew."""
    if join.join_next or replay.suspended or replay.snapshot.extent < Extent.LIVE:
        return
    there = {x.ordinal for x in replay.snapshot.steps.values() if x.join_key == join.key}
    replay.orders.extend(_parts(join.key, asked, (x for x in range(asked.width) if x not in there)))


def _entered(replay: Replay, key: str, asked: Asked) -> Entered | None:
    """Whether the part to be decided lies in this join, which is open; and in which of its parts."""
    inside = key + "["
    if not replay.region.startswith(inside):
        return None
    join = replay.snapshot.steps.get(key)
    if join is None or join.status is not StepStatus.WAITING:
        return None
    label = replay.region[len(inside) :].partition("]")[0]
    if asked.names is not None:
        number = list(asked.names).index(label) if label in asked.names else asked.width
    else:
        number = int(label) if label.isdecimal() else asked.width
    return Entered(number, f"{inside}{label}]/") if number < asked.width else None


def swallowed(replay: Replay, error: Exception) -> None:
    """The function that was to be decided swallowed its suspension: a bug.

    Raises:
        Suspended: always.
    """
    if replay.mismatch is None and replay.incomplete is None:
        replay.part_end = Raised(failure.capture(error), declared=False)
        replay.orders.clear()
    replay.suspend()


def returned(replay: Replay, result_text: str) -> None:
    """The function that was to be decided returned; the pass is over.

    Raises:
        Suspended: always.
    """
    replay.part_end = Completed(result_text)
    replay.suspend()


def raised(replay: Replay, error: Exception, errors: Iterable[type[BaseException]]) -> None:
    """The function that was to be decided raised; the pass is over.

    Raises:
        Suspended: always.
    """
    replay.part_end = replay.raised(error, errors)
    replay.suspend()


def result_of(replay: Replay, join: StepRecord) -> str:
    """What a join that is over gave: JSON of its parts' codec texts, in declared order.

    `[value, ...]`; with "collect" `[["ok", value] | ["error", failure text, attempts], ...]`; of a race
    `[name, value]`; of one that failed `[key, attempts]` of the task that failed it, `[key, attempts, signal]` of a
    wait, or null. Where it was not put together before, it is now, and goes into the decision.

    Raises:
        Suspended: the snapshot does not hold its parts; the pass is to be done again on more.
    """
    if join.result_text is not None:
        return join.result_text
    if join.key in replay.folds:
        return replay.folds[join.key]
    text = _put_together(replay, join)
    replay.folds[join.key] = text
    return text


def _put_together(replay: Replay, join: StepRecord) -> str:
    steps = replay.snapshot.steps
    parts = sorted((x for x in steps.values() if x.join_key == join.key), key=lambda x: x.ordinal)
    if len(parts) < join.join_total and replay.snapshot.extent < Extent.LIVE:
        replay.incomplete = Incomplete(Extent.LIVE)
        replay.suspend()
    if join.status is not StepStatus.DONE:
        return _who_failed(join, parts)
    how = json.loads(join.spec_text).get("on_failure", "abort")
    if how == "race":
        won = winner(replay.snapshot, join)
        assert won is not None
        names = names_of(join) or []
        return f"[{json.dumps(names[won.ordinal])},{won.result_text or 'null'}]"
    if how == "collect":
        return "[" + ",".join(map(_collected, parts)) + "]"
    return "[" + ",".join(part.result_text or "null" for part in parts) + "]"


def failed_part(join: StepRecord, result_text: str) -> StepRecord | None:
    """The task that failed a join, as `result_of` names it; None: the error says itself whose it is."""
    told = json.loads(result_text)
    return None if told is None else as_task(join, *told)


def as_task(join: StepRecord, key: str, attempts: int, signal: str | None = None) -> StepRecord:
    """A part of a join that failed, as far as its error needs it: a task, or the wait for a signal."""
    failed = replace(join, kind=StepKind.STEP, key=key, attempt=attempts, status=StepStatus.FAILED)
    return failed if signal is None else replace(failed, kind=StepKind.SIGNAL, task=signal)


def _collected(part: StepRecord) -> str:
    if part.status is StepStatus.DONE:
        return f'["ok",{part.result_text or "null"}]'
    return f'["error",{json.dumps(part.error_text)},{part.attempt}]'


def _who_failed(join: StepRecord, parts: Sequence[StepRecord]) -> str:
    """Of the part whose error is that of the join, as `as_task` takes it; `null` where the error says it itself."""
    failed = [x for x in parts if x.status in _FAILED and x.error_text == join.error_text]
    first = min(failed, key=lambda x: x.seq or 0, default=None)
    if first is None or first.kind not in (StepKind.STEP, StepKind.SIGNAL):
        return "null"
    return json.dumps([first.key, first.attempt, *([first.task] if first.kind is StepKind.SIGNAL else [])])
