"""What a check says: a finding, its level, and the code that it is an instance of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Code", "Finding", "Level", "listed"]

_SHOWN = 5


class Level(StrEnum):
    """How much a finding matters."""

    ERROR = "error"  # sagas do not work, or the guarantee is lost
    WARNING = "warning"  # works, but something dangerous or slow can happen
    INFO = "info"  # worth knowing, or cannot be seen from here


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check found.

    Args:
        code: stable, upper case with underscores; one of `CODES`.
        level: fixed for each code.
        sentence: what is the case here, with the names and values concerned.
        remedy: what to change.
    """

    code: str
    level: Level
    sentence: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Code:
    """A code with its texts; places in braces are filled in by `found`."""

    name: str
    level: Level
    sentence: str
    remedy: str

    def found(self, **values: object) -> Finding:
        """The finding of this code with `values` in the places of its sentence and remedy."""
        return Finding(self.name, self.level, self.sentence.format(**values), self.remedy.format(**values))


def listed(names: Iterable[object]) -> str:
    """`names` sorted for a sentence; after the fifth only their number is told."""
    texts = sorted(str(name) for name in names)
    hidden = len(texts) - _SHOWN
    return ", ".join(texts[:_SHOWN]) + (f" and {hidden} more" if hidden > 0 else "")
