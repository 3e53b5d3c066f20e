"""Replays every decision of a run twice more, and finds the line of the body at which two of them part."""

from __future__ import annotations

import inspect
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

from celery_saga.core.decision import Decision, Mismatch, Raised
from celery_saga.core.records import StepKind
from celery_saga.core.replay import Suspended
from celery_saga.testing.impure import noticed
from celery_saga.testing.place import LabRegistry, Sight

__all__ = ["Parting", "Replays"]

_LOW, _HIGH = 3587, 6951
"""Seeds with which the first draws of the module `random` are all below 0.12, and all above 0.88."""

Lines = list[tuple[str, int]]
Take = Callable[[], Decision | None]


@dataclass(frozen=True, slots=True)
class Parting:
    """A body that did not do the same twice.

    Args:
        line: `file:line` where the two went different ways; of the last call where they only asked for other things.
        text: what differed.
    """

    line: str
    text: str


@dataclass(frozen=True, slots=True)
class _Pass:
    """One pass of the body: what it decided, and the lines of its file that it went through."""

    decision: Decision | None
    lines: Lines
    is_live: bool = False  # its steps were executed meanwhile: it decided more than a replay would


class Replays:
    """Watches the decisions of a registry, and repeats them.

    Args:
        registry: the sagas.
    """

    def __init__(self, registry: LabRegistry) -> None:
        self._registry = registry
        self._seen: list[tuple[Sight, _Pass]] = []
        self.doubts: dict[str, None] = {}
        """Lines on which a body reads a clock or draws by itself, in the order in which they were noticed."""

    def watch(self, sight: Sight, take: Take) -> Decision | None:
        """Let a decision be taken, and remember it."""
        done = self._traced(sight, take, sight.is_live)
        self._seen.append((sight, done))
        return done.decision

    def parting(self) -> Parting | None:
        """Replay each decision twice; what did not go as it went first. Forgets them all."""
        seen, self._seen = self._seen, []
        state = random.getstate()
        try:
            for sight, first in seen:
                again = [self._replayed(sight, seed) for seed in (_LOW, _HIGH)]
                for one, other in ((first, again[0]), (again[0], again[1]), (first, again[1])):
                    if (what := _difference(one, other)) is not None:
                        return Parting(_line(one, other), what)
            # What parks a run although each single decision can be repeated: bodies that change from one to the next.
            return next((found for _, each in seen if (found := _mismatch(each, seen[0][1])) is not None), None)
        finally:
            random.setstate(state)

    def _replayed(self, sight: Sight, seed: int) -> _Pass:
        random.seed(seed)
        return self._traced(sight, lambda: self._registry.decide(sight.snapshot, sight.now, None, sight.region))

    def _traced(self, sight: Sight, take: Take, is_live: bool = False) -> _Pass:
        run = sight.snapshot.run
        saga = self._registry.get(run.saga, run.version)
        code = None if saga is None else getattr(inspect.unwrap(saga.body), "__code__", None)
        if code is None:
            return _Pass(take(), [], is_live)
        lines: Lines = []
        before = sys.gettrace()
        sys.settrace(_tracer(code.co_filename, lines))
        try:
            with noticed(code, self.doubts):
                return _Pass(take(), lines, is_live)
        finally:
            sys.settrace(before)


def _tracer(filename: str, lines: Lines) -> Any:
    is_over = False

    def inside(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal is_over
        if event == "exception" and issubclass(arg[0], Suspended):
            is_over = True  # what `finally` does on the way out is no part of the pass
        elif event == "line" and not is_over:
            lines.append((filename, frame.f_lineno))
        return inside

    def entered(frame: FrameType, event: str, arg: Any) -> Any:
        return inside if frame.f_code.co_filename == filename else None

    return entered


def _difference(one: _Pass, other: _Pass) -> str | None:
    a, b = one.decision, other.decision
    if a is None or b is None or one.is_live or other.is_live:
        return None
    for asked, instead in zip(_asked(a), _asked(b), strict=False):
        if asked != instead:
            return f"once it asked for {_text(asked)}, and once for {_text(instead)}"
        if asked[0] is StepKind.RECORD:
            return None  # a value that is computed once: what comes after may hang on it
    if len(_asked(a)) != len(_asked(b)) or _kind_of_end(a) != _kind_of_end(b):
        return f"once it {_end_text(a)}, and once it {_end_text(b)}"
    return None


def _mismatch(each: _Pass, first: _Pass) -> Parting | None:
    end = None if each.decision is None else each.decision.end
    return Parting(_line(each, first), end.error.message) if isinstance(end, Mismatch) else None


def _asked(decision: Decision) -> list[tuple[Any, ...]]:
    return [(x.kind, x.key, x.task, x.args_digest, x.delay_s, x.at) for x in decision.orders]


def _text(asked: tuple[Any, ...]) -> str:
    kind, key, task, digest, delay_s, _ = asked
    said = f"{kind.value} {key!r}" + (f" ({task})" if task else "")
    if digest:
        said += f" with arguments {digest[:6]}"
    return said if delay_s is None else f"{said} of {delay_s:g} s"


def _kind_of_end(decision: Decision) -> object:
    end = decision.end
    return (type(end), end.error.type_name) if isinstance(end, Raised) else type(end)


def _end_text(decision: Decision) -> str:
    if decision.orders:
        return f"asked for {', '.join(_text(each) for each in _asked(decision))}"
    end = decision.end
    if end is None:
        return "waited"
    if isinstance(end, Raised):
        return f"raised {end.error.type_name}"
    return "did not fit its records" if isinstance(end, Mismatch) else "returned"


def _line(one: _Pass, other: _Pass) -> str:
    """The last line that both went through before they parted; the last one at all where they did not."""
    a, b = one.lines, other.lines
    longer = a if len(a) >= len(b) else b
    if not longer:
        return "?:0"
    parted = next((n for n, pair in enumerate(zip(a, b, strict=False)) if pair[0] != pair[1]), min(len(a), len(b)))
    file, number = longer[max(0, parted - 1)]
    return f"{file}:{number}"
