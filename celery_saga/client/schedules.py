"""A handle of a schedule."""

from __future__ import annotations

from datetime import datetime

from celery_saga.client.filters import whole_number
from celery_saga.core import asked
from celery_saga.core.schedules import FireRecord, ScheduleRecord
from celery_saga.engine.schedules import ScheduleBook

__all__ = ["ScheduleHandle"]


class ScheduleHandle:
    """One schedule, by the name of its saga and its own; each question reads the database.

    Args:
        book: of its app.
        saga, id: its name.
    """

    def __init__(self, book: ScheduleBook, saga: str, id: str) -> None:  # noqa: A002 - its name in the contract
        self._book = book
        self.saga = saga
        self.id = id

    def __repr__(self) -> str:
        return f"<Schedule {self.id!r} of saga {self.saga!r}>"

    @property
    def record(self) -> ScheduleRecord:
        """The schedule as it is stored now.

        Raises:
            ScheduleNotFound: it was removed.
        """
        return self._book.get(self.saga, self.id)

    @property
    def next_at(self) -> datetime | None:
        """Its next nominal time, in UTC; None: there is none any more. ScheduleNotFound: it was removed."""
        return self.record.next_at

    def fires(self, *, limit: int = 100) -> list[FireRecord]:
        """What became of its nominal times, newest first: the run of each, or why it was skipped.

        Args:
            limit: at most so many rows, 1 to 10000.
        Raises:
            ScheduleNotFound: it was removed.
            InvalidPayload: a limit that is not allowed; nothing was read.
        """
        return self._book.fires(self.saga, self.id, limit=whole_number(limit, "limit", "fires()"))

    def pause(self, *, reason: str = "", by: str | None = None) -> ScheduleRecord:
        """Skip its nominal times from now on; again: nothing is changed.

        Raises:
            ScheduleNotFound: it was removed; nothing was written.
            InvalidPayload: a reason or a name that cannot be kept; nothing was written.
        """
        asked.check_told(f"schedule {self.id!r}: pause()", reason=reason, by=by, left="nothing was written")
        return self._book.pause(self.saga, self.id, reason=reason, by=by)

    def unpause(self) -> ScheduleRecord:
        """Fire again, from the next nominal time in the future on; not paused: nothing is changed.

        Raises:
            ScheduleNotFound: it was removed; nothing was written.
        """
        return self._book.unpause(self.saga, self.id)

    def remove(self) -> bool:
        """Remove it, with the log of its fires; False: it was removed before. Its runs are left alone."""
        return self._book.remove(self.saga, self.id)
