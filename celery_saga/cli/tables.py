"""Tables for people: drawn by rich on a terminal, as aligned plain columns elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

__all__ = ["STATUS_STYLES", "Cell", "Table", "ago", "counted", "draw", "duration", "plain", "rich_table", "status"]

_BETWEEN = 2
"""Blanks between two columns on a terminal."""
_NARROWEST = 16
"""The last column of a table wraps; where less than this is left for it, the table is drawn otherwise."""

STATUS_STYLES = {
    "queued": "cyan",
    "running": "cyan",
    "waiting": "yellow",
    "compensating": "magenta",
    "suspended": "bold yellow",
    "completed": "green",
    "failed": "red",
    "cancelled": "bright_black",
    "compensation_failed": "bold red",
    "held": "bright_black",
    "scheduled": "cyan",
    "done": "green",
    "lost": "red",
    "ok": "green",
    "error": "bold red",
    "warning": "yellow",
    "info": "cyan",
}
"""A style of rich for each status word."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One text with a style of rich, used on terminals only."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under named columns.

    Args:
        columns: their names; the last one wraps where it must.
        rows: a cell for each column.
        least: columns that go first where a terminal is too narrow for all, the least important one first.
        first: how many cells stand on the first line of a row where it takes several.
    """

    columns: Sequence[str]
    rows: list[Sequence[Cell | str]] = field(default_factory=list)
    least: Sequence[str] = ()
    first: int = 1

    def without(self, name: str) -> Table:
        """The table without a column."""
        place = self.columns.index(name)
        columns = [*self.columns[:place], *self.columns[place + 1 :]]
        return Table(columns, [[*row[:place], *row[place + 1 :]] for row in self.rows], (), self.first)


def status(word: str) -> Cell:
    """A status word in its colour."""
    return Cell(word, STATUS_STYLES.get(word, ""))


def rich_table(table: Table) -> RenderableType:
    """The table as rich draws it."""
    drawn = RichTable(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold", show_edge=False)
    for index, column in enumerate(table.columns):
        last = index == len(table.columns) - 1
        drawn.add_column(column, overflow="fold", no_wrap=not last, ratio=None)
    for row in table.rows:
        drawn.add_row(*(Text(cell.text, style=cell.style) for cell in map(_cell, row)))
    return drawn


def plain(table: Table) -> Iterable[str]:
    """The table as lines: columns aligned by blanks, two between them, nothing cut off."""
    rows = [[column.upper() for column in table.columns]]
    rows += [[_cell(cell).text for cell in row] for row in table.rows]
    widths = [max(len(row[index]) for row in rows) for index in range(len(table.columns))]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def draw(table: Table, console: Console | None) -> None:
    """Print the table on a terminal's console, or as plain lines where it is None."""
    if console is None:
        for line in plain(table):
            print(line)
        return
    if not table.rows:
        return
    fitting = _fitting(table, console.width)
    if fitting is not None:
        console.print(rich_table(fitting))
        return
    for row in table.rows:
        _stack(table, [_cell(cell) for cell in row], console)


def _fitting(table: Table, width: int) -> Table | None:
    """The table, or what is left of it when it has to be narrower; None where that is not enough."""
    least = list(table.least)
    while _needs(table) > width:
        if not least:
            return None
        table = table.without(least.pop(0))
    return table


def _needs(table: Table) -> int:
    rows = [table.columns, *([_cell(cell).text for cell in row] for row in table.rows)]
    widths = [max(cell_len(row[index]) for row in rows) for index in range(len(table.columns))]
    widths[-1] = min(widths[-1], _NARROWEST)
    return sum(widths) + _BETWEEN * (len(widths) - 1) + 1


def _stack(table: Table, cells: Sequence[Cell], console: Console) -> None:
    """A row on lines of its own: what names it on the first one, the rest below, nothing cut off."""
    lines = (cells[: table.first], cells[table.first :])
    for indent, shown in zip((0, 4), lines, strict=True):
        texts = [Text(cell.text, style=cell.style) for cell in shown if cell.text]
        if texts:
            console.print(Padding(Text(" · " if indent else "  ").join(texts), (0, 0, 0, indent)))


def duration(seconds: float | None) -> str:
    """Seconds as people read them: `35 ms`, `1.4 s`, `12 min`, `3.5 h`, `2.0 d`; empty for None."""
    if seconds is None:
        return ""
    if seconds < 0.9995:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 90:
        return f"{seconds:.1f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    if seconds < 172800:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} d"


def counted(count: int, word: str, words: str | None = None) -> str:
    """A number with its word: `1 error`, `2 errors`, `no errors`.

    Args:
        words: the word for several; with an `s` unless given.
    """
    several = words or f"{word}s"
    return f"1 {word}" if count == 1 else f"{count or 'no'} {several}"


def ago(then: datetime | None, now: datetime) -> str:
    """How long ago an instant was, or how far ahead it is; empty for None."""
    if then is None:
        return ""
    passed = now - then
    if passed < timedelta(0):
        return f"in {duration(-passed.total_seconds())}"
    return f"{duration(passed.total_seconds())} ago"


def _cell(cell: Cell | str) -> Cell:
    return cell if isinstance(cell, Cell) else Cell(cell)
