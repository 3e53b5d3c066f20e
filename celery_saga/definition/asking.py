"""The pieces of a body's calls: orders as they are handed to the replay, and the checks of what was given."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from celery_saga.core.asked import shown, utc
from celery_saga.core.orders import StepSpec
from celery_saga.core.placing import Order
from celery_saga.core.records import StepKind, StepRecord
from celery_saga.definition.payload import check_type
from celery_saga.definition.signal import Signal
from celery_saga.errors import DefinitionError

__all__ = ["aware", "order", "signal_of", "throws_of", "timed_out"]


def signal_of(signal: object, type_: Any, declared: Mapping[str, Signal[Any]], saga: str) -> Signal[Any]:
    """The signal that a body waits for, with its type: its own, the given, or the declared one.

    Args:
        declared: the saga's signals by name; empty: any name will do.
    Raises:
        DefinitionError: no signal, one that the saga does not declare, or a type twice; nothing was ordered.
    """
    if isinstance(signal, Signal):
        waited: Signal[Any] = signal
        if type_ is not None:
            raise DefinitionError(
                f"run.wait_signal(): {signal!r} brings its type, so type= must not be given; nothing was ordered."
            )
    elif isinstance(signal, str):
        if type_ is not None:
            check_type(type_, f"signal {signal!r}")
        waited = Signal(signal, type_)
    else:
        raise DefinitionError(f"run.wait_signal() takes a Signal or its name, got {signal!r}; nothing was ordered.")
    if declared and waited.name not in declared:
        raise DefinitionError(
            f"saga {saga!r} does not declare the signal {waited.name!r} and could never get it; nothing was ordered. "
            f"Add it to signals=, which has {', '.join(declared)}."
        )
    return declared.get(waited.name, waited) if waited.type is None else waited


def aware(at: object, what: str) -> datetime:
    """The instant in UTC.

    Raises:
        DefinitionError: no datetime, one without zone, or one out of bounds; nothing was ordered.
    """
    try:
        return utc(at)
    except ValueError as error:
        raise DefinitionError(
            f"{what} takes an aware datetime, and it {error}, got {shown(at)}; nothing was ordered or written. "
            "Give it a zone: datetime(..., tzinfo=ZoneInfo('Europe/Paris'))."
        ) from None


def order(
    kind: StepKind,
    *,
    args_text: str = "[[], {}]",
    spec: StepSpec | None = None,
    result_text: str | None = None,
    delay_s: float | None = None,
    at: datetime | None = None,
) -> Order:
    """What a call of the body asks for; key, scope and place are added by the replay."""
    spec_text = "{}" if spec is None else spec.to_text()
    return Order(
        kind, "", "", 0, args_text=args_text, spec_text=spec_text, result_text=result_text, delay_s=delay_s, at=at
    )


def throws_of(task: object) -> tuple[type[BaseException], ...]:
    """The exception classes that a task declares as expected."""
    throws: Any = getattr(task, "throws", None) or ()
    given = throws if isinstance(throws, tuple | list) else (throws,)
    return tuple(each for each in given if isinstance(each, type) and issubclass(each, BaseException))


def timed_out(record: StepRecord) -> bool:
    """Whether the wait was ended by its time-out, as far as its times tell."""
    return record.due_at is not None and (record.ended_at is None or record.ended_at >= record.due_at)
