"""What the engine needs of the world: a store, a way to send wake-ups, and the sagas that this process knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from celery_saga.core.attempts import Outcome
from celery_saga.core.decision import Decision
from celery_saga.core.due import Due, DueKind
from celery_saga.core.failure import Failure
from celery_saga.core.placing import Order
from celery_saga.core.ports import Change, Claimed, Loaded, RunFilter, Store, Transition
from celery_saga.core.records import RunRecord, StepRecord
from celery_saga.core.replay import Live
from celery_saga.core.schedules import ScheduleRecord
from celery_saga.core.snapshot import Snapshot

if TYPE_CHECKING:
    from celery_saga.engine.start import NewRun

# what a store is asked for and answers with; defined below the store, so that it can import them
__all__ = ["Change", "Claimed", "Due", "DueKind", "Loaded", "RunFilter", "Store", "Transition"]
# how wake-ups are sent, and the engine's numbers
__all__ += ["Definitions", "Inline", "Limits", "Message", "Publisher", "RunMessage", "StepMessage", "TakesInline"]
__all__ += ["Watch"]


@dataclass(frozen=True, slots=True)
class StepMessage:
    """Wake-up for one step. Ids only; `run` and `step` are there for routing, headers and reprs, never for the body."""

    run: RunRecord
    step: StepRecord


@dataclass(frozen=True, slots=True)
class RunMessage:
    """Wake-up for a run, or for one part of it: sent as the task `celery_saga.coordinate`."""

    run: RunRecord
    part: StepRecord | None = None

    @property
    def part_ref(self) -> tuple[int, str] | None:
        """Generation and key of the part; None: the run itself."""
        return None if self.part is None else (self.part.generation, self.part.key)


Message = StepMessage | RunMessage


class Definitions(Protocol):
    """The sagas that this process knows, each by name and version."""

    def decide(self, snapshot: Snapshot, now: datetime, live: Live | None = None, region: str = "") -> Decision | None:
        """One pass of the body over the snapshot; None: this process does not know the run's saga and version.

        Never raises what the body raised; writes nothing, except through `live`, which executes new steps while the
        body waits for them.

        Args:
            region: of the part whose function is decided; empty: the body itself.
        Raises:
            Incomplete: the snapshot holds too few of the run's steps.
        """

    def known(self) -> Iterable[tuple[str, int]]:
        """(name, version) of each."""

    def is_declared(self, run: RunRecord, error: Failure) -> bool:
        """Whether the run's saga declares this error; False where the saga is not known."""

    def scheduled(self, schedule: ScheduleRecord, nominal_at: datetime) -> NewRun | None:
        """The run of one nominal time of a schedule, of the highest version known; nothing is written.

        Returns:
            None: no version of its saga is known that is as high as the schedule's.
        """


TakesInline = Callable[[RunRecord, Order], bool]
"""Whether the process that coordinates a run may execute this step of it, by its options, its task and its queue."""


Watch = Callable[[Transition], None]
"""Is shown a transition right after its commit, in the thread that committed it. Never raises, and is quick."""


class Inline(Protocol):
    """Executes steps in the delivery that coordinates their run, in the thread that asks."""

    owner: str  # `host:pid` of this process

    def execute(self, claimed: Claimed) -> Outcome:
        """Execute a claimed step and say how it ended, without checking that in. Keeps its lease meanwhile.

        What is no `Exception` (an exit, a shutdown) goes through: the attempt's lease will end.
        """

    def is_over(self, elapsed_s: float) -> bool:
        """The delivery is to end now, so long after it began: its worker stops, or its time limit is near."""


class Publisher(Protocol):
    """Sends wake-ups. Never raises because of the broker: what could not be sent stays due in the store."""

    def publish(self, messages: Sequence[Message]) -> int:
        """Send in order, bounded by `saga_publish_timeout` in all; how many went out. Stops at the first failure."""

    def depth(self, message: Message, *, sent_s: float | None = None) -> int:
        """Messages waiting in the queue this one would go to; 0 where it does not exist; -1 when it cannot be asked.

        Args:
            sent_s: it was sent so many seconds ago, or earlier; then also 0 where later ones have come out already.
        """


@dataclass(frozen=True, slots=True)
class Limits:
    """The engine's numbers, from settings. Seconds, bytes and counts as named."""

    lease_s: float = 30.0
    sweep_interval_s: float = 1.0
    max_stalls: int = 5
    step_timeout_s: float | None = None
    signal_ttl_s: float = 30 * 86400.0
    max_payload_bytes: int = 1024 * 1024
    max_resend_s: float = 900.0
    inline_slice_s: float = 2.0
    at_once: bool = False  # back-offs are over at once: for runs that are executed in the caller's process
