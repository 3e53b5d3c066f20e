"""What is due: rows whose time has come, or whose wake-up is out, and what is asked of a store about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from celery_saga.core.records import RunRecord, StepRecord
from celery_saga.core.schedules import ScheduleRecord


class DueKind(StrEnum):
    """What the sweeper found due."""

    STEP = "step"
    RUN = "run"
    SIGNAL = "signal"
    SCHEDULE = "schedule"
    LANE = "lane"


@dataclass(frozen=True, slots=True)
class Due:
    """One row whose `wake_at` has come; picking it has already moved that on."""

    kind: DueKind
    run_id: str
    step: StepRecord | None = None  # of a due step, as it stands after the pick
    run: RunRecord | None = None  # the run, without its input (of a due signal: None while it does not exist)
    schedule: ScheduleRecord | None = None  # of a due schedule, whose `run_id` is empty
    lane: str = ""  # to be looked at; with a run id: it has a slot there, and is to be told or to go on
    is_enlisting: bool = False  # of a lane that has come over runs, some of which do not queue yet


@dataclass(frozen=True, slots=True)
class SentFilter:
    """Which wake-ups that are out to list.

    `after`: `wake_at` and what identifies the last row of the page before. `again_before`: what was redispatched later
    than then, and not sent since, is left out.
    """

    again_before: datetime
    saga: str | None = None
    after: tuple[datetime, tuple[Any, ...]] | None = None
    limit: int = 200


class DueStore(Protocol):
    """The rows that something has to be done about at a time."""

    def pick_due(self, *, limit: int, hold_s: float) -> Sequence[Due]:
        """Rows whose `wake_at` has come, oldest first, each with its `wake_at` moved on by `hold_s` (SKIP LOCKED).

        One statement when nothing is due. Every picked step that is not running, and every picked run, gets
        `sends` + 1, so that `sends` == 1 in the answer means: its first wake-up, to be sent without asking. A signal
        whose run does not exist is not due again before it expires, and is deleted then. Texts that cannot be read, or
        are stored elsewhere, come as `core.unreadable.Unreadable`.
        """

    def coming_s(self, within_s: float, *, since_s: float = 0.0) -> float | None:
        """In how many seconds the first timer comes due: the end of a wait or of a back-off, a start, a schedule.

        None: none does within `within_s`. Leases, and wake-ups that are out, are no timers. What came due in the last
        `since_s` counts as coming.
        """

    def leave_unsent(self, run_id: str, generation: int, keys: Sequence[str]) -> None:
        """These scheduled steps could not be sent in time: they are due now, as if they had never been sent."""

    def put_off(self, step: StepRecord, *, delay_s: float) -> None:
        """Move a live, not running step's `wake_at` to now + delay, unless the step moved meanwhile."""

    def put_off_run(self, run: RunRecord, *, delay_s: float) -> None:
        """Move a live run's `wake_at` to now + delay if it has one, unless the run moved or was woken meanwhile."""

    def sent(self, kind: DueKind, wanted: SentFilter) -> list[Due]:
        """Runs, or steps that nobody has claimed, whose wake-up was sent and that still wait for it. Moves nothing."""

    def mark_redispatched(self, dues: Sequence[Due], *, hold_s: float) -> list[Due]:
        """Those of them that are still as they were seen get `sends` + 1 and a wake-up in `hold_s`; as they are now.

        Rows that somebody has locked are left alone (SKIP LOCKED).
        """

    def take_back(self, dues: Sequence[Due]) -> None:
        """These were marked but could not be sent: they are due now, as if they had not been marked."""
