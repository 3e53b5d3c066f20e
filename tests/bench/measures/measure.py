"""What a measure is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.bench.rows import Row
from tests.bench.sizes import Size


@dataclass(frozen=True)
class Setting:
    """How to measure.

    Args:
        processes: that execute steps, of each contestant.
        say: tells how far it is, a line at a time.
    """

    size: Size
    processes: int
    say: Callable[[str], None] = print


@dataclass(frozen=True)
class Outcome:
    """Lines of the table, and what the plots are drawn of.

    Args:
        curves: plot -> line -> points.
    """

    rows: list[Row]
    curves: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, other: Outcome) -> None:
        """Take in what another measure has found."""
        self.rows.extend(other.rows)
        for plot, lines in other.curves.items():
            self.curves.setdefault(plot, {}).update(lines)


Measure = Callable[[Setting], Outcome]
