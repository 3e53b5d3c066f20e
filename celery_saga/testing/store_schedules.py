"""What a store must keep about schedules: their rows, the log of their fires, and who may fire them."""

# ruff: noqa: D102 - the names of the tests are the claims

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from celery_saga.core.due import DueKind
from celery_saga.core.schedules import (
    FIRES_KEPT,
    FireOutcome,
    FireRecord,
    PatternKind,
    ScheduleChange,
    ScheduleRecord,
    SkipReason,
)
from celery_saga.core.status import RunStatus
from celery_saga.store import SqlStore
from celery_saga.testing.samples import FAR_AHEAD, LONG_AGO, SECOND, a_run, new_id
from celery_saga.testing.team import Team


def a_schedule(id_: str, **fields: Any) -> ScheduleRecord:
    """A schedule of the saga `nightly` that is not due; `fields` go over that."""
    plain: dict[str, Any] = {
        "version": 1,
        "kind": PatternKind.CRON,
        "pattern": "0 3 * * *",
        "tz": "Europe/Berlin",
        "input_text": "{}",
        "input_digest": "",
        "overlap": "skip",
        "catch_up": "latest",
        "source": "code",
        "owner": "",
        "driver": "sweeper",
        "created_at": LONG_AGO,
        "updated_at": LONG_AGO,
        "anchor_at": LONG_AGO,
        "next_at": FAR_AHEAD,
        "wake_at": FAR_AHEAD,
    }
    return ScheduleRecord(saga="nightly", id=id_, **{**plain, **fields})


def a_fire(id_: str, seq: int, **fields: Any) -> FireRecord:
    """A row of the log of such a schedule; `fields` go over that."""
    plain: dict[str, Any] = {"count": 1, "outcome": FireOutcome.FIRED, "reason": None, "run_id": new_id()}
    instants = dict.fromkeys(("nominal_at", "until_at", "at"), LONG_AGO + seq * SECOND)
    return FireRecord(saga="nightly", schedule=id_, seq=seq, **{**plain, **instants, **fields})


def write(store: SqlStore, schedule: ScheduleRecord, *fires: FireRecord) -> None:
    """Write a schedule as it is given, with rows of its log."""
    store.change_schedule(schedule.saga, schedule.id, lambda s, last, now: ScheduleChange(schedule, fires))


# What racers do: functions of this module, so that they travel to other processes.
def count(store: SqlStore, id_: str) -> int:
    """Add the schedule, or one to its failures."""

    def change(s: ScheduleRecord | None, last: FireRecord | None, now: datetime) -> ScheduleChange:
        return ScheduleChange(a_schedule(id_) if s is None else replace(s, failures=s.failures + 1))

    done = store.change_schedule("nightly", id_, change).schedule
    assert done is not None
    return done.failures


def pick(store: SqlStore) -> list[str]:
    """Ids of the schedules that this racer got."""
    found = store.pick_due(limit=100, hold_s=60)
    return [due.schedule.id for due in found if due.schedule is not None]


class StoreSchedules:
    """Needs the fixtures `store` (migrated, empty) and `team` (racers on it)."""

    def test_a_schedule_comes_back_as_it_was_given(self, store: SqlStore) -> None:
        full = a_schedule(
            "n",
            last_fire_at=LONG_AGO,
            last_run_id=new_id(),
            handled_at=LONG_AGO + SECOND,
            exempt_until_at=LONG_AGO,
            paused=True,
            pause_reason="because",
            pause_by="ann",
            failures=3,
            error="x" * 70_000,
            fire_seq=7,
        )
        write(store, full)

        assert store.schedule("nightly", "n") == full
        assert store.schedules() == [full]
        assert store.schedule("nightly", "N") is None

    def test_a_changed_schedule_is_written_and_a_removed_one_is_gone_with_its_log(self, store: SqlStore) -> None:
        first = a_schedule("n", fire_seq=1)
        write(store, first, a_fire("n", 1))
        changed = replace(first, kind=PatternKind.EVERY, pattern="60.0", next_at=None, wake_at=None, paused=True)

        write(store, changed)
        seen = store.schedule("nightly", "n"), len(store.fires("nightly", "n", limit=9))
        store.change_schedule("nightly", "n", lambda s, last, now: ScheduleChange(None))

        assert seen == (changed, 1)
        assert (store.schedule("nightly", "n"), store.fires("nightly", "n", limit=9)) == (None, [])

    def test_a_change_sees_the_row_the_newest_of_its_log_and_the_time(self, store: SqlStore) -> None:
        schedule, fires = a_schedule("n", fire_seq=2), [a_fire("n", 1), a_fire("n", 2)]
        write(store, schedule, *fires)
        seen: list[object] = []
        before = store.now()

        def look(s: ScheduleRecord | None, last: FireRecord | None, now: datetime) -> ScheduleChange:
            seen.extend((s, last, timedelta(0) <= now - before < 5 * SECOND))
            return ScheduleChange(s)

        store.change_schedule("nightly", "n", look)

        assert seen == [schedule, fires[1], True]

    def test_what_a_change_raises_rolls_back_and_comes_out(self, store: SqlStore) -> None:
        write(store, a_schedule("n"))

        def refuse(s: ScheduleRecord | None, last: FireRecord | None, now: datetime) -> ScheduleChange:
            raise LookupError("no")

        with pytest.raises(LookupError, match="no"):
            store.change_schedule("nightly", "n", refuse)
        assert store.schedule("nightly", "n") == a_schedule("n")

    def test_the_log_is_told_newest_first_and_its_last_row_can_grow(self, store: SqlStore) -> None:
        skipped = a_fire("n", 2, outcome=FireOutcome.SKIPPED, reason=SkipReason.MISSED, run_id=None)
        first = a_fire("n", 1)
        write(store, a_schedule("n", fire_seq=2), first, skipped)
        grown = replace(skipped, until_at=FAR_AHEAD, count=500, at=FAR_AHEAD)

        write(store, a_schedule("n", fire_seq=3), grown, a_fire("n", 3, run_id="r"))

        assert store.fires("nightly", "n", limit=2) == [a_fire("n", 3, run_id="r"), grown]
        assert store.fires("nightly", "n", limit=9)[-1] == first

    def test_the_newest_rows_of_a_log_are_kept(self, store: SqlStore) -> None:
        write(store, a_schedule("n", fire_seq=3), *(a_fire("n", seq) for seq in (1, 2, 3)))
        write(store, a_schedule("other", fire_seq=1), a_fire("other", 1))

        write(store, a_schedule("n", fire_seq=FIRES_KEPT + 2), a_fire("n", FIRES_KEPT + 2))

        assert [fire.seq for fire in store.fires("nightly", "n", limit=9)] == [FIRES_KEPT + 2, 3]
        assert len(store.fires("nightly", "other", limit=9)) == 1

    def test_a_schedule_is_busy_while_a_run_of_its_log_is_live(self, store: SqlStore) -> None:
        live, ended = a_run(), a_run(status=RunStatus.COMPENSATION_FAILED)
        for run in (live, ended):
            store.insert_run(run)
        write(store, a_schedule("busy", fire_seq=2), a_fire("busy", 1, run_id=live.id), a_fire("busy", 2))
        write(store, a_schedule("free", fire_seq=1), a_fire("free", 1, run_id=ended.id))

        assert [store.is_busy("nightly", id_) for id_ in ("busy", "free", "none")] == [True, False, False]

    def test_a_due_schedule_is_picked_once_and_held(self, store: SqlStore) -> None:
        write(store, a_schedule("due", wake_at=LONG_AGO))
        write(store, a_schedule("later"))
        before = store.now()

        picked = store.pick_due(limit=10, hold_s=60)

        assert [(due.kind, due.run_id, due.run) for due in picked] == [(DueKind.SCHEDULE, "", None)]
        held = picked[0].schedule
        assert held is not None and held == store.schedule("nightly", "due")
        assert held.wake_at is not None and timedelta(0) <= held.wake_at - before - 60 * SECOND < 5 * SECOND
        assert store.pick_due(limit=10, hold_s=60) == []

    def test_nothing_due_is_one_statement_with_schedules_about(self, store: SqlStore) -> None:
        write(store, a_schedule("later"))
        store.pick_due(limit=10, hold_s=60)
        seen: list[str] = []
        watch: Callable[[str], None] = seen.append
        store.trace = watch

        store.pick_due(limit=10, hold_s=60)
        store.trace = None

        assert [label for label in seen if label.startswith("before:")] == ["before:peek due"]

    def test_of_racing_changes_none_is_lost(self, store: SqlStore, team: Team) -> None:
        for _ in range(3):
            id_ = new_id()

            answers = team.race([(count, (id_,)) for _ in range(team.size)])

            assert sorted(answers) == list(range(team.size))

    def test_of_racing_picks_each_schedule_is_had_by_one(self, store: SqlStore, team: Team) -> None:
        ids = sorted(new_id() for _ in range(8))
        for id_ in ids:
            write(store, a_schedule(id_, wake_at=LONG_AGO))

        answers = team.race([(pick, ()) for _ in range(team.size)])

        assert sorted(id_ for answer in answers for id_ in answer) == ids
