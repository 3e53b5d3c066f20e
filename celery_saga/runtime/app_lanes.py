"""What an operator may do with lanes: the half of `CelerySaga` that pauses, lets go again, and sets caps."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from celery_saga.client.lanes import LaneInfo, lane_info
from celery_saga.core import asked
from celery_saga.definition import declared
from celery_saga.definition.lane import lane_spec
from celery_saga.definition.options import UNSET, Unset
from celery_saga.engine import lanes
from celery_saga.errors import DefinitionError

if TYPE_CHECKING:
    from celery_saga.runtime.services import Services

__all__ = ["Admitting"]


class Admitting:
    """Verbs about lanes, sagas and all runs."""

    @property
    def services(self) -> Services:
        """Store, publisher and engine of this process."""
        raise NotImplementedError

    def pause(
        self, *, saga: str | None = None, lane: str | None = None, reason: str = "", by: str | None = None
    ) -> LaneInfo:
        """Let no run of a saga, or in a lane, be active any more until `unpause`.

        When this returns no further step of their runs begins. What runs, a step or a child, ends and is recorded;
        undos go on; deadlines, signals and cancels work as ever. Again: who, when and why stay as they are.

        Args:
            saga: name of a saga, in all its versions, also where its runs are children; `*`: all sagas.
            lane: name of a lane; give one of the two.
            reason, by: why and who, for the lists.
        Returns:
            The lane, or the row of the saga, as it is now.
        Raises:
            DefinitionError: none or both of saga and lane, or no name.
            UnknownSaga: nobody knows the saga, and there are no runs of it.
            InvalidPayload: a reason or a name that cannot be kept. In every case nothing was changed.
        """
        name = self._row(saga, lane)
        asked.check_told("pause()", reason=reason, by=by)
        lanes.pause(self.services.engine.world.for_clients(), name, by=by, reason=reason or "")
        return self._info(name)

    def unpause(
        self, *, saga: str | None = None, lane: str | None = None, reason: str = "", by: str | None = None
    ) -> bool:
        """Let them be active again, as far as caps and limits allow; False: nothing kept them, nothing was changed.

        Of a lane it also takes back what a step has said by `RateLimited`; that step alone goes on waiting.

        Args:
            saga, lane: as of `pause`.
            reason, by: why and who, for the log of this process: a lane that is not paused keeps nothing of it.
        Raises:
            DefinitionError: none or both of saga and lane.
            InvalidPayload: a reason or a name that cannot be kept. In both cases nothing was changed.
        """
        name = lanes.row_name(saga=saga, lane=lane)
        asked.check_told("unpause()", reason=reason, by=by)
        return lanes.unpause(self.services.engine.world.for_clients(), name, by=by, reason=reason)

    def lanes(self) -> list[LaneInfo]:
        """All lanes, and the sagas with a cap or a pause, by name."""
        return [lane_info(load) for load in lanes.lanes(self.services.engine.world)]

    def set_lane(
        self,
        lane: str | None = None,
        *,
        saga: str | None = None,
        cap: int | Unset | None = UNSET,
        hold: Literal["active", "life"] | Unset = UNSET,
        limit: int | Unset | None = UNSET,
        window: float | timedelta | Unset | None = UNSET,
    ) -> LaneInfo:
        """Change a lane, or the cap of a saga, for all processes and for good: it goes before code and settings.

        Runs that are active stay so; a cap that is lower lets nobody in until there is room.

        Args:
            lane: name of a lane.
            saga: instead, name of a saga, or `*` for all sagas.
            cap, hold, limit, window: as of `celery_saga.Lane`; what is not given stays as it is.
        Returns:
            The lane as it is now.
        Raises:
            DefinitionError: a value that is not allowed; nothing was changed.
            UnknownSaga: nobody knows the saga, and there are no runs of it; nothing was changed.
        """
        name = self._row(saga, lane)
        world = self.services.engine.world.for_clients()
        given: dict[str, Any] = {"cap": cap, "hold": hold, "limit": limit, "window": window}
        changes = {key: value for key, value in given.items() if not isinstance(value, Unset)}
        there = lanes.spec_of(world, name)
        asked = {"cap": there.cap, "hold": there.hold, "limit": there.limit, "window": there.window_s, **changes}
        spec = lane_spec(f"set_lane({lane or saga!r}):", **asked)
        if spec.hold == "life" and lane is None:
            raise DefinitionError("hold='life' goes with lanes: a saga's cap is of active runs; nothing was changed.")
        lanes.set_lane(world, name, spec)
        return self._info(name)

    def forget_lane(self, lane: str, *, reason: str = "", by: str | None = None) -> bool:
        """Delete a lane that nobody uses and nothing names any more, one that was mistyped, say; False: there is none.

        Its pause and what an operator said of it go too. A run that comes to it later makes it anew.

        Args:
            lane: name of the lane.
            reason, by: why and who, for the log of this process.
        Raises:
            DefinitionError: no name of a lane.
            InvalidPayload: a reason or a name that cannot be kept.
            IllegalTransition: a live run has been in it, or the code or settings of this process name it. In every
                case nothing was changed.
        """
        name = lanes.row_name(saga=None, lane=lane)
        asked.check_told("forget_lane()", reason=reason, by=by)
        return lanes.forget_lane(self.services.engine.world.for_clients(), name, by=by, reason=reason)

    def _row(self, saga: str | None, lane: str | None) -> str:
        """The row that is meant, of a lane or of a saga that there is."""
        name = lanes.row_name(saga=saga, lane=lane)
        services = self.services
        here = {each.name for each in declared.declared()}
        is_known = saga is not None and (saga in here or services.registry.latest(saga) is not None)
        lanes.refuse_unknown(services.engine.world, name, is_known)
        return name

    def _info(self, name: str) -> LaneInfo:
        return lane_info(self.services.store.lanes([name])[0])
