"""The table of what was measured, on a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from tests.bench.rows import Bound, Row, Series

HEADINGS = ("measure", "ours", "theirs", "ratio", "target", "reached")


def cells(row: Row) -> tuple[str, ...]:
    """One line, as texts; empty where there is nothing."""
    ratio = "" if row.ratio is None else number(row.ratio)
    return (row.measure, _told(row.ours), _told(row.theirs), ratio, str(row.target or ""), verdict(row))


def verdict(row: Row) -> str:
    """Whether the target is reached, or by how much not, or why nobody knows."""
    if row.why_not:
        return f"not measured: {row.why_not}"
    if row.is_reached is None or row.target is None or row.figure is None:
        return ""
    if row.is_reached:
        return "yes"
    if row.target.value == 0:
        return f"no, {number(row.figure)} {row.target.unit}".rstrip()
    short = row.figure / row.target.value
    return f"no, {number(short)} of it" if row.target.bound is Bound.AT_LEAST else f"no, {number(short)} times it"


def number(value: float) -> str:
    """Three figures, and no exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def on_terminal(rows: Iterable[Row]) -> None:
    """Print it."""
    table = Table(*HEADINGS)
    for row in rows:
        table.add_row(*cells(row), style={True: "green", False: "red", None: "yellow"}[row.is_reached])
    Console(width=None if Console().is_terminal else 180).print(table)


def as_markdown(rows: Iterable[Row]) -> str:
    """The same for a page."""
    lines = [HEADINGS, ("---",) * len(HEADINGS), *map(cells, rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _told(series: Series | None) -> str:
    return "" if series is None else f"{number(series.median)} {series.unit}".rstrip()
