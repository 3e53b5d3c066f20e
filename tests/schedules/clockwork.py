"""A laboratory whose schedules the sweeper or something else wakes, and in which everything may stand still."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from celery import Celery

from celery_saga import CelerySaga, Run, saga
from celery_saga.core.records import RunRecord
from celery_saga.core.schedules import FireRecord, ScheduleRecord
from celery_saga.engine.schedules import ScheduleBook
from celery_saga.testing import Lab

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)


@saga(name="schedules_note")
def note(run: Run, text: str = "", seconds: float = 0.0) -> str:
    """Takes so many seconds, and tells for when it was started."""
    if seconds:
        run.sleep(seconds)
    return f"{text} {run.scheduled_for:%d %H:%M:%S}" if run.scheduled_for is not None else text


def make_app() -> Celery:
    """An app that knows the saga, and no other."""
    app = Celery("clockwork", set_as_current=False)
    CelerySaga(app, database_url="sqlite://", sagas=[note])
    return app


class Clockwork:
    """Schedules that the sweeper wakes.

    Args:
        app: of the laboratory.
        now: what its clock shows at first.
    """

    driver = "sweeper"
    times = 1
    """How often a schedule is woken by one wake."""

    def __init__(self, app: Celery, now: datetime = BEGIN) -> None:
        self.lab = Lab(app, now=now)

    def __enter__(self) -> Clockwork:
        self.lab.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self.lab.__exit__(*raised)

    # -- time ----------------------------------------------------------------------------------------------------
    @property
    def now(self) -> datetime:
        """What the clock shows."""
        return self.lab.now

    def advance(self, span: float | timedelta) -> None:
        """Time passes, and everything works."""
        self.lab.advance(span)

    def outage(self, span: timedelta) -> None:
        """Time passes while nothing works; then everything does again."""
        self.lab._clock.now += span
        self.wake()
        self.lab.drain()

    def wake(self) -> None:
        """Wake the schedules now, due or not, as often as it pleases."""
        self.lab.engine.sweep()

    # -- what is there -------------------------------------------------------------------------------------------
    @property
    def book(self) -> ScheduleBook:
        """The schedules."""
        return self.lab.engine.schedules

    def record(self, id_: str = "n") -> ScheduleRecord:
        """A schedule of the saga `note`."""
        return self.book.get("schedules_note", id_)

    def fires(self, id_: str = "n") -> list[FireRecord]:
        """Its log, oldest first."""
        return self.book.fires("schedules_note", id_, limit=1000)[::-1]

    def told(self, id_: str = "n") -> list[str]:
        """Its log in words, oldest first: `13:00 fired`, `13:05-13:10 skipped missed 2`."""
        return [_words(fire) for fire in self.fires(id_)]

    def runs(self) -> list[RunRecord]:
        """The runs that there are, oldest nominal time first."""
        found = [self.lab.engine.run_of(run.id) for run in self.lab.app.saga.store.runs(_all())]
        return sorted(found, key=lambda run: run.scheduled_for or BEGIN)


def _all() -> Any:
    from celery_saga.core.ports import RunFilter  # noqa: PLC0415 - of the store alone

    return RunFilter(limit=10_000)


def _words(fire: FireRecord) -> str:
    first, last = f"{fire.nominal_at:%H:%M}", f"{fire.until_at:%H:%M}"
    when = first if fire.count == 1 else f"{first}-{last}"
    why = "" if fire.reason is None else f" {fire.reason.value} {fire.count}"
    return f"{when} {fire.outcome.value}{why}"
