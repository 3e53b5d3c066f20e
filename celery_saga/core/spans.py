"""A given duration as text that says it exactly."""

from __future__ import annotations

from typing import Final

__all__ = ["span_text"]

_UNITS_S: Final = (("d", 86400), ("h", 3600), ("min", 60))


def span_text(span_s: float) -> str:
    """A duration in the largest unit that says it in whole numbers, else in seconds: `2 d`, `90 min`, `0.5 s`."""
    for unit, length_s in _UNITS_S:
        if span_s >= length_s and span_s % length_s == 0:
            return f"{span_s / length_s:.0f} {unit}"
    return f"{span_s:.6f}".rstrip("0").rstrip(".") + " s"
