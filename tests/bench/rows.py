"""What a measurement says: series of readings, what they are held against, and whether that is reached."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from math import ceil
from typing import Any


class Bound(Enum):
    """Which side of a target is the good one."""

    AT_LEAST = ">="
    AT_MOST = "<="


@dataclass(frozen=True)
class Series:
    """The readings of one contestant, one a repetition, in the order in which they were taken.

    Args:
        unit: of each reading, as `steps/s` or `ms`.
    """

    name: str
    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """Of the readings."""
        return statistics.median(self.values)


@dataclass(frozen=True)
class Target:
    """What must be reached: of the ratio to the other series, or of our own figure where there is no other."""

    bound: Bound
    value: float
    unit: str = ""

    def is_met_by(self, figure: float) -> bool:
        """The figure, rounded as it is shown, is on the good side."""
        shown = float(f"{figure:.3g}")
        return shown >= self.value if self.bound is Bound.AT_LEAST else shown <= self.value

    def __str__(self) -> str:
        return f"{self.bound.value} {self.value:g}" + (f" {self.unit}" if self.unit else "")


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Args:
        measure: what was measured, in words.
        target: None where nothing must be reached.
        ours: None where nothing was measured.
        theirs: what it is held against; None where our figure is held against the target itself.
        why_not: why there is no figure, or no ratio.
        note: more to say, as what is left where the target is not reached.
    """

    measure: str
    target: Target | None
    ours: Series | None
    theirs: Series | None = None
    why_not: str = ""
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours to theirs: the median over the repetitions of what was measured side by side."""
        if self.ours is None or self.theirs is None:
            return None
        if len(self.ours.values) == len(self.theirs.values):
            return statistics.median(a / b for a, b in zip(self.ours.values, self.theirs.values, strict=True))
        return self.ours.median / self.theirs.median

    @property
    def figure(self) -> float | None:
        """What the target is about."""
        if self.theirs is not None:
            return self.ratio
        return None if self.ours is None or self.why_not else self.ours.median

    @property
    def is_reached(self) -> bool | None:
        """None where nothing can be said."""
        if self.target is None or self.figure is None:
            return None
        return self.target.is_met_by(self.figure)

    def as_json(self) -> dict[str, Any]:
        """What is kept of it."""
        return {
            "measure": self.measure,
            "target": None if self.target is None else {**asdict(self.target), "bound": self.target.bound.value},
            "ours": None if self.ours is None else asdict(self.ours),
            "theirs": None if self.theirs is None else asdict(self.theirs),
            "ratio": self.ratio,
            "reached": self.is_reached,
            "why_not": self.why_not,
            "note": self.note,
        }

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Row:
        """The row of which `as_json()` was kept."""
        target = kept["target"]
        return cls(
            kept["measure"],
            target and Target(Bound(target["bound"]), target["value"], target["unit"]),
            _series(kept["ours"]),
            _series(kept["theirs"]),
            kept["why_not"],
            kept["note"],
        )


def _series(kept: dict[str, Any] | None) -> Series | None:
    return kept and Series(kept["name"], kept["unit"], tuple(kept["values"]))


def at_least(value: float, unit: str = "") -> Target:
    """The more, the better."""
    return Target(Bound.AT_LEAST, value, unit)


def at_most(value: float, unit: str = "") -> Target:
    """The less, the better."""
    return Target(Bound.AT_MOST, value, unit)


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest reading that so many of a hundred do not exceed; `part` above 0, up to 100."""
    return sorted(values)[ceil(len(values) * part / 100) - 1]
