"""What a store must keep about what is due: picks, puttings-off, and who is alive to pick."""

# ruff: noqa: D102 - the names of the tests are the claims

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from celery_saga.core.due import DueKind
from celery_saga.core.ports import RunFilter
from celery_saga.core.status import RunStatus, StepStatus
from celery_saga.store import SqlStore
from celery_saga.testing.samples import FAR_AHEAD, LONG_AGO, SECOND, Adding, a_run, a_signal, a_step, new_id


class StoreDue:
    """Needs the fixture `store` (migrated, empty)."""

    def test_a_pick_moves_the_wake_up_and_counts_a_sending(self, store: SqlStore) -> None:
        run = a_run()
        store.insert_run(run)
        store.transact(run.id, Adding(a_step(run.id, "due", sends=0, wake_at=LONG_AGO), a_step(run.id, "later")))
        before = store.now()

        picked = store.pick_due(limit=10, hold_s=60)

        assert [(due.kind, due.run_id) for due in picked] == [(DueKind.STEP, run.id)]
        due = picked[0].step
        assert due == store.steps(run.id)[0]
        assert due is not None and due.sends == 1  # its first wake-up
        assert due.wake_at is not None and timedelta(0) <= due.wake_at - before - 60 * SECOND < 5 * SECOND
        assert picked[0].run is not None and picked[0].run.input_text is None
        assert store.pick_due(limit=10, hold_s=60) == []

    def test_a_running_step_is_picked_at_the_end_of_its_lease_and_nothing_is_counted(self, store: SqlStore) -> None:
        run = a_run()
        store.insert_run(run)
        store.transact(run.id, Adding(a_step(run.id)))
        store.claim(run.id, 1, "charge", token="t", owner="o", lease_s=-1)

        picked = store.pick_due(limit=10, hold_s=60)

        assert [(due.step.key, due.step.sends, due.step.claim_token) for due in picked if due.step is not None] == [
            ("charge", 1, "t")
        ]

    def test_every_pick_of_a_run_counts_a_sending(self, store: SqlStore) -> None:
        run = a_run(wake_at=LONG_AGO)
        store.insert_run(run)

        sends = [due.run.sends for _ in range(3) for due in store.pick_due(limit=1, hold_s=0) if due.run is not None]

        assert sends == [1, 2, 3]

    def test_a_signal_without_its_run_is_not_due_again_before_it_expires_and_is_dropped_then(
        self, store: SqlStore
    ) -> None:
        waits, over = new_id(), new_id()
        store.put_signal(a_signal(waits, expires_at=FAR_AHEAD))
        store.put_signal(a_signal(over, expires_at=LONG_AGO))

        picked = [store.pick_due(limit=10, hold_s=0) for _ in range(2)]

        assert [[(due.kind, due.run_id, due.run) for due in round_] for round_ in picked] == [
            [(DueKind.SIGNAL, waits, None)],
            [],
        ]
        assert store.signals(waits)[0].wake_at == FAR_AHEAD
        assert store.signals(over) == []

    def test_a_signal_of_a_run_is_due_until_somebody_looks_at_it(self, store: SqlStore) -> None:
        run = a_run()
        store.insert_run(run)
        store.put_signal(a_signal(run.id))

        first = store.pick_due(limit=10, hold_s=0)
        second = store.pick_due(limit=10, hold_s=0)
        store.transact(run.id, lambda s, now: s.with_inbox(tuple(replace(x, wake_at=None) for x in s.inbox)))

        assert [due.run_id for due in first] == [due.run_id for due in second] == [run.id]
        assert store.pick_due(limit=10, hold_s=0) == []

    def test_the_oldest_are_picked_first(self, store: SqlStore) -> None:
        run = a_run()
        store.insert_run(run)
        steps = [a_step(run.id, f"s{n}", wake_at=LONG_AGO + ((n * 7) % 10) * SECOND) for n in range(10)]
        store.transact(run.id, Adding(*steps))

        picked = [store.pick_due(limit=1, hold_s=3600)[0].step for _ in range(10)]

        oldest = sorted(steps, key=lambda step: step.wake_at or FAR_AHEAD)
        assert [step.key for step in picked if step is not None] == [step.key for step in oldest]

    def test_a_step_that_a_restart_left_behind_wakes_nobody(self, store: SqlStore) -> None:
        run = a_run()
        store.insert_run(run)
        store.transact(run.id, Adding(a_step(run.id, wake_at=LONG_AGO)))
        store.transact(run.id, lambda s, now: replace(s.with_run(generation=2), steps={}))

        assert store.pick_due(limit=10, hold_s=0) == []
        assert store.steps(run.id, all_generations=True)[0].wake_at is None

    def test_a_step_is_put_off_unless_it_moved(self, store: SqlStore) -> None:
        run = a_run()
        store.insert_run(run)
        store.transact(run.id, Adding(a_step(run.id, wake_at=LONG_AGO)))
        step = store.steps(run.id)[0]

        store.put_off(step, delay_s=60)
        put_off = store.steps(run.id)[0]
        store.put_off(replace(step, sends=2), delay_s=600)
        store.put_off(replace(step, attempt=1), delay_s=600)

        assert put_off.wake_at is not None and put_off.wake_at > store.now() + 50 * SECOND
        assert store.steps(run.id)[0] == put_off

    def test_a_run_is_put_off_if_it_is_live_and_has_a_wake_up(self, store: SqlStore) -> None:
        live, undue, ended = a_run(wake_at=LONG_AGO), a_run(), a_run(status=RunStatus.FAILED)
        for run in (live, undue, ended):
            store.insert_run(run)

            store.put_off_run(run, delay_s=60)
            store.put_off_run(replace(run, sends=7), delay_s=600)
            store.put_off_run(replace(run, state_version=9), delay_s=600)

        found = {run.id: run for run in store.runs(RunFilter())}
        wake_at = found[live.id].wake_at
        assert wake_at is not None and store.now() + 50 * SECOND < wake_at < store.now() + 70 * SECOND
        assert (found[ended.id].wake_at, found[undue.id].wake_at) == (None, None)

    def test_a_parked_run_is_not_picked(self, store: SqlStore) -> None:
        store.insert_run(a_run(status=RunStatus.SUSPENDED, wake_at=LONG_AGO))

        assert store.pick_due(limit=10, hold_s=60) == []

    def test_the_first_timer_of_what_nobody_has_woken_yet_is_seen_coming(self, store: SqlStore) -> None:
        def coming_at(seconds: float) -> datetime:
            return store.now() + seconds * SECOND

        asleep = a_run()
        store.insert_run(asleep)
        assert store.coming_s(3600) is None  # no timers

        not_yet = [
            a_step(asleep.id, "over", sends=0, wake_at=LONG_AGO),
            a_step(asleep.id, "late", sends=0, wake_at=coming_at(4000)),
            a_step(asleep.id, "sent", sends=1, wake_at=coming_at(10)),
            a_step(asleep.id, "runs", sends=0, wake_at=coming_at(10), status=StepStatus.RUNNING),
        ]
        store.transact(asleep.id, Adding(*not_yet))
        store.insert_run(a_run(status=RunStatus.SUSPENDED, wake_at=coming_at(10)))
        store.insert_run(a_run(sends=1, wake_at=coming_at(10)))
        assert store.coming_s(3600) is None

        store.transact(asleep.id, Adding(a_step(asleep.id, "waits", sends=0, wake_at=coming_at(1000))))
        by_step = store.coming_s(3600)
        assert by_step is not None and 900 < by_step <= 1000
        store.insert_run(a_run(status=RunStatus.QUEUED, wake_at=coming_at(500)))
        by_run = store.coming_s(3600)
        assert by_run is not None and 400 < by_run <= 500
        assert store.coming_s(300) is None
        store.insert_run(a_run(status=RunStatus.QUEUED, wake_at=coming_at(-50)))
        assert store.coming_s(300) is None
        just_due = store.coming_s(300, since_s=100)
        assert just_due is not None and -100 < just_due <= -50

    def test_sweepers_are_counted_while_they_are_seen(self, store: SqlStore) -> None:
        first = store.beat("a", host="h", pid=1, sagas=[("checkout", 1)], ttl_s=60)
        second = store.beat("b", host="h", pid=2, sagas=[], ttl_s=60)
        again = store.beat("a", host="h", pid=1, sagas=[("checkout", 2), ("checkout", 1)], ttl_s=60)
        alone = store.beat("a", host="h", pid=1, sagas=[("checkout", 2), ("checkout", 1)], ttl_s=0)

        assert [each.alive for each in (first, second, again, alone)] == [1, 2, 2, 1]
        assert [each.before for each in (first, second, again)] == [0, 1, 0]
        assert first.now <= second.now <= store.now()
        rows = store.sweepers()
        assert [(row["name"], row["host"], row["pid"]) for row in rows] == [("a", "h", 1), ("b", "h", 2)]
        assert rows[0]["sagas"] == [("checkout", 1), ("checkout", 2)]
        assert rows[0]["alive_s"] > 0 and rows[0]["silent_s"] >= 0
        assert rows[0]["seen_at"] <= store.now()

    def test_a_sweeper_that_leaves_is_not_counted_any_more(self, store: SqlStore) -> None:
        store.beat("a", host="h", pid=1, sagas=[], ttl_s=60)
        store.beat("b", host="h", pid=2, sagas=[], ttl_s=60)

        store.leave("b")

        assert [each["name"] for each in store.sweepers()] == ["a"]
        assert store.beat("a", host="h", pid=1, sagas=[], ttl_s=60).alive == 1
