"""What is asked for and kept beside a run or a step: its policies, as values that turn into JSON and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import lru_cache
from typing import Any

from celery_saga.core.retry import Retry


@dataclass(frozen=True, slots=True)
class Call:
    """A Celery task to execute: a signature without Celery. `args_text` is codec text of `[args, kwargs]`."""

    task: str
    args_text: str = "[[], {}]"
    immutable: bool = True  # False: gets the step's result first, as a Celery callback does
    options: Mapping[str, Any] = field(default_factory=dict)  # queue, priority, time_limit, ... as given to .set()


@dataclass(frozen=True, slots=True)
class UndoSpec:
    """How a step is reversed."""

    call: Call
    retry: Mapping[str, Any] | None = None  # retry.to_plain(); None: the saga's or the default undo policy
    unknown: str = "call"  # call | park | skip: what to do when the step's outcome is unknown


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What a step that starts a run knows of it; the other half are the step's task (the saga) and arguments.

    `run_text` is a RunSpec; the other fields are as of a start, `eta_text` in ISO format. `is_detached`: it is nobody's
    child once it has started.
    """

    version: int
    input_digest: str
    run_text: str = "{}"
    key: str | None = None
    countdown_s: float | None = None
    eta_text: str | None = None
    deadline_s: float | None = None
    priority: int | None = None  # None: nothing was said; a child has its parent's, a detached one 0
    lane: str | None = None
    tags: tuple[str, ...] = ()
    queue: str | None = None
    is_detached: bool = False

    @property
    def eta(self) -> datetime | None:
        """The instant of its first decision, aware UTC; None: at once, or after `countdown_s`."""
        return None if self.eta_text is None else datetime.fromisoformat(self.eta_text)


@dataclass(frozen=True, slots=True)
class ChordSpec:
    """What a task hung on signals waits for: names in order, and codec texts of the values it has seen, by name."""

    header: tuple[str, ...]
    heard: Mapping[str, str] = field(default_factory=dict)
    immutable: bool = False  # True: it does not get the values

    @property
    def is_complete(self) -> bool:
        """It has seen a signal of each name."""
        return all(name in self.heard for name in self.header)


@dataclass(frozen=True, slots=True)
class StepSpec:
    """Policies of a step, stored in `StepRecord.spec_text`."""

    options: Mapping[str, Any] = field(default_factory=dict)
    undo: UndoSpec | None = None
    retry: Mapping[str, Any] | None = None  # None: the task's own policy applies
    timeout_s: float | None = None
    dispatch: str | None = None
    remote: bool = False
    has_default: bool = False  # of a wait: a time-out gives `default_text` instead of raising
    default_text: str = "null"
    on_failure: str = "abort"  # of a join: abort | collect | race
    need: int | None = None  # of a wait for several signals: how many of them complete it; None: all
    concurrency: int | None = None  # of a join: how many of its parts may be in flight
    transactional: bool = False
    is_pivot: bool = False
    child: ChildSpec | None = None  # of a step that starts a run, and of the undo of that
    chord: ChordSpec | None = None  # of a task hung on signals

    def to_text(self) -> str:
        """JSON without the fields that have their default."""
        if self == _NO_POLICIES:
            return "{}"
        return _text_of(self, _STEP_DEFAULTS)

    @classmethod
    def from_text(cls, text: str) -> StepSpec:
        """The inverse of `to_text`."""
        if text == "{}":
            return _NO_POLICIES
        # An attempt asks for the same policies a dozen times.
        return _read(text) if len(text) <= _KEPT_CHARS else _read.__wrapped__(text)


_KEPT, _KEPT_CHARS = 512, 2_000
_NO_POLICIES = StepSpec()
_STEP_DEFAULTS = {each.name: getattr(_NO_POLICIES, each.name) for each in fields(StepSpec)}


@lru_cache(maxsize=_KEPT)
def _read(text: str) -> StepSpec:
    plain = json.loads(text)
    undo = plain.pop("undo", None)
    if undo is not None:
        undo = UndoSpec(call=Call(**undo.pop("call")), **undo)
    child = plain.pop("child", None)
    if child is not None:
        child = ChildSpec(**{**child, "tags": tuple(child["tags"])})
    chord = plain.pop("chord", None)
    if chord is not None:
        chord = ChordSpec(**{**chord, "header": tuple(chord["header"])})
    return StepSpec(undo=undo, child=child, chord=chord, **plain)


def _text_of(spec: StepSpec | RunSpec, defaults: Mapping[str, Any]) -> str:
    said = {name: value for name, default in defaults.items() if (value := getattr(spec, name)) != default}
    return json.dumps(said, separators=(",", ":"), default=_plain)


def _plain(spec: Any) -> dict[str, Any]:
    return {each.name: getattr(spec, each.name) for each in fields(spec)}


@dataclass(frozen=True, slots=True)
class RunSpec:
    """What the definition said when the run started, so that any worker can undo it; in `RunRecord.spec_text`."""

    on_failure: str = "compensate"  # compensate | suspend
    on_bug: str = "suspend"  # suspend | compensate
    on_undo_failure: str = "continue"  # continue | hold
    undo_retry: Mapping[str, Any] | None = None
    retry: Mapping[str, Any] | None = None  # of the body itself
    signals: tuple[str, ...] | None = None  # declared names; None: any name
    dispatch: str | None = None
    deadline_s: float | None = None  # counted anew by an operator's retry
    lane: Mapping[str, Any] | None = None  # what the code says of the run's lane: admission.LaneSpec, as a mapping

    def to_text(self) -> str:
        """JSON without the fields that have their default."""
        return _text_of(self, _RUN_DEFAULTS)

    @classmethod
    def from_text(cls, text: str) -> RunSpec:
        """The inverse of `to_text`."""
        if text == "{}":
            return _NO_SAYING
        plain = json.loads(text)
        signals = plain.pop("signals", None)
        return cls(signals=None if signals is None else tuple(signals), **plain)


_NO_SAYING = RunSpec()
_RUN_DEFAULTS = {each.name: getattr(_NO_SAYING, each.name) for each in fields(RunSpec)}

UNDO_RETRY = Retry(max_attempts=300, delay=1, factor=2.0, max_delay=300)
"""The default policy of an undo: it spans 24 h (8 doublings up to 300 s, then one try every 5 minutes)."""
