"""What the model knows at one moment: the tables, what is under way, and the outside world, as values that compare.

Times are relative: the clock always stands at `NOW`, and letting time pass moves every instant back. What cannot change
what happens next (creation times, counts of sends above two, texts of errors) is brought to one form, so that states
that behave alike are one state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from typing import Any, NamedTuple

from celery_saga.core import failure
from celery_saga.core.failure import Failure
from celery_saga.core.ports import Claimed
from celery_saga.core.records import RunRecord, SignalRecord, StepKind, StepRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepStatus

NOW = datetime(2030, 1, 1, tzinfo=UTC)
RUN_ID = "run"
VERSION = 1_000
"""The present `state_version` of the run, always; what was read before the run moved shows a lower one."""
HELD, CAREFUL, FRESH, ZOMBIE = "held", "careful", "fresh", "zombie"
"""Claim tokens: of the present claim of a step, of that of the run, of one just being made, of one that is over."""

LIVE = (StepStatus.HELD, StepStatus.SCHEDULED, StepStatus.WAITING, StepStatus.RUNNING)


class Broken(Exception):
    """A rule does not hold; the text says which."""


class Tables:
    """The stored run; equal tables are one object (`tables`), so comparing them is cheap."""

    def __init__(
        self,
        run: RunRecord,
        steps: tuple[StepRecord, ...],
        signals: tuple[SignalRecord, ...],
        volatile: tuple[StepRecord, ...],
    ) -> None:
        self.run, self.steps, self.signals = run, steps, signals
        self.volatile = volatile  # rows as they come back if the database crashes now

    @cached_property
    def snapshot(self) -> Snapshot:
        return Snapshot(self.run, {x.key: x for x in self.steps}, tuple(x for x in self.signals if x.taken_by is None))

    def instants(self) -> Iterable[datetime]:
        """Every instant ahead at which something may become due."""
        run = self.run
        ahead = [run.wake_at, run.not_before_at, run.deadline_at, run.lease_until]
        if run.status.is_end:
            ahead = []
        for step in self.steps:
            if not step.status.is_end:
                ahead += [step.wake_at, step.lease_until, step.due_at]
        ahead += [x.wake_at for x in self.signals]
        return (x for x in ahead if x is not None and x > NOW)

    @cached_property
    def is_due(self) -> bool:
        run = self.run
        works = not run.status.is_end and run.status.value != "suspended"
        rows = [run.wake_at] if works else []
        rows += [x.wake_at for x in (*self.steps, *self.signals)]
        return any(x is not None and x <= NOW for x in rows)


_TABLES: dict[Any, Tables] = {}


def tables(
    run: RunRecord,
    steps: Iterable[StepRecord],
    signals: tuple[SignalRecord, ...] = (),
    volatile: Iterable[StepRecord] = (),
    *,
    later_s: float = 0.0,
) -> Tables:
    """The one `Tables` of this content in canonical form, `later_s` seconds later."""
    by = timedelta(seconds=later_s)
    ranks = _ranks(steps)
    content = (
        _run(run, by, len(ranks)),
        tuple(_step(x, by, ranks) for x in steps),
        tuple(_signal(x, by) for x in signals),
        tuple(_step(x, by, ranks) for x in volatile),
    )
    return _TABLES.setdefault(content, Tables(*content))


def forget_tables() -> None:
    _TABLES.clear()


def _ranks(steps: Iterable[StepRecord]) -> dict[int, int]:
    return {seq: n for n, seq in enumerate(sorted(x.seq for x in steps if x.seq is not None), start=1)}


def _ahead(at: datetime | None, by: timedelta) -> datetime | None:
    return None if at is None else max(at - by, NOW)


def _run(run: RunRecord, by: timedelta, step_seq: int) -> RunRecord:
    return replace(
        run,
        created_at=NOW,
        updated_at=NOW,
        sent_at=None,
        attention_at=None if run.attention_at is None else NOW,
        started_at=NOW,
        state_version=VERSION,
        history_seq=0,
        step_seq=step_seq,
        sends=min(run.sends, 2),
        claim_token=None if run.claim_token is None else CAREFUL,
        error_text=_error(run.error_text),
        ended_at=None if run.ended_at is None else NOW,
        wake_at=_ahead(run.wake_at, by),
        not_before_at=_ahead(run.not_before_at, by),
        deadline_at=None if run.status.is_end else _ahead(run.deadline_at, by),
        lease_until=_ahead(run.lease_until, by),
    )


def _step(step: StepRecord, by: timedelta, ranks: dict[int, int]) -> StepRecord:
    in_time = step.due_at is not None and step.ended_at is not None and step.ended_at < step.due_at
    due_at = _ahead(step.due_at, by)
    if step.status.is_end and step.due_at is not None:
        due_at = NOW + timedelta(seconds=1) if in_time else NOW
    timed = step.status is StepStatus.RUNNING and '"timeout_s"' in step.spec_text and step.started_at is not None
    return replace(
        step,
        created_at=NOW,
        sent_at=None,
        started_at=step.started_at - by if timed else None,
        ended_at=None if step.ended_at is None else NOW,
        due_at=due_at,
        wake_at=_ahead(step.wake_at, by),
        lease_until=_ahead(step.lease_until, by),
        attempt=min(step.attempt, 1),
        sends=min(step.sends, 2),
        seq=None if step.seq is None else ranks.get(step.seq, 0),
        claim_token=None if step.claim_token is None else HELD,
        owner=None,
        error_text=_error(step.error_text),
    )


def _signal(signal: SignalRecord, by: timedelta) -> SignalRecord:
    return replace(
        signal, received_at=NOW, wake_at=_ahead(signal.wake_at, by), expires_at=_ahead(signal.expires_at, by)
    )


@cache
def _error(text: str | None) -> str | None:
    if text is None:
        return None
    error = failure.from_text(text)
    return failure.to_text(Failure(error.type_name, error.type_names, "", code=error.code))


class Mail(NamedTuple):
    """A message under way; `step` None: for the run."""

    step: str | None = None
    generation: int = 0
    is_part: bool = False

    def __str__(self) -> str:
        return "the wake-up of the run" if self.step is None else f"the message of {self.step}"


class Alike:
    """Compares by `key`, so that what cannot matter any more does not make two states of one."""

    __slots__ = ("_hash", "key")

    def __init__(self, *key: Any) -> None:
        self.key = key
        self._hash = hash(key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Alike) and self.key == other.key

    def __hash__(self) -> int:
        return self._hash


class Attempt(Alike):
    """A process that has claimed a step. `seen`: what it read at the claim, while the run has not moved since.

    `answers`: of the calls of a transaction whose commit was not heard of; none where there is no such doubt.
    """

    __slots__ = ("answers", "claimed", "generation", "has_acted", "is_part", "is_zombie", "seen", "step")

    def __init__(
        self,
        claimed: Claimed,
        seen: Tables | None,
        *,
        has_acted: bool,
        is_zombie: bool,
        answers: tuple[Any, ...] = (),
    ) -> None:
        self.claimed, self.seen, self.has_acted, self.is_zombie = claimed, seen, has_acted, is_zombie
        self.answers = answers
        self.step, self.generation = claimed.step.key, claimed.step.generation
        failures = claimed.step.failures
        self.is_part = claimed.step.kind is StepKind.PART
        super().__init__(self.step, self.generation, failures, has_acted, is_zombie, bool(answers), seen)

    @property
    def order(self) -> tuple[Any, ...]:
        return *self.key[:-1], self.seen is None


class Activity(Alike):
    """A verb of the engine in the middle of its work.

    `next_call` is the call to the store that it makes next, `tries` how many of its decisions came too late, `token`
    what its claim on the run is worth, `holds` what its claim on a step is, `seen` what it has read, while the run has
    not moved since.
    """

    __slots__ = ("answers", "next_call", "seen", "token", "tries", "verb")

    def __init__(
        self,
        verb: str,
        next_call: str,
        tries: int = 0,
        token: str | None = None,
        seen: Tables | None = None,
        answers: tuple[Any, ...] = (),
        holds: tuple[Any, ...] = (),
    ) -> None:
        self.verb, self.next_call, self.tries = verb, next_call, tries
        self.token, self.seen, self.answers = token, seen, answers
        super().__init__(verb, next_call, tries, token or "", holds, seen)

    @property
    def order(self) -> tuple[Any, ...]:
        return *self.key[:-1], self.seen is None


class Outside(NamedTuple):
    """The services that the steps call. They go by idempotency keys: a repeat, or one once undone, changes nothing.

    `effects` and `undone` are keys of steps with an undo, in the order of their first effect and of its reversal;
    `bare` those of steps without; `undo_keys` are the keys under which the undos were called; `checkpoints` what was
    checked in as done.
    """

    effects: tuple[str, ...] = ()
    bare: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()
    undo_keys: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()


class State(NamedTuple):
    """One moment. `faults_left` bounds what may still go wrong, `events_left` what may still come from outside."""

    tables: Tables
    mail: tuple[Mail, ...]
    attempts: tuple[Attempt, ...]
    activities: tuple[Activity, ...]
    outside: Outside
    events_left: tuple[str, ...]
    faults_left: int

    def __str__(self) -> str:
        run = self.tables.run
        text = [f"run {run.status}{'' if run.wake_at is None else '*'}"]
        text += [_shown(x) for x in self.tables.steps]
        text += [f"signal {x.name}{' taken' if x.taken_by else ''}" for x in self.tables.signals]
        text += [f"outside {', '.join(_name(x) for x in self.outside.effects)}"] if self.outside.effects else []
        text += [f"undone {', '.join(_name(x) for x in self.outside.undone)}"] if self.outside.undone else []
        return "; ".join(text)


def _shown(step: StepRecord) -> str:
    return f"{step.key} {step.status}{' maybe' if step.maybe else ''}{'' if step.wake_at is None else '*'}"


def _name(idempotency_key: str) -> str:
    return idempotency_key.split(":", 1)[1]


def is_undo(step: StepRecord) -> bool:
    return step.kind is StepKind.UNDO
