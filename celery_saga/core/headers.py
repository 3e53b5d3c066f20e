"""Headers: which signals a wait is for, how many of them complete it, and which of an inbox do.

Theory of operation. A wait for one signal holds its name as task; a wait for several holds all names in its arguments
and how many it needs in its spec. What is in the inbox is looked at in order of arrival, the first of each name counts:
once enough names are there the wait takes exactly these, all in one transaction, or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from celery_saga.core import codec
from celery_saga.core.orders import StepSpec
from celery_saga.core.records import SignalRecord, StepRecord

_MAX_SHOWN = 200


def shown(names: Iterable[str]) -> str:
    """The names on one line, cut where they are too long for a column."""
    text = ", ".join(names)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"


def names_of(wait: StepRecord) -> tuple[str, ...]:
    """Names of the signals that a wait is for, in the order in which it gives them."""
    return tuple(codec.decode(wait.args_text)[0]) or (wait.task,)


def is_several(wait: StepRecord) -> bool:
    """The wait was asked for with a list of signals, and gives their values by name."""
    return bool(codec.decode(wait.args_text)[0])


def completing(wait: StepRecord, inbox: Iterable[SignalRecord]) -> tuple[SignalRecord, ...]:
    """What the wait takes of an inbox, oldest first; empty: it goes on waiting, and takes nothing.

    An error among them fails the wait: then it is all that is taken.
    """
    names = names_of(wait)
    need = StepSpec.from_text(wait.spec_text).need or len(names)
    found: dict[str, SignalRecord] = {}
    for signal in inbox:
        if signal.taken_by is not None or signal.name in found or signal.name not in names:
            continue
        if signal.error_text is not None:
            return (signal,)
        found[signal.name] = signal
        if len(found) == need:
            return tuple(found.values())
    return ()


def missing(wait: StepRecord, inbox: Iterable[SignalRecord]) -> tuple[str, ...]:
    """Names that the wait is still open for: those of which no signal is in the inbox."""
    there = {signal.name for signal in inbox if signal.taken_by is None}
    return tuple(name for name in names_of(wait) if name not in there)


def result_text(wait: StepRecord, taken: Iterable[SignalRecord]) -> str:
    """Codec text of what the wait gives: the value, or where it was for several the values by name, in its order."""
    texts: Mapping[str, str] = {signal.name: signal.value_text for signal in taken}
    if not is_several(wait):
        return texts[wait.task]
    return codec.encode({name: codec.decode(texts[name]) for name in names_of(wait) if name in texts})
