"""What a store must keep about children: rows that come with their parent's, and ends that are not forgotten."""

# ruff: noqa: D102 - the names of the tests are the claims

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from celery_saga.core.due import DueKind
from celery_saga.core.focus import Focus
from celery_saga.core.records import RunRecord, StepKind
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunStatus, StepStatus
from celery_saga.store import SqlStore
from celery_saga.testing.samples import FAR_AHEAD, LONG_AGO, Adding, a_run, a_step


class Starting:
    """A transition that starts these children."""

    def __init__(self, *children: RunRecord) -> None:
        self._children = children

    def __call__(self, s: Snapshot, now: datetime) -> Snapshot:
        return replace(s.with_run(sends=s.run.sends + 1), starts=self._children)


class StoreChildren:
    """Needs the fixture `store` (migrated, empty)."""

    def test_children_are_inserted_with_the_transition_that_starts_them(self, store: SqlStore) -> None:
        parent = a_run()
        children = [a_run(parent_id=parent.id, parent_key=f"map[{number}]") for number in range(3)]
        store.insert_run(parent)

        done = store.transact(parent.id, Starting(*children))

        assert done is not None and done.new.starts == tuple(children)
        for child in children:
            loaded = store.load(child.id)
            assert loaded is not None and loaded.snapshot.run == child

    def test_a_child_that_is_there_already_is_left_as_it_is(self, store: SqlStore) -> None:
        parent, child = a_run(), a_run()
        store.insert_run(parent)
        store.insert_run(child)

        store.transact(parent.id, Starting(replace(child, priority=9), a_run()))

        loaded, of_parent = store.load(child.id), store.load(parent.id)
        assert loaded is not None and loaded.snapshot.run == child
        assert of_parent is not None and of_parent.snapshot.run.state_version == parent.state_version + 1

    def test_an_ended_child_is_due_until_its_wake_up_is_taken_away(self, store: SqlStore) -> None:
        ended = {"status": RunStatus.COMPLETED, "wake_at": LONG_AGO}
        child, orphan = a_run(parent_id=a_run().id, **ended), a_run(**ended)
        parked = a_run(parent_id=a_run().id, status=RunStatus.SUSPENDED, wake_at=LONG_AGO)
        for run in (child, orphan, parked):
            store.insert_run(run)

        picked = store.pick_due(limit=10, hold_s=60)
        assert [(due.kind, due.run_id) for due in picked] == [(DueKind.RUN, child.id)]
        assert picked[0].run is not None
        store.put_off_run(picked[0].run, delay_s=-60)
        assert [due.run_id for due in store.pick_due(limit=10, hold_s=60)] == [child.id]

        store.transact(child.id, lambda s, now: s.with_run(wake_at=None))
        assert store.pick_due(limit=10, hold_s=60) == []

    def test_an_ended_child_whose_parent_will_never_know_is_told_by_the_check(self, store: SqlStore) -> None:
        parent = a_run(status=RunStatus.WAITING, wake_at=None)
        ended = {"status": RunStatus.FAILED, "parent_id": parent.id}
        lost, known, kept = (
            a_run(**ended, wake_at=None),
            a_run(**ended, wake_at=None),
            a_run(**ended, wake_at=FAR_AHEAD),
        )
        for run in (parent, lost, known, kept):
            store.insert_run(run)
        waiting = {"kind": StepKind.CHILD, "status": StepStatus.WAITING, "wake_at": None}
        rows = [
            a_step(parent.id, "lost", task_id=lost.id, **waiting),
            a_step(parent.id, "kept", task_id=kept.id, **waiting),
            a_step(parent.id, "known", task_id=known.id, **{**waiting, "status": StepStatus.DONE}),
        ]
        store.transact(parent.id, Adding(*rows))

        assert [run.id for run in store.without_wake_up()] == [lost.id]

    def test_a_focused_load_reads_the_rows_that_were_asked_for(self, store: SqlStore) -> None:
        parent = a_run()
        store.insert_run(parent)
        store.transact(parent.id, Adding(*(a_step(parent.id, key) for key in ("a", "a!undo", "b", "map[1]"))))

        loaded = store.load(parent.id, focus=Focus(keys=("a", "a!undo", "map[1]", "gone")))

        assert loaded is not None and set(loaded.snapshot.steps) == {"a", "a!undo", "map[1]"}
