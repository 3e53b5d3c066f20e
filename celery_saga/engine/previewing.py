"""What the code at hand would do to the live runs: replays each of them and tells which would break; writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from celery_saga.core.decision import Decision, Mismatch, Raised, Unreadable
from celery_saga.core.failure import Failure
from celery_saga.core.focus import Extent, Incomplete, region_of
from celery_saga.core.generation import start_over
from celery_saga.core.ports import Loaded, RunFilter, Store
from celery_saga.core.records import RunRecord, StepKind
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunStatus, StepStatus

__all__ = ["BrokenRun", "Preview", "Previews", "preview"]

_LIVE = tuple(status.value for status in RunStatus if not status.is_end)
_BEGUN = (StepStatus.SCHEDULED, StepStatus.WAITING, StepStatus.RUNNING)
_PAGE = 500


class Previews(Protocol):
    """The sagas of the code at hand."""

    def preview(self, snapshot: Snapshot, now: datetime, region: str = "") -> Decision | None:
        """One pass of the body, or of the part of this region, which calls nothing that was not called before.

        Returns:
            None: the saga is not known in this version.
        Raises:
            Incomplete: the snapshot holds too few of the run's steps.
        """


@dataclass(frozen=True, slots=True)
class BrokenRun:
    """A live run that would break under the code at hand.

    `reason` is that of the parking place where it would end up: `non_determinism` (the body asks for something else
    than is recorded), `input` (the stored arguments cannot be decoded), `body_error` (the body raises what the saga
    does not declare); or `unknown_version`: nobody would take it up. `message` tells both sides. `status` is that of
    now: a run that is `suspended` already would be parked again when it is resumed.
    """

    run_id: str
    saga: str
    version: int
    key: str | None
    status: RunStatus
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Preview:
    """What came of replaying the live runs: the broken ones, newest first. False when there are none.

    `replayed` counts the runs whose body was replayed; those that are only being undone need no body.
    """

    broken: tuple[BrokenRun, ...] = ()
    replayed: int = field(default=0, compare=False)

    def __iter__(self) -> Iterator[BrokenRun]:
        return iter(self.broken)

    def __len__(self) -> int:
        return len(self.broken)


def preview(store: Store, definitions: Previews, *, resend_s: float) -> Preview:
    """Replay all live runs, page by page, against the code at hand. Nothing is written, no step is executed.

    Args:
        resend_s: how long a wake-up is given; of the records that a restart would make, which are thrown away.
    """
    broken: list[BrokenRun] = []
    replayed = 0
    for run_id in _live(store):
        try:
            found = _replay(store.load(run_id), definitions, resend_s)
        except Incomplete:
            found = _replay(store.load(run_id, extent=Extent.ALL), definitions, resend_s)
        if found is not None:
            replayed += 1
            run, why = found
            if why is not None:
                broken.append(BrokenRun(run.id, run.saga, run.version, run.key, run.status, *why))
    return Preview(tuple(broken), replayed)


def _replay(
    loaded: Loaded | None, definitions: Previews, resend_s: float
) -> tuple[RunRecord, tuple[str, str] | None] | None:
    """The run, and why it would break; None: its body would not be replayed."""
    snapshot = None if loaded is None else _to_replay(loaded, resend_s)
    if loaded is None or snapshot is None:
        return None
    run = loaded.snapshot.run
    why = _trouble(run, definitions.preview(snapshot, loaded.now))
    parts = (step for step in snapshot.steps.values() if step.kind is StepKind.PART and step.status in _BEGUN)
    for part in parts:
        why = why or _trouble(run, definitions.preview(snapshot, loaded.now, region_of(part.key)))
    return run, why


def _live(store: Store) -> Iterator[str]:
    wanted = RunFilter(status=_LIVE, limit=_PAGE)
    while True:
        page = store.runs(wanted)
        yield from (run.id for run in page)
        if len(page) < _PAGE:
            return
        wanted = replace(wanted, after=page[-1].id, after_at=page[-1].created_at)


def _to_replay(loaded: Loaded, resend_s: float) -> Snapshot | None:
    """The records over which the body would be replayed next; None: it will not be."""
    s = loaded.snapshot
    if not s.is_live:
        return None
    if s.run.restart:
        return start_over(s, loaded.now, resend_s)
    return s if s.run.outcome is None else None


def _trouble(run: RunRecord, decided: Decision | None) -> tuple[str, str] | None:
    if decided is None:
        return "unknown_version", f"this code does not know the saga {run.saga!r} in version {run.version}"
    match decided.end:
        case Mismatch(error):
            return "non_determinism", _line(error)
        case Unreadable(error):
            return "input", _line(error)
        case Raised(error, declared=False):
            return "body_error", _line(error)
    return None


def _line(error: Failure) -> str:
    return f"{error.type_name.rpartition('.')[2]}: {error.message}"
