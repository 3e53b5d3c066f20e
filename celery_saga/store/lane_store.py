"""The store's transactions about lanes: `celery_saga.core.lanes.LaneStore`, see there for what each promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from celery_saga.core.admission import LaneSpec
from celery_saga.core.lanes import Admitted, LaneLoad, LaneRecord, Place, SlotRecord
from celery_saga.store.callers import CallersTransaction
from celery_saga.store.lanes import must_say
from celery_saga.store.parts import Parts
from celery_saga.store.session import Sessions


class WithLanes:
    """The half of the store that admits."""

    sessions: Sessions | CallersTransaction
    _parts: Parts

    def admit(self, lane: str, *, at_most: int, look_s: float) -> Admitted:
        """See the port."""
        return self.sessions.write(
            "admit", lambda tx: self._parts.admission.admit(tx, lane, at_most=at_most, look_s=look_s)
        )

    def slots_of(self, run_id: str) -> list[SlotRecord]:
        """See the port."""
        return self.sessions.read("slots_of", lambda tx: self._parts.slots.load(tx, run_id))

    def place_of(self, run_id: str) -> Place | None:
        """See the port."""
        return self.sessions.read("place_of", lambda tx: self._parts.lanes.place_of(tx, run_id))

    def lanes(self, names: Sequence[str] | None = None) -> list[LaneLoad]:
        """See the port."""
        return self.sessions.read("lanes", lambda tx: self._parts.lanes.all(tx, names))

    def sync_lanes(self, said: Mapping[str, LaneSpec], *, unsaid: Sequence[str] = (), look_s: float) -> None:
        """See the port; a transaction for each row that is to be changed."""
        there = {load.lane.name: load.lane for load in self.lanes([*said, *unsaid])} if said or unsaid else {}
        wanted = {**{name: LaneSpec() for name in unsaid if name in there}, **said}
        for name, spec in wanted.items():
            lane = there.get(name)
            if lane is None or must_say(lane, spec):
                self._sync(name, spec, look_s)

    def _sync(self, name: str, spec: LaneSpec, look_s: float) -> None:
        self.sessions.write("sync_lane", lambda tx: self._parts.lanes.sync(tx, name, spec, look_s))

    def set_lane(self, lane: str, spec: LaneSpec, *, look_s: float) -> LaneRecord:
        """See the port."""
        return self.sessions.write("set_lane", lambda tx: self._parts.lanes.set(tx, lane, spec, look_s))

    def pause_lane(self, lane: str, *, by: str | None, reason: str, look_s: float) -> LaneRecord:
        """See the port."""
        return self.sessions.write("pause_lane", lambda tx: self._parts.lanes.pause(tx, lane, by, reason, look_s))

    def unpause_lane(self, lane: str, *, look_s: float) -> LaneRecord | None:
        """See the port."""
        return self.sessions.write("unpause_lane", lambda tx: self._parts.lanes.unpause(tx, lane, look_s))

    def forget_lane(self, lane: str) -> LaneLoad | None:
        """See the port."""
        return self.sessions.write("forget_lane", lambda tx: self._parts.lanes.forget(tx, lane))

    def limit_lane(self, lane: str, *, delay_s: float) -> None:
        """See the port."""
        self.sessions.write("limit_lane", lambda tx: self._parts.lanes.limit(tx, lane, delay_s))

    def to_enlist(self, lane: str, *, after: str, limit: int) -> list[str]:
        """See the port."""
        return self.sessions.read("to_enlist", lambda tx: self._parts.lanes.to_enlist(tx, lane, after, limit))

    def enlisted(self, lane: str) -> None:
        """See the port."""
        self.sessions.write("enlisted", lambda tx: self._parts.lanes.enlisted(tx, lane))
