"""The time of a laboratory, which moves only when it is told to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from celery_saga.errors import DefinitionError

__all__ = ["BEGINNING", "VirtualClock"]

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
"""What a laboratory's clock shows when nothing else is said."""


class VirtualClock:
    """Instants in UTC.

    Args:
        now: what it shows at first, an aware instant; None: 2026-01-01, midnight UTC.
    Raises:
        DefinitionError: the instant has no zone.
    """

    def __init__(self, now: datetime | None) -> None:
        if now is not None and (not isinstance(now, datetime) or now.utcoffset() is None):
            raise DefinitionError(
                f"Lab(now=) takes an aware datetime, got {now!r}; nothing was opened. "
                "Give it a zone: datetime(2026, 1, 1, tzinfo=UTC)."
            )
        self.now = BEGINNING if now is None else now.astimezone(UTC)
        self.waited_s = 0.0

    def later(self, span_s: float) -> datetime:
        """The instant so many seconds from now."""
        return self.now + timedelta(seconds=span_s)

    def since_s(self, at: datetime) -> float:
        """Seconds since an instant."""
        return (self.now - at).total_seconds()

    def pause(self, pause_s: float) -> None:
        """Stands where the engine would wait for a database: takes no time, and is counted."""
        self.waited_s += pause_s
