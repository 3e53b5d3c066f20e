"""What a store must keep about lanes: never one more than a cap, in order, and nothing that nobody looks at."""

# ruff: noqa: D102 - the names of the tests are the claims

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from celery_saga.core import admission
from celery_saga.core.admission import LaneSpec, lane_name
from celery_saga.core.due import DueKind
from celery_saga.core.lanes import SlotState
from celery_saga.core.orders import RunSpec
from celery_saga.core.ports import RunFilter
from celery_saga.core.records import RunRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import Admission, RunEvent
from celery_saga.store import SqlStore
from celery_saga.testing.samples import a_run, new_id
from celery_saga.testing.team import Team

_LOOK_S = 30.0


def ask(s: Snapshot, now: datetime) -> Snapshot:
    """The run asks to be let in."""
    return admission.ask(s, now, _LOOK_S)


def let_in(s: Snapshot, now: datetime) -> Snapshot:
    """The run has all its slots."""
    return admission.admitted(s, s.run.asks, now, _LOOK_S)


def leave(s: Snapshot, now: datetime) -> Snapshot:
    """The run gives its slots back."""
    return replace(s.with_run(admission=Admission.OUT), look_at=now)


# -- what racers do: functions of this module, so that they travel to other processes --------------------------
def go_through(store: SqlStore, lane: str, run_ids: list[str]) -> int:
    """Let these runs ask, then look at the lane until all of its runs have been in; the most that were in at once."""
    most = 0
    for run_id in run_ids:
        store.transact(run_id, ask)
    while True:
        looked = store.admit(lane_name(lane), at_most=2, look_s=_LOOK_S)
        for each in looked.granted:
            store.transact(each.run_id, let_in)
            most = max(most, sum(run.admission == Admission.HELD for run in _runs(store, lane)))
            store.transact(each.run_id, leave)
        if all(run.admission == Admission.OUT and run.asks for run in _runs(store, lane)):
            return most


def _runs(store: SqlStore, lane: str) -> list[RunRecord]:
    return store.runs(RunFilter(lane=lane, limit=1000))


class StoreLanes:
    """Needs the fixtures `store` (migrated, empty), `another` and `team`."""

    @pytest.mark.parametrize("moment", range(4))
    def test_who_is_let_in_while_a_lane_is_counted_is_counted(
        self, store: SqlStore, another: SqlStore | None, moment: int
    ) -> None:
        if another is None or store.database.one_writer:
            pytest.skip("nobody writes while a lane is looked at")
        lane = new_id()
        store.set_lane(lane_name(lane), LaneSpec(cap=None, limit=1, window_s=600), look_s=_LOOK_S)
        asks = {"admission": Admission.ASKED.value, "asks": 1}
        first, second = a_run(lane=lane, **asks), a_run(lane=lane, **asks)
        for run in (first, second):
            store.insert_run(run)
        assert [each.run_id for each in store.admit(lane_name(lane), at_most=9, look_s=_LOOK_S).granted] == [first.id]
        seen: list[str] = []

        def trace(label: str) -> None:
            if "count" in label or "prune" in label:
                seen.append(label)
                if len(seen) == 2 * moment + 1:  # before the first, the second, ... of them
                    another.transact(first.id, let_in)

        store.trace = trace
        looked = store.admit(lane_name(lane), at_most=9, look_s=_LOOK_S)
        store.trace = None

        assert len(seen) == 8
        assert looked.granted == ()

    def test_of_racers_at_one_lane_never_more_than_its_cap_are_let_in_and_each_is_once(
        self, store: SqlStore, team: Team
    ) -> None:
        lane = new_id()
        store.set_lane(lane_name(lane), LaneSpec(cap=2), look_s=_LOOK_S)
        runs = [a_run(lane=lane) for _ in range(team.size * 4)]
        for run in runs:
            store.insert_run(run)
        shares = [[run.id for run in runs[number :: team.size]] for number in range(team.size)]

        most = team.race([(go_through, (lane, share)) for share in shares])

        assert 1 <= max(most) <= 2
        assert {run.asks for run in _runs(store, lane)} == {1}
        store.admit(lane_name(lane), at_most=10, look_s=_LOOK_S)
        [load] = store.lanes([lane_name(lane)])
        assert (load.used, load.queued) == (0, 0)

    def test_slots_go_by_priority_and_then_by_when_they_were_asked_for(self, store: SqlStore) -> None:
        lane = new_id()
        runs = [
            a_run(lane=lane, priority=priority, admission=Admission.ASKED.value, asks=1) for priority in (0, 5, 10, 0)
        ]
        for run in runs:
            store.insert_run(run)

        order: list[str] = []
        while granted := store.admit(lane_name(lane), at_most=10, look_s=_LOOK_S).granted:
            [each] = granted
            order.append(each.run_id)
            store.transact(each.run_id, let_in)
            store.transact(each.run_id, leave)

        assert order == [runs[2].id, runs[1].id, runs[0].id, runs[3].id]

    def test_what_is_granted_or_given_back_and_not_looked_at_is_due(self, store: SqlStore) -> None:
        lane = new_id()
        first, second = (a_run(lane=lane, admission=Admission.ASKED.value, asks=1) for _ in range(2))
        store.insert_run(first)
        store.insert_run(second)
        assert _due(store) == {("", lane_name(lane))}

        store.admit(lane_name(lane), at_most=10, look_s=0.0)
        assert _due(store) == {(first.id, lane_name(lane))}  # granted, and not told

        store.transact(first.id, let_in)
        assert _due(store) == set()
        store.transact(first.id, leave)
        assert _due(store) == {("", lane_name(lane))}

        [granted] = store.admit(lane_name(lane), at_most=10, look_s=_LOOK_S).granted
        assert granted.run_id == second.id
        assert _due(store) == set()

    def test_a_run_that_moves_on_while_it_is_granted_is_not_let_in(self, store: SqlStore) -> None:
        lane = new_id()
        run = a_run(lane=lane, admission=Admission.ASKED.value, asks=1)
        store.insert_run(run)
        store.admit(lane_name(lane), at_most=10, look_s=_LOOK_S)

        store.transact(run.id, ask)
        late = store.transact(run.id, lambda s, now: admission.admitted(s, 1, now, _LOOK_S))

        assert late is not None and late.new is late.old
        assert [slot.state for slot in store.slots_of(run.id)] == [SlotState.QUEUED]

    def test_a_limit_is_never_shortened_and_a_pause_keeps_its_first_words(self, store: SqlStore) -> None:
        name = lane_name(new_id())
        store.limit_lane(name, delay_s=60)
        store.limit_lane(name, delay_s=1)
        first = store.pause_lane(name, by="ann", reason="closed", look_s=_LOOK_S)
        again = store.pause_lane(name, by="bob", reason="", look_s=_LOOK_S)

        assert first.limited_until is not None and first.limited_until - store.now() > timedelta(seconds=50)
        assert (again.paused_at, again.paused_by, again.paused_reason) == (first.paused_at, "ann", "closed")
        assert store.unpause_lane(name, look_s=_LOOK_S) is not None
        assert store.unpause_lane(name, look_s=_LOOK_S) is None

    def test_who_lets_a_lane_go_takes_back_a_limit_too(self, store: SqlStore) -> None:
        name = lane_name(new_id())
        store.limit_lane(name, delay_s=3600)
        lifted = store.unpause_lane(name, look_s=_LOOK_S)
        assert lifted is not None and lifted.limited_until is None
        assert store.unpause_lane(name, look_s=_LOOK_S) is None

        store.limit_lane(name, delay_s=-1)  # over
        assert store.unpause_lane(name, look_s=_LOOK_S) is None

    def test_a_limit_does_not_put_off_who_has_the_runs_of_a_pause_queue(self, store: SqlStore) -> None:
        name = lane_name(new_id())
        store.pause_lane(name, by=None, reason="", look_s=_LOOK_S)
        store.limit_lane(name, delay_s=3600)

        [load] = store.lanes([name])
        assert load.lane.wake_at is not None and load.lane.wake_at - store.now() < timedelta(seconds=_LOOK_S + 1)

    def test_what_an_operator_says_goes_before_what_code_says(self, store: SqlStore) -> None:
        mine, theirs = lane_name(new_id()), lane_name(new_id())
        store.set_lane(mine, LaneSpec(cap=7), look_s=_LOOK_S)
        for cap in (2, 3):
            store.sync_lanes({mine: LaneSpec(cap=cap), theirs: LaneSpec(cap=cap)}, look_s=_LOOK_S)

        assert [load.lane.cap for load in store.lanes([mine])] == [7]
        assert [load.lane.cap for load in store.lanes([theirs])] == [3]

    def test_a_lane_is_forgotten_once_no_live_run_has_been_there(self, store: SqlStore) -> None:
        lane = new_id()
        name = lane_name(lane)
        run = a_run(lane=lane, admission=Admission.ASKED.value, asks=1)
        store.insert_run(run)
        store.admit(name, at_most=10, look_s=_LOOK_S)
        store.transact(run.id, let_in)
        held = store.forget_lane(name)
        store.transact(run.id, leave)
        left = store.forget_lane(name)
        assert held is not None and left is not None
        assert (held.used, held.runs, left.runs) == (1, 1, 1)
        assert store.lanes([name])

        store.transact(run.id, _end)
        over = store.forget_lane(name)

        assert over is not None and over.runs == 0
        assert (store.lanes([name]), store.slots_of(run.id)) == ([], [])
        assert store.forget_lane(name) is None

    def test_what_the_code_of_the_run_that_was_made_last_says_of_a_lane_counts(self, store: SqlStore) -> None:
        lane = new_id()

        def caps(cap: int, *, days_ago: int) -> int | None:
            said, at = RunSpec(lane={"cap": cap}).to_text(), store.now() - timedelta(days=days_ago)
            asks = {"admission": Admission.ASKED.value, "asks": 1}
            store.insert_run(a_run(lane=lane, spec_text=said, created_at=at, **asks))
            store.admit(lane_name(lane), at_most=10, look_s=_LOOK_S)
            [load] = store.lanes([lane_name(lane)])
            return load.lane.cap

        assert [caps(1, days_ago=9), caps(3, days_ago=5), caps(3, days_ago=4)] == [1, 3, 3]
        assert caps(1, days_ago=8) == 3  # of the older deploy, and delayed
        store.sync_lanes({lane_name(lane): LaneSpec(cap=5)}, look_s=_LOOK_S)
        assert caps(2, days_ago=1) == 5


def _end(s: Snapshot, now: datetime) -> Snapshot:
    return s.move_run(RunEvent.ADVANCED).move_run(RunEvent.COMPLETED, ended_at=now)


def _due(store: SqlStore) -> set[tuple[str, str]]:
    """Lanes that are due, with the run that is to be told; slots at any time from now, as they were just written."""
    picked = store.pick_due(limit=1000, hold_s=_LOOK_S)
    return {(due.run_id, due.lane) for due in picked if due.kind is DueKind.LANE}
