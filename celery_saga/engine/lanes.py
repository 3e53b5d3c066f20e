"""What code and settings say of lanes, brought into the tables once a process; and the verbs of operators."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from celery_saga.core.admission import ALL, LaneSpec, lane_name, saga_name
from celery_saga.core.asked import MAX_NAME, is_name, shown
from celery_saga.core.lanes import LaneLoad, LaneRecord
from celery_saga.core.ports import RunFilter
from celery_saga.engine import admission
from celery_saga.engine.journal import tell_forgotten, tell_unpaused
from celery_saga.errors import DefinitionError, IllegalTransition, UnknownSaga

if TYPE_CHECKING:
    from celery_saga.engine.world import World

__all__ = ["Said", "SaidLanes", "forget_lane", "lanes", "pause", "refuse_unknown", "row_name", "set_lane"]
__all__ += ["spec_of", "unpause"]

Said = tuple[Mapping[str, LaneSpec], Sequence[str]]
"""What code and settings say, by row, and rows of which they say nothing."""


class SaidLanes:
    """Brings what is said into the tables, once in this process; thread-safe."""

    def __init__(self, said: Callable[[], Said] | None = None) -> None:
        self._said = said
        self._lock = threading.Lock()
        self._is_done = said is None

    def sync(self, world: World, *, also_unsaid: bool = False) -> None:
        """Write what is said where it differs from what code said before; costs nothing the second time.

        Args:
            also_unsaid: also take back what earlier code said and this does not; what a sweeper's process does.
        """
        if self._said is None or (self._is_done and not also_unsaid):
            return
        said, unsaid = self._said()
        with self._lock:
            if said or also_unsaid:
                world.store.sync_lanes(said, unsaid=unsaid if also_unsaid else (), look_s=0.0)
            self._is_done = True

    def says(self, name: str) -> bool:
        """Whether code or settings of this process name this row."""
        return self._said is not None and name in self._said()[0]


def row_name(*, saga: str | None, lane: str | None) -> str:
    """The row that is meant: of one saga, `*` for all, or of one lane.

    Raises:
        DefinitionError: none or both are given, or no name; nothing was changed.
    """
    if (saga is None) == (lane is None):
        raise DefinitionError("give saga= (a name, or '*' for all sagas) or lane=, one of them; nothing was changed.")
    for what, given in (("saga=", saga), ("lane=", lane)):
        if given is not None and not is_name(given):
            raise DefinitionError(
                f"{what} takes a name, text of 1 to {MAX_NAME} characters, none of them a control character, got "
                f"{shown(given)}; nothing was changed."
            )
    if lane is not None:
        return lane_name(lane)
    return ALL if saga == ALL else saga_name(saga or "")


def pause(world: World, name: str, *, by: str | None, reason: str) -> LaneRecord:
    """Admit nothing more there, and have what is live queue; when it returns no further step of it begins."""
    done = world.store.pause_lane(name, by=by, reason=reason, look_s=world.resend_s)
    admission.enlist(world, name)
    return done


def unpause(world: World, name: str, *, by: str | None = None, reason: str = "") -> bool:
    """Admit again; False: it was neither paused nor kept closed by a limit."""
    if world.store.unpause_lane(name, look_s=world.resend_s) is None:
        return False
    tell_unpaused(name, by, reason)
    admission.admit(world, [name])
    return True


def spec_of(world: World, name: str) -> LaneSpec:
    """What is said of a lane now; one that nothing is said of lets one run in at a time."""
    world.lanes.sync(world)
    there = world.store.lanes([name])
    return there[0].lane.spec if there else LaneSpec(cap=1 if name.startswith("lane:") else None)


def refuse_unknown(world: World, name: str, known: bool) -> None:
    """Refuse the row of a saga that is `known` neither here nor to a live worker, and of which the tables have nothing.

    Raises:
        UnknownSaga: it is most likely a typing error; nothing was changed.
    """
    kind, _, saga = name.partition(":")
    store = world.store
    if kind != "saga" or known or store.lanes([name]) or store.runs(RunFilter(saga=saga, limit=1)):
        return
    if store.runs(RunFilter(saga=saga, purged=True, limit=1)):
        return
    if any(saga == str(each[0]) for sweeper in store.sweepers() for each in sweeper["sagas"]):
        return
    raise UnknownSaga(
        f"no saga {saga!r} is known here or to a live worker, and there are no runs of it; nothing was changed. "
        "Look at the spelling of its name."
    )


def set_lane(world: World, name: str, spec: LaneSpec) -> LaneRecord:
    """What an operator says of a lane, in place of what code and settings say."""
    done = world.store.set_lane(name, spec, look_s=world.resend_s)
    if done.enlisting:
        admission.enlist(world, name)
    else:
        admission.admit(world, [name])
    return done


def forget_lane(world: World, name: str, *, by: str | None = None, reason: str = "") -> bool:
    """Delete the row of a lane that is not in use; False: there is none.

    Raises:
        IllegalTransition: it is in use, or code or settings name it; nothing was changed.
    """
    lane = name.partition(":")[2]
    if world.lanes.says(name):
        raise IllegalTransition(
            f"lane {lane!r} is named by code or by saga_lanes, which would bring it back; nothing was changed. "
            "Take it out there first."
        )
    was = world.store.forget_lane(name)
    if was is None:
        return False
    if was.runs:
        raise IllegalTransition(
            f"lane {lane!r} is in use: {was.used} hold a slot, {was.queued} queue, and {was.runs} live runs in all "
            "come back to it; nothing was changed. Forget it once they have ended."
        )
    tell_forgotten(name, by, reason)
    return True


def lanes(world: World) -> list[LaneLoad]:
    """All lanes with their use, by name."""
    world.lanes.sync(world)
    return world.store.lanes()
