"""Where an instant lies in a picture: gaps without work are drawn short, so that seconds are seen beside days."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

__all__ = ["Break", "Scale", "elastic", "span_text"]

Span = tuple[datetime, datetime]

_GAPS_SHARE = 0.5
"""All shortened gaps together are drawn as long as this share of the work."""


@dataclass(frozen=True, slots=True)
class Break:
    """A gap that is drawn shorter than it was.

    Args:
        begin, end: its place in the picture, in [0, 1].
        lasted: how long it was.
    """

    begin: float
    end: float
    lasted: timedelta


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps instants to places.

    Args:
        instants: edges, ascending, at least two.
        places: of each of them in the picture, ascending from 0 to 1.
        breaks: gaps that were shortened.
    """

    instants: Sequence[datetime]
    places: Sequence[float]
    breaks: Sequence[Break] = ()

    def place(self, at: datetime) -> float:
        """Where an instant is drawn, in [0, 1]; what lies outside is drawn at the edge."""
        if at <= self.instants[0]:
            return 0.0
        if at >= self.instants[-1]:
            return 1.0
        left = bisect_right(self.instants, at) - 1
        begin, end = self.instants[left], self.instants[left + 1]
        share = (at - begin) / (end - begin)
        return self.places[left] + share * (self.places[left + 1] - self.places[left])

    def instant(self, place: float) -> datetime:
        """What is drawn at a place in [0, 1]."""
        left = min(max(bisect_right(self.places, place) - 1, 0), len(self.places) - 2)
        width = self.places[left + 1] - self.places[left]
        share = (place - self.places[left]) / width if width else 0.0
        return self.instants[left] + share * (self.instants[left + 1] - self.instants[left])


def elastic(begin: datetime, end: datetime, work: Iterable[Span]) -> Scale:
    """The scale of a picture from `begin` to `end`.

    Args:
        begin, end: aware instants.
        work: when something worked. A gap between two of them that is longer than all of them together is drawn short.
    """
    end = max(end, begin + timedelta(milliseconds=1))
    busy = _united(begin, end, work)
    worked = sum((until - since for since, until in busy), timedelta())
    edges = [begin, *(edge for span in busy for edge in span), end]
    pieces = [(since, until) for since, until in pairwise(edges) if until > since]
    gaps = {(since, until) for since, until in zip(edges[::2], edges[1::2], strict=True) if until - since > worked}
    if not worked or not gaps:
        return Scale((begin, end), (0.0, 1.0))
    short = _GAPS_SHARE * worked / len(gaps)
    widths = [(short if piece in gaps else piece[1] - piece[0]) for piece in pieces]
    whole, places = sum(widths, timedelta()), [0.0]
    for width in widths:
        places.append(places[-1] + width / whole)
    breaks = [
        Break(places[n], places[n + 1], until - since)
        for n, (since, until) in enumerate(pieces)
        if (since, until) in gaps
    ]
    return Scale([pieces[0][0], *(until for _, until in pieces)], [*places[:-1], 1.0], breaks)


def _united(begin: datetime, end: datetime, work: Iterable[Span]) -> list[Span]:
    """The spans within the picture, ascending, those that touch as one."""
    found: list[Span] = []
    for given_since, given_until in sorted(work):
        since, until = max(given_since, begin), min(given_until, end)
        if until <= since:
            continue
        if found and since <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], until))
        else:
            found.append((since, until))
    return found


_UNITS = (("d", 86_400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))


def span_text(span: timedelta) -> str:
    """A duration for people, with its two largest units: `2 d 3 h`, `1.25 s`, `40 ms`."""
    seconds = span.total_seconds()
    if seconds < 0:
        return f"-{span_text(-span)}"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    for number, (name, unit) in enumerate(_UNITS[:-1]):
        if seconds >= unit:
            small_name, small = _UNITS[number + 1]
            whole, rest = divmod(round(seconds / small), round(unit / small))
            return f"{whole} {name} {rest} {small_name}" if rest else f"{whole} {name}"
    return f"{seconds:.0f} s"
