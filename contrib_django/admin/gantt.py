"""Draws a timeline as SVG: shapes and patterns tell what colours tell, and each row says it in words too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

from django.utils import timezone
from django.utils.html import escape

from contrib_django.admin.scale import Break, span_text
from contrib_django.admin.timeline import Bar, Look, Row, Timeline

__all__ = ["LEGEND", "legend", "svg"]

_WIDTH, _LEFT, _RIGHT, _TOP, _ROW, _BAR = 1120, 250, 170, 30, 24, 14
_SPACE = _WIDTH - _LEFT - _RIGHT
_LABEL, _TOLD = 34, 26  # characters
_THINNEST = 3.0
_TICKS = 5

LEGEND: tuple[tuple[Look, str], ...] = (
    (Look.DONE, "done"),
    (Look.RUNNING, "running"),
    (Look.QUEUED, "queued, or between attempts"),
    (Look.WAIT, "waits: signal, time, other run"),
    (Look.UNDO, "undo"),
    (Look.FAILED, "failed"),
    (Look.LOST, "ended unseen"),
    (Look.UNDO_FAILED, "undo failed"),
    (Look.CANCELLED, "cancelled"),
)
"""What each look means, for people."""

_MARKS = {"fail": "✕", "lost": "?", "timeout": "T", "cancel": "–"}

_PATTERNS = (
    '<defs><pattern id="saga-p-wait" width="8" height="8" patternUnits="userSpaceOnUse">'
    '<rect width="8" height="8" class="saga-f-wait"/><path d="M0 8L8 0" class="saga-hatch"/></pattern>'
    '<pattern id="saga-p-undo" width="8" height="8" patternUnits="userSpaceOnUse">'
    '<rect width="8" height="8" class="saga-f-undo"/><path d="M0 0L8 8" class="saga-hatch saga-thick"/></pattern>'
    '<pattern id="saga-p-undo_failed" width="8" height="8" patternUnits="userSpaceOnUse">'
    '<rect width="8" height="8" class="saga-f-failed"/>'
    '<path d="M0 0L8 8M0 8L8 0" class="saga-hatch saga-thick"/></pattern>'
    '<pattern id="saga-p-lost" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<rect width="6" height="6" class="saga-f-lost"/><circle cx="3" cy="3" r="1.2" class="saga-dot"/></pattern></defs>'
)
_PATTERNED = frozenset({Look.WAIT, Look.UNDO, Look.UNDO_FAILED, Look.LOST})


def svg(picture: Timeline, link: Callable[[str, int], str] | None = None) -> str:
    """The picture as markup; everything of a run in it is escaped.

    Args:
        link: address of a step, by key and generation; None: rows are no links.
    """
    height = _TOP + len(picture.rows) * _ROW + 8
    spoken = f"Timeline of {picture.steps} steps over {span_text(picture.end - picture.begin)}"
    parts = [
        f'<svg class="saga-gantt" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="{escape(spoken)}">{_PATTERNS}',
        *_axis(picture, height),
        *(part for number, row in enumerate(picture.rows) for part in _row(row, _TOP + number * _ROW, link)),
        "</svg>",
    ]
    return "".join(parts)


def legend(looks: frozenset[Look]) -> list[tuple[str, str]]:
    """A swatch as markup and its meaning, of those looks that are in a picture."""
    return [(_swatch(look), told) for look, told in LEGEND if look in looks]


def _swatch(look: Look) -> str:
    bar = _rect(Bar(look, 0, 1), 1.0, 2.0, 24.0)
    return f'<svg class="saga-swatch" viewBox="0 0 26 18" width="26" height="18" aria-hidden="true">{bar}</svg>'


def _x(place: float) -> float:
    return _LEFT + place * _SPACE


def _axis(picture: Timeline, height: int) -> Iterator[str]:
    for number in range(_TICKS):
        place = number / (_TICKS - 1)
        x = _x(place)
        since = picture.scale.instant(place) - picture.begin
        told = timezone.localtime(picture.begin).strftime("%H:%M:%S") if number == 0 else "+" + _short(since)
        yield f'<line class="saga-grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{height - 4}"/>'
        yield f'<text class="saga-tick" x="{x:.1f}" y="14" text-anchor="middle">{told}</text>'
    for gap in picture.scale.breaks:
        yield from _gap(gap, height)


def _gap(gap: Break, height: int) -> Iterator[str]:
    """A gap that is drawn short: a band, and how long it was where there is room."""
    x, width = _x(gap.begin), (gap.end - gap.begin) * _SPACE
    yield (
        f'<rect class="saga-gap" x="{x:.1f}" y="{_TOP - 6}" width="{width:.1f}" height="{height - _TOP + 2}">'
        f"<title>{span_text(gap.lasted)}, drawn short</title></rect>"
    )
    if width >= 48:
        middle = x + width / 2
        yield (
            f'<text class="saga-gaptext" x="{middle:.1f}" y="{_TOP - 4}" text-anchor="middle">'
            f"⋯ {span_text(gap.lasted)} ⋯</text>"
        )


def _short(span: timedelta) -> str:
    return "0" if not span else span_text(span)


def _row(row: Row, y: int, link: Callable[[str, int], str] | None) -> Iterator[str]:
    whole = f"{row.label}: {row.told}" + (f" ({row.steps} steps)" if row.steps > 1 else "")
    label = f'<text class="saga-label" x="{_LEFT - 10}" y="{y + 16}" text-anchor="end">{escape(_cut(row.label))}</text>'
    if row.step is not None and link is not None:
        label = f'<a href="{escape(link(*row.step))}">{label}</a>'
    yield f"<g><title>{escape(whole)}</title>"
    yield f'<rect class="saga-band" x="0" y="{y}" width="{_WIDTH}" height="{_ROW}"/>'
    yield label
    last = 0.0
    for bar in row.bars:
        x, width = _x(bar.begin), max((bar.end - bar.begin) * _SPACE, _THINNEST)
        last = max(last, x + width)
        yield _rect(bar, x, y + (_ROW - _BAR) / 2, width)
    for place, action in row.marks:
        sign = _MARKS.get(action, "!")
        yield f'<text class="saga-mark" x="{_x(place):.1f}" y="{y + 17}" text-anchor="middle">{sign}</text>'
    told = f"{row.steps} steps: {row.told}" if row.steps > 1 else row.told
    yield f'<text class="saga-told" x="{_WIDTH - _RIGHT + 12}" y="{y + 16}">{escape(_end(told, _TOLD))}</text></g>'


def _rect(bar: Bar, x: float, y: float, width: float) -> str:
    if bar.look is Look.QUEUED:
        middle = y + _BAR / 2
        return f'<line class="saga-queued" x1="{x:.1f}" x2="{x + width:.1f}" y1="{middle:.1f}" y2="{middle:.1f}"/>'
    fill = f' fill="url(#saga-p-{bar.look})"' if bar.look in _PATTERNED else ""
    box = (
        f'<rect class="saga-bar saga-b-{bar.look}"{fill} x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
        f'height="{_BAR}" rx="2"/>'
    )
    if bar.look is Look.FAILED and width >= 12:
        box += f'<path class="saga-cross" d="M{x + 3:.1f} {y + 3:.1f}l8 8m0 -8l-8 8"/>'
    if bar.is_open:  # it goes on
        end = x + width
        box += f'<path class="saga-open" d="M{end:.1f} {y:.1f}l7 {_BAR / 2}l-7 {_BAR / 2}z"/>'
    return box


def _cut(label: str) -> str:
    """A long key without its middle: both ends tell steps apart."""
    if len(label) <= _LABEL:
        return label
    half = (_LABEL - 1) // 2
    return f"{label[:half]}…{label[-half:]}"


def _end(told: str, most: int) -> str:
    return told if len(told) <= most else told[: most - 1] + "…"
