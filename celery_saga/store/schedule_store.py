"""The store's transactions about schedules, each method as one."""

from __future__ import annotations

from celery_saga.core.ports import ChangeSchedule
from celery_saga.core.schedules import FireRecord, ScheduleChange, ScheduleRecord
from celery_saga.store.callers import CallersTransaction
from celery_saga.store.parts import Parts
from celery_saga.store.session import Sessions


class ScheduleMethods:
    """What `SqlStore` answers about schedules; see the port."""

    sessions: Sessions | CallersTransaction
    _parts: Parts

    def change_schedule(self, saga: str, id_: str, change: ChangeSchedule) -> ScheduleChange:
        """See the port."""
        return self.sessions.write("change_schedule", lambda tx: self._parts.schedules.change(tx, saga, id_, change))

    def schedule(self, saga: str, id_: str) -> ScheduleRecord | None:
        """See the port."""
        return self.sessions.read("schedule", lambda tx: self._parts.schedules.get(tx, saga, id_))

    def schedules(self) -> list[ScheduleRecord]:
        """See the port."""
        return self.sessions.read("schedules", self._parts.schedules.all)

    def fires(self, saga: str, id_: str, *, limit: int) -> list[FireRecord]:
        """See the port."""
        return self.sessions.read("fires", lambda tx: self._parts.schedules.fires(tx, saga, id_, limit))

    def is_busy(self, saga: str, id_: str) -> bool:
        """See the port."""
        return self.sessions.read("is_busy", lambda tx: self._parts.schedules.is_busy(tx, saga, id_))
