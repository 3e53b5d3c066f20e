"""One run with its steps and inbox as an immutable value; every transition is a function from snapshot to snapshot.

The store writes the difference of two snapshots in one transaction, each row guarded by what the old one showed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from celery_saga.core.focus import Extent, Incomplete
from celery_saga.core.masking import masked
from celery_saga.core.records import Action, HistoryRecord, RunRecord, SignalRecord, StepKind, StepRecord
from celery_saga.core.replacing import replace
from celery_saga.core.status import (
    RunEvent,
    RunStatus,
    StepEvent,
    StepStatus,
    next_run_status,
    next_step_status,
)
from celery_saga.errors import InvalidPayload


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A run, the steps of its present generation by key, and the signals nobody has taken, oldest first.

    `history` holds only the rows that this transition adds.
    """

    run: RunRecord
    steps: Mapping[str, StepRecord] = field(default_factory=dict)
    inbox: tuple[SignalRecord, ...] = ()
    history: tuple[HistoryRecord, ...] = ()
    woken: bool = False  # this transition leaves the run to be decided; not stored
    starts: tuple[RunRecord, ...] = ()  # children that begin in this transition; their rows are inserted with it
    archived: tuple[StepRecord, ...] = ()  # as this transition leaves them behind, with the generation before
    extent: Extent = Extent.ALL  # which steps are here; not stored
    stacks: Mapping[str, bool] = field(default_factory=dict)  # tops that are here: whether more lies below
    is_busy_elsewhere: bool = False  # among the steps that are not here some are held, scheduled or running
    is_active_elsewhere: bool = False  # among them some are to run now, or run; told of a run that needs admission
    look_at: datetime | None = None  # when its slots are looked at, if nobody does before; of an admission that changes

    # -- writing -----------------------------------------------------------------------------------------------
    def with_run(self, **changes: Any) -> Snapshot:
        """The run with other values."""
        return replace(self, run=replace(self.run, **changes))

    def move_run(self, event: RunEvent, **changes: Any) -> Snapshot:
        """The run after `event`.

        Raises:
            IllegalTransition: the table refuses it; nothing was changed.
        """
        return self.with_run(status=next_run_status(self.run.id, self.run.status, event), **changes)

    def with_step(self, step: StepRecord) -> Snapshot:
        """The snapshot with this step added or in place of the one of its key."""
        return replace(self, steps={**self.steps, step.key: step})

    def with_steps(self, steps: Mapping[str, StepRecord]) -> Snapshot:
        """The snapshot with these steps, by key, added or in place of those of their keys."""
        return replace(self, steps={**self.steps, **steps})

    def move_step(self, key: str, event: StepEvent, **changes: Any) -> Snapshot:
        """The step after `event`; a step that ends gets the run's next `seq` unless it has one.

        Raises:
            IllegalTransition: the table refuses it; nothing was changed.
        """
        step = self.steps[key]
        status = next_step_status(self.run.id, key, step.status, event)
        run = self.run
        if status.is_end and changes.get("seq", step.seq) is None:
            changes["seq"] = run.step_seq + 1
            run = replace(run, step_seq=run.step_seq + 1)
        return replace(self, run=run, steps={**self.steps, key: replace(step, status=status, **changes)})

    def note(self, at: datetime, action: Action, kind: str, **fields: Any) -> Snapshot:
        """The snapshot with one more history row, numbered next.

        Raises:
            InvalidPayload: `by` or `reason` is no text; nothing was changed.
        """
        for name in ("by", "reason"):
            if not isinstance(fields.get(name), str | None):
                raise InvalidPayload(
                    f"run {self.run.id!r}: {name}= takes a text, got {fields[name]!r}; nothing was changed"
                )
        if fields.get("detail") is not None:
            fields["detail"] = masked(fields["detail"])
        seq = self.run.history_seq + 1
        row = HistoryRecord(self.run.id, seq, at, action, kind, generation=self.run.generation, **fields)
        return replace(self, run=replace(self.run, history_seq=seq), history=(*self.history, row))

    def with_inbox(self, inbox: tuple[SignalRecord, ...]) -> Snapshot:
        """The snapshot with this inbox."""
        return replace(self, inbox=inbox)

    # -- reading -----------------------------------------------------------------------------------------------
    def need(self, extent: Extent) -> None:
        """Go on only on a snapshot that holds so many of the run's steps.

        Raises:
            Incomplete: it does not; the transition is to be tried again on more.
        """
        if self.extent < extent:
            raise Incomplete(extent)

    def step(self, key: str) -> StepRecord | None:
        """The step of this key, whatever the snapshot holds; None: the run has none.

        Raises:
            Incomplete: it may have one that was not loaded.
        """
        found = self.steps.get(key)
        if found is None and self.extent is not Extent.ALL:
            raise Incomplete(Extent.ALL, key)
        return found

    def where(
        self, *statuses: StepStatus, undo: bool | None = None, need: Extent = Extent.LIVE
    ) -> Iterator[StepRecord]:
        """Steps in one of these statuses, in the order in which they were stored; `undo` picks undos or the others.

        Raises:
            Incomplete: the snapshot holds fewer steps than are needed to answer.
        """
        self.need(need)
        return self._where(statuses, undo)

    def _where(self, statuses: tuple[StepStatus, ...], undo: bool | None) -> Iterator[StepRecord]:
        for step in self.steps.values():
            if step.status in statuses and (undo is None or (step.kind is StepKind.UNDO) is undo):
                yield step

    @property
    def is_live(self) -> bool:
        """The run has not ended."""
        return not self.run.status.is_end

    @property
    def is_parked(self) -> bool:
        """The run is out of work until a person acts."""
        return self.run.status is RunStatus.SUSPENDED
