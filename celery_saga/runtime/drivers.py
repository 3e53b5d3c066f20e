"""What wakes the schedules of an app instead of its sweepers, as installed by a framework; and the app's time zone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import Celery

from celery_saga.engine.schedules import ScheduleDriver

__all__ = ["DriverOf", "driver_of", "use_driver", "zone_of"]

DriverOf = Callable[[Celery], ScheduleDriver | None]
"""What wakes the schedules of an app instead of its sweepers; None: they do."""

_driver_of: DriverOf | None = None


def use_driver(find: DriverOf | None) -> DriverOf | None:
    """Install what wakes schedules, for the whole process; None removes it. What was installed before."""
    global _driver_of
    before, _driver_of = _driver_of, find
    return before


def driver_of(app: Celery) -> ScheduleDriver | None:
    """What wakes the schedules of an app instead of its sweepers; None: they do."""
    return None if _driver_of is None else _driver_of(app)


def zone_of(app: Celery) -> str:
    """The name of the time zone that the app's own schedules are in."""
    zone: Any = app.conf.timezone
    if not isinstance(zone, str):
        zone = getattr(app.timezone, "key", None) or getattr(app.timezone, "zone", None)
    return zone if isinstance(zone, str) else "UTC"
