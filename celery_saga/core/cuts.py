"""Where a run that starts over is cut: which of its records a new generation keeps, and which it leaves behind.

Theory of operation. What the body itself asks for stands in a line: a step, a scope with what is in it, a join with all
its parts. The cut is a place in that line, the earliest of what has to be done again; everything from there on is cut.
A join at the cut is kept with the parts that are done and still count: only the others are cut, each with all that is
in it, and ordered anew. A scope that was left by an error, and a part that lost a race, are undone for good where the
cut lies behind them; where it lies within, what was undone there has to be done again too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from celery_saga.core.focus import Extent, is_inside
from celery_saga.core.joins import winner
from celery_saga.core.orders import StepSpec
from celery_saga.core.pivot import is_pivot
from celery_saga.core.places import has_place
from celery_saga.core.records import StepKind, StepRecord, undo_key
from celery_saga.core.refusals import not_allowed
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepStatus

Place = tuple[int, ...]
"""A place in the body: the ordinals of the scopes around it, and its own."""


def cut_of_retry(s: Snapshot, from_step: str | None) -> list[str]:
    """Keys that a retry cuts: from the earliest of the named step, the step that failed the run, and what was undone.

    Raises:
        IllegalTransition: there is no step of that name; nothing was changed.
    """
    named = None if from_step is None else s.steps.get(from_step)
    if from_step is not None and (named is None or not (has_place(named) or named.join_key is not None)):
        why = f"there is no step {from_step!r} in generation {s.run.generation} to start over from"
        raise not_allowed(s, "retry", why)
    s.need(Extent.ALL)
    cutting = _Cutting(s)
    seeds = {x for x in (from_step, s.run.error_step) if x is not None and x in s.steps}
    seeds |= {x.key for x in cutting.undone()} | {x.key for x in cutting.broken_off()}
    return cutting.keys(seeds, whole=from_step)


def cut_from(s: Snapshot, key: str) -> list[str]:
    """Keys that are cut so that this step, or what is not done in this join, is executed again."""
    s.need(Extent.ALL)
    return _Cutting(s).keys({key})


def is_followed(s: Snapshot, key: str) -> bool:
    """The body has ordered something after this step, which may rest on its outcome; marks do not."""
    cutting = _Cutting(s)
    mine = cutting.place(key)
    others = (x for x in s.steps.values() if has_place(x) and x.kind is not StepKind.MARK and "[" not in x.key)
    return any(cutting.place(x.key) > mine for x in others)


def goes_back(s: Snapshot, key: str) -> bool:
    """To execute this step again would take the run back to before its pivot."""
    return s.run.pivoted and not is_reopenable(s, key) and any(is_pivot(s.steps[each]) for each in cut_from(s, key))


def is_reopenable(s: Snapshot, key: str) -> bool:
    """It can be executed again where it is: nothing follows it, it was not undone, and it is a task or a wait."""
    step = s.steps[key]
    if step.kind in (StepKind.CHILD, StepKind.JOIN) or undo_key(key) in s.steps:
        return False
    cutting = _Cutting(s)
    mine = cutting.place(key)
    if any(x.kind is StepKind.ROLLBACK and is_inside(key, x.undo_of or "") for x in s.steps.values()):
        return False
    return all(cutting.place(x.key) <= mine for x in s.steps.values() if has_place(x) and "[" not in x.key)


def in_line(key: str) -> str:
    """The step of the body itself that this one is, or lies in: itself, or the outermost join around it."""
    return key.partition("[")[0]


class _Cutting:
    """What is needed to know of one snapshot."""

    def __init__(self, s: Snapshot) -> None:
        self._s = s
        self._for_good = {
            x.undo_of or "" for x in s.steps.values() if x.kind is StepKind.ROLLBACK and x.status is StepStatus.DONE
        }
        self._lost = self._losers()

    def place(self, key: str) -> Place:
        """Where the step stands in the body, or the join or scope that it lies in or belongs to."""
        pieces = in_line(key).partition("!")[0].split("/")
        rows = (self._s.steps.get("/".join(pieces[: number + 1])) for number in range(len(pieces)))
        return tuple(-1 if row is None else row.ordinal for row in rows)

    def undone(self) -> Iterator[StepRecord]:
        """Steps that were undone, but not for good."""
        for step in self._s.steps.values():
            if step.kind is not StepKind.UNDO and undo_key(step.key) in self._s.steps and not self._is_for_good(step):
                yield step

    def broken_off(self) -> Iterator[StepRecord]:
        """Steps of the body itself that were cancelled or lost."""
        for step in self._s.steps.values():
            is_over = step.status in (StepStatus.CANCELLED, StepStatus.LOST)
            if is_over and has_place(step) and "[" not in step.key and not self._is_for_good(step):
                yield step

    def keys(self, seeds: Iterable[str], *, whole: str | None = None) -> list[str]:
        """Keys to cut, those of undos too, so that all of `seeds` are done again; `whole`: a join that is cut whole."""
        wanted = set(seeds)
        if not wanted:
            return []
        cut = min(map(self.place, wanted))
        while reopened := [x for x in self._for_good if _lies_in(cut, self.place(x)) and "[" not in x]:
            self._for_good.difference_update(reopened)
            inside = {x.key for x in self.undone() if any(is_inside(x.key, scope) for scope in reopened)}
            cut = min([cut, *map(self.place, inside)])
            wanted |= inside
        join = next((x for x in self._s.steps.values() if x.kind is StepKind.JOIN and self._is_at(x, cut)), None)
        parts = None if join is None or join.key == whole else self._parts(join, wanted)
        return [x.key for x in self._s.steps.values() if self._is_cut(x, cut, parts)]

    def _is_at(self, step: StepRecord, cut: Place) -> bool:
        return "[" not in step.key and self.place(step.key) == cut

    def _parts(self, join: StepRecord, seeds: set[str]) -> set[str] | None:
        """The parts of a join that are cut; None: it is cut whole."""
        if StepSpec.from_text(join.spec_text).on_failure == "race":
            return None
        again = {_part_in_line(x.key) for x in self.undone()} | {_part_in_line(x) for x in seeds}
        parts = [x for x in self._s.steps.values() if x.join_key == join.key]
        missing = {x.key for x in parts if x.status is not StepStatus.DONE or x.key in again}
        return missing if 0 < len(missing) < len(parts) else None

    def _is_cut(self, step: StepRecord, cut: Place, parts: set[str] | None) -> bool:
        if step.kind is StepKind.PATCH and "[" not in step.key:
            return False  # it has no place; where nothing is behind it, it would be given again
        place = self.place(step.key)
        if step.kind is StepKind.ROLLBACK and "[" not in step.key and _lies_in(cut, place):
            return True
        if place != cut:
            return place > cut
        return parts is None or _part_in_line(step.key) in parts

    def _is_for_good(self, step: StepRecord) -> bool:
        return any(is_inside(step.key, prefix) for prefix in self._for_good) or _part_in_line(step.key) in self._lost

    def _losers(self) -> set[str]:
        """Parts that lost a race of the body itself."""
        won: dict[str, str] = {}
        for join in self._s.steps.values():
            if join.kind is StepKind.JOIN and join.status is StepStatus.DONE and "[" not in join.key:
                first = winner(self._s, join) if StepSpec.from_text(join.spec_text).on_failure == "race" else None
                won |= {} if first is None else {join.key: first.key}
        return {x.key for x in self._s.steps.values() if x.join_key in won and x.key != won[x.join_key]}


def _lies_in(place: Place, scope: Place) -> bool:
    return place[: len(scope)] == scope


def _part_in_line(key: str) -> str:
    """The outermost part that a step is, or lies in; empty where it lies in none."""
    end = key.find("]")
    return key[: end + 1] if end >= 0 else ""
