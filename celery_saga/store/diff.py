"""What a transition changed, as the rows to write; pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from celery_saga.core.records import HistoryRecord, RunRecord, SignalRecord, StepRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.store.rows import RUN_FIELDS, SIGNAL_FIELDS, STEP_FIELDS, plain

_FOLDED = {"folded": True}
_LARGE = ("input_text", "args_text", "result_text", "spec_text", "value_text")
_OF_THE_STORE = frozenset({"id", "state_version", "updated_at"})


@dataclass(frozen=True, slots=True)
class Writes:
    """Changed columns only, so that a column moved by a claim or a pick meanwhile is not written back."""

    run: dict[str, Any] = field(default_factory=dict)
    changed: list[tuple[StepRecord, dict[str, Any]]] = field(default_factory=list)  # as read, its changes
    started: list[RunRecord] = field(default_factory=list)  # children; by id, so that two parents lock in one order
    added: list[StepRecord] = field(default_factory=list)
    folded: list[str] = field(default_factory=list)  # keys of steps of which nothing else changed
    signals: list[tuple[SignalRecord, dict[str, Any]]] = field(default_factory=list)
    history: tuple[HistoryRecord, ...] = ()

    def __bool__(self) -> bool:
        rows = (self.started, self.changed, self.added, self.folded, self.signals, self.history)
        return bool(self.run) or any(rows)

    def __len__(self) -> int:
        """How many rows of steps and history, each changed or added by itself, these are."""
        return len(self.changed) + len(self.added) + len(self.history)

    def large_texts(self) -> Iterator[str]:
        """Texts among them that may be large."""
        yield from _large(self.run)
        for _, changes in (*self.changed, *self.signals):
            yield from _large(changes)
        for record in (*self.started, *self.added):
            yield from (text for name in _LARGE if (text := getattr(record, name, None)) is not None)


def writes_between(old: Snapshot, new: Snapshot) -> Writes:
    """The difference. A step or signal that `new` leaves out, and has not archived, stays as it is stored."""
    run = _changes(old.run, new.run, RUN_FIELDS)
    changed: list[tuple[StepRecord, dict[str, Any]]] = []
    added: list[StepRecord] = []
    folded: list[str] = []
    for key, step in new.steps.items():
        before = old.steps.get(key)
        if before is step:
            continue
        # The same key ordered anew in a later generation is another row; a kept step moves there with its birth.
        if before is None or before.born != step.born:
            added.append(step)
        elif changes := _changes(before, step, STEP_FIELDS):
            if changes == _FOLDED:
                folded.append(key)
            else:
                changed.append((before, changes))
    for step in new.archived:
        before = old.steps.get(step.key)
        if before is None or before.generation != step.generation:
            added.append(step)
        elif changes := _changes(before, step, STEP_FIELDS):
            changed.append((before, changes))
    return Writes(
        run={name: value for name, value in run.items() if name not in _OF_THE_STORE},
        changed=changed,
        started=sorted(new.starts[len(old.starts) :], key=lambda run: run.id),
        added=added,
        folded=folded,
        signals=_signals(old, new),
        history=new.history[len(old.history) :],
    )


def _large(changes: dict[str, Any]) -> Iterator[str]:
    yield from (changes[name] for name in _LARGE if changes.get(name) is not None)


def _signals(old: Snapshot, new: Snapshot) -> list[tuple[SignalRecord, dict[str, Any]]]:
    if old.inbox is new.inbox:
        return []
    before = {signal.id: signal for signal in old.inbox}
    pairs = [(before[signal.id], signal) for signal in new.inbox if signal.id in before]
    return [(was, changes) for was, now in pairs if (changes := _changes(was, now, SIGNAL_FIELDS))]


def _changes(
    old: RunRecord | StepRecord | SignalRecord,
    new: RunRecord | StepRecord | SignalRecord,
    names: tuple[str, ...],
) -> dict[str, Any]:
    if old is new:
        return {}
    values_of = attrgetter(*names)
    pairs = zip(names, values_of(new), values_of(old), strict=True)
    return {name: plain(value) for name, value, was in pairs if value is not was and value != was}
