"""The small sagas whose every interleaving is walked through, and what may happen to each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from celery_saga.core.decision import Decision
from celery_saga.core.failure import Failure
from celery_saga.core.orders import Call, RunSpec, StepSpec, UndoSpec
from celery_saga.core.placing import Order
from celery_saga.core.records import RunRecord, StepKind, StepRecord
from celery_saga.core.replay import Replay, decide
from celery_saga.core.retry import Retry
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepStatus
from celery_saga.engine.ports import Limits

SAGA, SAGA_VERSION = "small", 1


class Declined(Exception):
    """The business error that the sagas declare."""


class Fault(Exception):
    """What a step raises that nobody declared."""


@dataclass(frozen=True)
class Scenario:
    """One saga and the world around it.

    Args:
        name: what it is called in messages.
        body: the user's function.
        ends: the statuses in which the run comes to rest, each of them somewhere.
        least_states: so many states are reached at least.
        fails: for each step key, how many of its first attempts raise `Declined`; -1: all of them.
        heals: nothing of it fails any more once the run has started over.
        events: what may come from outside, each once, at any moment: cancel, cancel by row, signal, suspend, resume,
            retry, retry undo, resolve undo.
        faults: how many crashes, losses, repeats and delays may happen in all.
        max_stalls: attempts of a step, or careful advances, that may end unseen.
        deadline_s: of the run.
        spec: what the definition said.
        splits_sweeps: other processes come in between the calls of one tick of the sweeper.
        reports: a crash may be reported by the pool at once.
        renews: a living holder may prolong its lease at any time.
    """

    name: str
    body: Callable[[Replay], str]
    ends: tuple[str, ...]
    least_states: int
    fails: Mapping[str, int] = field(default_factory=dict)
    heals: bool = False
    events: tuple[str, ...] = ()
    faults: int = 2
    max_stalls: int = 1
    deadline_s: float | None = None
    spec: RunSpec = field(default_factory=RunSpec)
    splits_sweeps: bool = False
    reports: bool = False
    renews: bool = False

    def raises(self, step: StepRecord) -> bool:
        """Whether this attempt of the step, as claimed, raises instead of having its effect."""
        times = self.fails.get(step.key, 0)
        return (times < 0 or step.failures < times) and not (self.heals and step.born > 1)

    @property
    def limits(self) -> Limits:
        """The engine's numbers; the instants of a run are multiples of 10 s, so that there are few of them."""
        return Limits(lease_s=30.0, max_stalls=self.max_stalls, max_resend_s=30.0)

    # -- the definitions that a process knows ------------------------------------------------------------------
    def decide(self, snapshot: Snapshot, now: datetime, live: Any = None, region: str = "") -> Decision | None:
        return decide(self.body, Replay(snapshot, now, _rebuild, live, region), (Declined,))

    def known(self) -> Iterable[tuple[str, int]]:
        return [(SAGA, SAGA_VERSION)]

    def is_declared(self, run: RunRecord, error: Failure) -> bool:
        return False


def _rebuild(error: Failure, step: StepRecord) -> BaseException:
    return Declined(step.key) if error.type_name.endswith("Declined") else Fault(step.key)


def step(
    run: Replay,
    key: str,
    *,
    undo: bool = True,
    unknown: str = "call",
    retry: Retry | None = None,
    timeout_s: float | None = None,
    transactional: bool = False,
) -> None:
    """Order a step, or go on where it is done, or raise where it failed."""
    spec = StepSpec(
        undo=UndoSpec(Call(f"undo_{key}"), unknown=unknown) if undo else None,
        retry=None if retry is None else retry.to_plain(),
        timeout_s=timeout_s,
        transactional=transactional,
    )
    _settled(run, run.ask(StepKind.STEP, key, task=key, make=lambda: _order(StepKind.STEP, key, spec)))


def wait(run: Replay, key: str, *, timeout: timedelta | None = None) -> None:
    """Wait for the signal of this name; raise when its time is up."""
    delay_s = None if timeout is None else timeout.total_seconds()
    order = _order(StepKind.SIGNAL, key, StepSpec(), delay_s)
    _settled(run, run.ask(StepKind.SIGNAL, key, task=key, make=lambda: order))


def sleep(run: Replay, delay: timedelta) -> None:
    order = _order(StepKind.TIMER, "sleep", StepSpec(), delay.total_seconds())
    _settled(run, run.ask(StepKind.TIMER, "sleep", make=lambda: order))


def _order(kind: StepKind, key: str, spec: StepSpec, delay_s: float | None = None) -> Order:
    return Order(kind, key, "", 0, spec_text=spec.to_text(), delay_s=delay_s)


def _settled(run: Replay, got: StepRecord | Order) -> None:
    if isinstance(got, StepRecord) and got.status is not StepStatus.DONE:
        raise run.failed(got)


# -- bodies ------------------------------------------------------------------------------------------------------
def one_step(run: Replay) -> str:
    step(run, "a")
    return "null"


def two_with_undos(run: Replay) -> str:
    step(run, "a")
    step(run, "b")
    return "null"


def one_without_undo(run: Replay) -> str:
    step(run, "a")
    step(run, "b", undo=False)
    return "null"


def bare_first(run: Replay) -> str:
    step(run, "a", undo=False)
    step(run, "b")
    return "null"


def waits_between(run: Replay) -> str:
    step(run, "a")
    wait(run, "go", timeout=timedelta(seconds=60))
    step(run, "b")
    return "null"


def waits_first(run: Replay) -> str:
    wait(run, "go", timeout=timedelta(seconds=60))
    step(run, "a")
    return "null"


def waits_for_ever(run: Replay) -> str:
    wait(run, "go")
    step(run, "a")
    return "null"


def sleeps_first(run: Replay) -> str:
    sleep(run, timedelta(seconds=20))
    step(run, "a")
    return "null"


def takes_a_detour(run: Replay) -> str:
    step(run, "a")
    try:
        step(run, "b")
    except (Declined, Fault):
        step(run, "c")
    return "null"


def is_flaky(run: Replay) -> str:
    step(run, "a")
    step(run, "b", retry=Retry(max_attempts=2, delay=20, jitter=False))
    return "null"


def is_timed(run: Replay) -> str:
    step(run, "a")
    step(run, "b", timeout_s=40)
    return "null"


def needs_its_result(run: Replay) -> str:
    step(run, "a")
    step(run, "b", unknown="park")
    return "null"


_FAILED = ("failed", "compensation_failed")
_DONE = ("completed", "failed")
_CANCELLED = ("completed", "failed", "cancelled")
_ANY = ("completed", "failed", "cancelled", "compensation_failed")
_BY_ROW = ("completed", "cancelled")
_WAITS = ("waiting", "cancelled")
_ONCE = Retry(max_attempts=1).to_plain()
_GOES_ON = RunSpec(undo_retry=_ONCE)
_HOLDS = RunSpec(undo_retry=_ONCE, on_undo_failure="hold")
_ASKS = RunSpec(on_failure="suspend")
_TRIES_AGAIN = RunSpec(retry=Retry(max_attempts=2, delay=20, jitter=False).to_plain())

SCENARIOS = (
    Scenario("one step", one_step, _DONE, 50_000, faults=3, max_stalls=2),
    Scenario("two steps", two_with_undos, _DONE, 7_000),
    Scenario("two steps, cancelled", two_with_undos, _ANY, 65_000, events=("cancel",)),
    Scenario("cancelled by a row", two_with_undos, _BY_ROW, 4_000, events=("cancel by row",), faults=1),
    Scenario("waiting, and cancelled by a row", waits_for_ever, _WAITS, 250, events=("cancel by row",), faults=1),
    Scenario("one without undo", one_without_undo, _ANY, 40_000, events=("cancel",)),
    Scenario("the first without undo", bare_first, _ANY, 28_000, events=("cancel",)),
    Scenario("a wait first", waits_first, _DONE, 20_000, events=("signal",)),
    Scenario("a wait first, signalled twice", waits_first, _DONE, 6_500, events=("signal", "signal"), faults=1),
    Scenario("a wait between", waits_between, _DONE, 3_900, events=("signal",), faults=1),
    Scenario("a wait between, cancelled", waits_between, _CANCELLED, 24_000, events=("signal", "cancel"), faults=1),
    Scenario("a wait for ever", waits_for_ever, (*_DONE, "waiting"), 11_000, events=("signal",)),
    Scenario("a sleep", sleeps_first, ("completed",), 210, faults=1),
    Scenario("fails for good", two_with_undos, _FAILED, 12_000, fails={"b": -1}),
    Scenario("flaky", is_flaky, _DONE, 5_500, fails={"b": 1}),
    Scenario("a detour", takes_a_detour, _DONE, 19_000, fails={"b": -1}),
    Scenario("a deadline", two_with_undos, _DONE, 2_900, deadline_s=20.0, renews=True),
    Scenario("a time-out", is_timed, _DONE, 7_000, renews=True),
    Scenario("suspended", two_with_undos, ("completed", "suspended"), 8_000, events=("suspend", "resume"), faults=1),
    Scenario("a sweep in pieces", two_with_undos, _DONE, 8_000, splits_sweeps=True),
    Scenario("retried", two_with_undos, _DONE, 900, fails={"b": -1}, heals=True, events=("retry",), faults=1),
    Scenario(
        "an undo fails",
        two_with_undos,
        ("compensation_failed", "suspended"),  # parked where it was used up on the way forward
        11_000,
        fails={"b": -1, "a!undo": -1},
        spec=_GOES_ON,
    ),
    Scenario(
        "an undo is held",
        two_with_undos,
        ("suspended",),
        390,
        fails={"b": -1, "a!undo": -1},
        spec=_HOLDS,
        events=("retry undo",),
        faults=1,
    ),
    Scenario(
        "asks on failure",
        two_with_undos,
        ("suspended", "cancelled"),
        12_000,
        fails={"b": -1},
        spec=_ASKS,
        events=("resume", "cancel"),
        faults=1,
    ),
    Scenario("tries again", two_with_undos, ("failed",), 2_600, fails={"b": -1}, spec=_TRIES_AGAIN, faults=1),
    Scenario(
        "tries again and heals", two_with_undos, _DONE, 2_600, fails={"b": -1}, heals=True, spec=_TRIES_AGAIN, faults=1
    ),
    Scenario("lost at once", two_with_undos, _ANY, 2_500, events=("cancel",), faults=1, max_stalls=0, reports=True),
    Scenario(
        "unknown",
        needs_its_result,
        (*_ANY, "suspended"),
        1_500,
        events=("resolve undo", "cancel"),
        faults=1,
        max_stalls=0,
    ),
)
