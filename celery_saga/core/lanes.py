"""Lanes as stored: what runs queue in, who holds a slot there, and what a store must do for admission."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from celery_saga.core.admission import LaneSpec


class SlotState(StrEnum):
    """Where a run stands in a lane."""

    IDLE = "idle"  # it wants nothing of this lane now
    QUEUED = "queued"
    BACK = "back"  # as `queued`, and takes nothing that is not its own already: only a pause keeps it out
    HELD = "held"  # granted; the run does not know yet
    USED = "used"  # the run is let in
    FREED = "freed"  # given back; the lane has not looked yet
    GONE = "gone"  # as `freed`, and the run has ended


@dataclass(frozen=True, slots=True)
class LaneRecord:
    """One lane: `lane:NAME`, `saga:NAME` for all runs of a saga, or `*` for all runs.

    `cap` None: any number at a time. `limit` runs become active in any `window_s` seconds; None: no such limit.
    `source`: who said so last, `code`, `operator`, or `nobody` yet. Instants are aware UTC.
    """

    name: str
    cap: int | None = None
    hold: str = "active"
    limit: int | None = None
    window_s: float | None = None
    source: str = "code"
    said_at: datetime | None = None  # when the run was made whose code said it; None: it was said by name
    paused_at: datetime | None = None
    paused_by: str | None = None
    paused_reason: str | None = None
    limited_until: datetime | None = None  # nothing is admitted before, because a step said that a limit was reached
    enlisting: bool = False  # runs that need no slot so far are being had to queue
    wake_at: datetime | None = None

    @property
    def is_free(self) -> bool:
        """Runs need no slot of it: it is no lane of its own, and neither capped nor limited nor paused."""
        is_open = self.cap is None and self.limit is None and self.paused_at is None
        return is_open and not self.name.startswith("lane:")

    @property
    def spec(self) -> LaneSpec:
        """What is said of it."""
        return LaneSpec(self.cap, self.hold, self.limit, self.window_s)


@dataclass(frozen=True, slots=True)
class LaneLoad:
    """A lane and how it is used now.

    `used` counts the granted slots, those kept for life included; `runs`: live runs that have been here, those that
    hold and queue for nothing now included.
    """

    lane: LaneRecord
    used: int = 0
    queued: int = 0
    runs: int = 0


@dataclass(frozen=True, slots=True)
class SlotRecord:
    """One run in one lane. `rank`: 0 its own lane, 1 its saga, 2 all runs; in that order they are granted.

    `is_needless`: it was granted by a row that no longer holds anybody back.
    """

    lane: str
    run_id: str
    rank: int
    state: SlotState
    ask: int
    is_needless: bool = False


@dataclass(frozen=True, slots=True)
class Granted:
    """A slot that was granted; `next_lane`: where the run queues now; None: it has all that it needs.

    `is_needless`: by a row that holds nobody back.
    """

    run_id: str
    ask: int
    next_lane: str | None
    is_needless: bool = False


@dataclass(frozen=True, slots=True)
class Admitted:
    """What a look at one lane has brought; `more`: the same look again may bring more at once."""

    granted: tuple[Granted, ...] = ()
    more: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run queues: `lane`, and how many of it are in front (`ahead`)."""

    lane: LaneRecord
    ahead: int


class LaneStore(Protocol):
    """Tables of lanes and slots; each method is one transaction of its own, and locks one lane at most."""

    def admit(self, lane: str, *, at_most: int, look_s: float) -> Admitted:
        """Take back what was given back, and grant what is free: by priority, then by place.

        Args:
            look_s: after so many seconds a sweeper looks at what is granted here, if nobody goes on before.
        """

    def slots_of(self, run_id: str) -> list[SlotRecord]:
        """The slots of a run, by rank."""

    def place_of(self, run_id: str) -> Place | None:
        """Where the run queues now; None: nowhere."""

    def lanes(self, names: Sequence[str] | None = None) -> list[LaneLoad]:
        """All lanes, or these, by name, with their use."""

    def sync_lanes(self, said: Mapping[str, LaneSpec], *, unsaid: Sequence[str] = (), look_s: float) -> None:
        """Write what code and settings say; what an operator said stays. `unsaid`: rows of which they say nothing."""

    def set_lane(self, lane: str, spec: LaneSpec, *, look_s: float) -> LaneRecord:
        """Write what an operator says; the row as it is then. Runs that it comes over are to be enlisted."""

    def pause_lane(self, lane: str, *, by: str | None, reason: str, look_s: float) -> LaneRecord:
        """Admit nothing any more; the row as it is then. Paused already: who, when and why stay as they are."""

    def unpause_lane(self, lane: str, *, look_s: float) -> LaneRecord | None:
        """Admit again; None: it was neither paused nor kept closed by a limit, and nothing was written."""

    def forget_lane(self, lane: str) -> LaneLoad | None:
        """Delete what is said of it, unless a live run has been there; None: there is no such lane.

        The lane as it was: with `runs` above 0 it is still there, and nothing was written.
        """

    def limit_lane(self, lane: str, *, delay_s: float) -> None:
        """Admit nothing for so many seconds from now; never shortens what was said before."""

    def to_enlist(self, lane: str, *, after: str, limit: int) -> list[str]:
        """Ids of live forward runs that this row is about, above `after`, in order; at most `limit`."""

    def enlisted(self, lane: str) -> None:
        """All of them queue now."""
