"""What a run's steps look like over time: few rows, however many steps there are.

Up to ROWS steps each has a row. Above that, steps of one family share one (`label[0]` and `label[1]`, `charge` and
`charge#2`); above ROWS families, neighbours do. A shared row is cut into CELLS cells of time, and tells of each the
worst that happened in it, so the picture has a bounded size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from contrib_django.admin.scale import Scale, elastic

__all__ = ["CELLS", "ROWS", "Bar", "Look", "Mark", "Row", "Stroke", "Timeline", "timeline"]

ROWS = 40
CELLS = 80


class Look(StrEnum):
    """How a bar is drawn; worse ones later."""

    DONE = "done"
    CANCELLED = "cancelled"
    WAIT = "wait"  # for a signal, a time or another run
    QUEUED = "queued"  # ordered, and not begun; between attempts
    RUNNING = "running"
    UNDO = "undo"
    FAILED = "failed"
    LOST = "lost"  # an attempt ended unseen
    UNDO_FAILED = "undo_failed"


_WORSE = {look: number for number, look in enumerate(Look)}
_WAITS = frozenset({"signal", "timer", "child", "join", "part"})
_POINTS = frozenset({"record", "patch", "mark"})
_LIVE = frozenset({"held", "scheduled", "waiting", "running"})


class Stroke(NamedTuple):
    """One step as it is drawn.

    Args:
        key, generation: its name.
        kind, status: values of StepKind and StepStatus.
        attempt, failures, stalls: claims of it, and how many of them raised, or ended unseen.
        created_at, started_at, ended_at: when it was ordered, its last attempt began, it ended.
    """

    key: str
    generation: int
    kind: str
    status: str
    attempt: int
    failures: int
    stalls: int
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class Mark(NamedTuple):
    """An attempt of a step that did not succeed: when that was seen, and `fail`, `lost`, `timeout` or `cancel`."""

    key: str
    generation: int
    at: datetime
    action: str
    attempt: int | None = None


class Bar(NamedTuple):
    """A piece of a row, from place to place in [0, 1]; `is_open`: it goes on."""

    look: Look
    begin: float
    end: float
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the picture.

    Args:
        label: key of its step, or what its steps have in common.
        steps: how many.
        told: their statuses, in words.
        bars: from left to right; later ones lie above.
        marks: places of attempts that did not succeed, with what became of them.
        step: key and generation of its only step; None: it has several.
    """

    label: str
    steps: int
    told: str
    bars: Sequence[Bar]
    marks: Sequence[tuple[float, str]]
    step: tuple[str, int] | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """The picture.

    Args:
        begin, end: of the time that it shows.
        scale: where an instant lies.
        rows: from top to bottom.
        steps: how many steps it tells of.
        is_shared: some rows have several steps.
    """

    begin: datetime
    end: datetime
    scale: Scale
    rows: Sequence[Row]
    steps: int
    is_shared: bool


@dataclass(slots=True)
class _Group:
    label: str
    strokes: list[Stroke] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)


def timeline(
    strokes: Iterable[Stroke], marks: Iterable[Mark], *, begin: datetime, end: datetime | None, now: datetime
) -> Timeline:
    """The picture of a run.

    Args:
        strokes: its steps, in the order in which they were ordered.
        marks: attempts that did not succeed.
        begin, end: of the run; None: it has not ended.
        now: how far a run that has not ended is drawn.
    """
    drawn, tried = list(strokes), list(marks)
    last = max((at for each in drawn if (at := each.ended_at)), default=begin)
    end = max(end or now, last)
    scale = elastic(begin, end, (span for each in drawn if (span := _work(each, end)) is not None))
    groups, by_key = _grouped(drawn), {}
    for group in groups:
        for each in group.strokes:
            by_key[each.key, each.generation] = group
    for mark in tried:
        if (mark.key, mark.generation) in by_key:
            by_key[mark.key, mark.generation].marks.append(mark)
    rows = [_row(group, scale, end) for group in groups]
    return Timeline(begin, end, scale, rows, len(drawn), any(row.steps > 1 for row in rows))


def _work(stroke: Stroke, end: datetime) -> tuple[datetime, datetime] | None:
    """When its last attempt ran; None where nothing worked."""
    if stroke.kind in _WAITS or stroke.started_at is None or stroke.status == "scheduled":
        return None
    return stroke.started_at, stroke.ended_at or end


_INDEX = re.compile(r"\[[^\]]*\]")
_REPEAT = re.compile(r"#\d+")


def _family(stroke: Stroke) -> str:
    return _REPEAT.sub("#*", _INDEX.sub("[*]", stroke.key)) if "[" in stroke.key or "#" in stroke.key else stroke.key


def _grouped(strokes: list[Stroke]) -> list[_Group]:
    if len(strokes) <= ROWS:
        return [_Group(_label(each), [each]) for each in strokes]
    families: dict[str, _Group] = {}
    for each in strokes:
        name = _family(each)
        # `charge` is the first of `charge#2`, `charge#3`.
        group = families.get(name.replace("#*", "")) or families.setdefault(name.replace("#*", ""), _Group(name))
        group.strokes.append(each)
    groups = list(families.values())
    for group in groups:
        if len(group.strokes) == 1:
            group.label = _label(group.strokes[0])
    if len(groups) <= ROWS:
        return groups
    size = -(-len(groups) // ROWS)
    return [_together(groups[first : first + size]) for first in range(0, len(groups), size)]


def _together(groups: list[_Group]) -> _Group:
    first, last = groups[0].label, groups[-1].label
    return _Group(
        first if len(groups) == 1 else f"{first} … {last}", [each for group in groups for each in group.strokes]
    )


def _label(stroke: Stroke) -> str:
    return stroke.key if stroke.generation == 1 else f"{stroke.key} (generation {stroke.generation})"


def _row(group: _Group, scale: Scale, end: datetime) -> Row:
    bars = [bar for each in group.strokes for bar in _bars(each, scale, end)]
    marks = [(scale.place(mark.at), mark.action) for mark in group.marks]
    only = group.strokes[0] if len(group.strokes) == 1 else None
    if only is None:
        bars = _cells(bars)
    step = None if only is None else (only.key, only.generation)
    return Row(group.label, len(group.strokes), _told(group.strokes), bars, _thinned(marks), step)


def _told(strokes: list[Stroke]) -> str:
    if len(strokes) == 1:
        only = strokes[0]
        return only.status if only.attempt <= 1 else f"{only.status}, {only.attempt} attempts"
    counts: dict[str, int] = {}
    for each in strokes:
        counts[each.status] = counts.get(each.status, 0) + 1
    return ", ".join(f"{count} {status}" for status, count in sorted(counts.items(), key=lambda item: -item[1]))


def _bars(stroke: Stroke, scale: Scale, end: datetime) -> list[Bar]:
    begin, until = scale.place(stroke.created_at), scale.place(stroke.ended_at or end)
    is_open = stroke.status in _LIVE
    look = _look(stroke)
    if stroke.kind in _POINTS:
        return [Bar(look, begin, begin)]
    if stroke.kind in _WAITS or stroke.started_at is None:
        return [Bar(look, begin, until, is_open)]
    started = scale.place(stroke.started_at)
    if stroke.status == "scheduled":  # between two attempts
        return [Bar(Look.QUEUED, begin, until, is_open)]
    return [Bar(Look.QUEUED, begin, started), Bar(look, started, until, is_open)]


def _look(stroke: Stroke) -> Look:
    is_undo = stroke.kind == "undo"
    if stroke.status in ("failed", "lost"):
        return Look.UNDO_FAILED if is_undo else Look(stroke.status)
    if stroke.status == "cancelled":
        return Look.CANCELLED
    if stroke.kind in _WAITS:
        return Look.WAIT
    if is_undo and stroke.status in ("done", "running"):
        return Look.UNDO
    return {"done": Look.DONE, "running": Look.RUNNING}.get(stroke.status, Look.QUEUED)


def _cells(bars: Iterable[Bar]) -> list[Bar]:
    """Many bars as the worst of each cell; neighbours that look alike are one."""
    worst: list[Look | None] = [None] * CELLS
    for bar in bars:
        first = min(int(bar.begin * CELLS), CELLS - 1)
        last = min(int(bar.end * CELLS), CELLS - 1)
        for cell in range(first, last + 1):
            there = worst[cell]
            # What is done says more than that something had queued.
            if (
                there is None
                or there is Look.QUEUED
                or (bar.look is not Look.QUEUED and _WORSE[bar.look] > _WORSE[there])
            ):
                worst[cell] = bar.look
    found: list[Bar] = []
    for cell, look in enumerate(worst):
        if look is None:
            continue
        begin, end = cell / CELLS, (cell + 1) / CELLS
        if found and found[-1].look is look and abs(found[-1].end - begin) < 1e-9:
            found[-1] = Bar(look, found[-1].begin, end)
        else:
            found.append(Bar(look, begin, end))
    return found


def _thinned(marks: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """Of marks that would lie on each other, one."""
    kept: dict[tuple[int, str], tuple[float, str]] = {}
    for place, action in marks:
        kept.setdefault((int(place * CELLS * 2), action), (place, action))
    return list(kept.values())
