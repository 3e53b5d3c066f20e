"""What a store must keep about loading some of a run's steps: those of a focus, those that are not folded."""

# ruff: noqa: D102 - the names of the tests are the claims

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from celery_saga.core.focus import Extent, Focus, Incomplete, focus_of
from celery_saga.core.records import RunRecord, StepKind
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.stack import need_stacks
from celery_saga.core.status import StepStatus
from celery_saga.store import SqlStore
from celery_saga.testing.samples import Adding, a_run, a_step

_KEYS = (
    *("charge", "Map[0]", "map", "map[0]", "map[0]/a", "map[0]/a!undo", "map[0]/g", "map[0]/g[x]", "map[0]/g[x]/b"),
    *("map[0]!undo", "map[00]/a", "map[1]", "map[1]/a", "map[10]", "map[10]/a", "mapé[0]", "map#2", "map#2[0]/a"),
)
_UNDOABLE = '{"undo":{"call":{"task":"shop.release","args_text":"[[],{}]"}}}'
_SHORT = {"2": "2", "0": "0", "u": "u!undo", "r": "ship!rollback"}


class StoreFocus:
    """Needs the fixture `store` (migrated, empty)."""

    @pytest.fixture
    def run(self, store: SqlStore) -> RunRecord:
        run = a_run()
        store.insert_run(run)
        store.transact(run.id, Adding(*(a_step(run.id, key, status=StepStatus.DONE, wake_at=None) for key in _KEYS)))
        return run

    def _seen(self, store: SqlStore, run: RunRecord, focus: Focus | None) -> tuple[list[str], Snapshot]:
        seen: list[Snapshot] = []
        store.transact(run.id, lambda s, now: seen.append(s) or s, focus=focus)  # type: ignore[func-returns-value]
        return list(seen[0].steps), seen[0]

    def test_a_focus_on_a_part_loads_it_with_all_within_and_what_lies_around(
        self, store: SqlStore, run: RunRecord
    ) -> None:
        keys, s = self._seen(store, run, focus_of("map[0]/a"))

        around = ["charge", "map", "map#2"]
        inside = ["map[0]", "map[0]!undo", "map[0]/a", "map[0]/a!undo", "map[0]/g", "map[0]/g[x]", "map[0]/g[x]/b"]
        assert sorted(keys) == sorted(around + inside)
        assert s.extent is Extent.PART
        assert not s.is_busy_elsewhere

    def test_a_focus_on_one_step_of_a_join_loads_only_that_and_the_join(self, store: SqlStore, run: RunRecord) -> None:
        keys, _ = self._seen(store, run, focus_of("map[10]", deciding=False))

        assert sorted(keys) == ["map", "map[10]", "map[10]/a"]

    def test_work_that_is_not_loaded_is_known_of(self, store: SqlStore, run: RunRecord) -> None:
        store.transact(run.id, Adding(a_step(run.id, "map[7]")))

        assert self._seen(store, run, focus_of("map[0]/a"))[1].is_busy_elsewhere
        assert not self._seen(store, run, focus_of("map[7]"))[1].is_busy_elsewhere

    def test_folded_steps_are_loaded_only_where_all_are_wanted(self, store: SqlStore, run: RunRecord) -> None:
        def fold(s: Snapshot, now: datetime) -> Snapshot:
            parts = {key: replace(x, folded=True) for key, x in s.steps.items() if key.startswith("map[0]/")}
            return s.with_steps(parts).with_run(folded=True)

        store.transact(run.id, fold)

        keys, s = self._seen(store, run, None)
        assert s.extent is Extent.LIVE
        assert not any(key.startswith("map[0]/") for key in keys)
        everything = store.load(run.id, extent=Extent.ALL)
        assert everything is not None
        assert list(everything.snapshot.steps) == list(_KEYS)
        assert [x.key for x in store.steps(run.id)] == list(_KEYS)
        assert "map[0]/a" not in self._seen(store, run, focus_of("map[0]/a"))[0]

    def test_a_transition_that_needs_more_gets_it_under_the_same_lock(self, store: SqlStore, run: RunRecord) -> None:
        loaded: list[int] = []

        def change(s: Snapshot, now: datetime) -> Snapshot:
            loaded.append(len(s.steps))
            if s.step("map[1]") is None:
                raise AssertionError
            s.need(Extent.ALL)
            return s.with_run(queue="moved")

        done = store.transact(run.id, change, focus=focus_of("map[0]/a"))

        assert done is not None
        assert done.new.run.queue == "moved"
        assert loaded == [10, 11, len(_KEYS)]

    def test_a_step_that_is_nowhere_is_told_from_one_that_was_not_loaded(self, store: SqlStore, run: RunRecord) -> None:
        seen: list[object] = []
        store.transact(
            run.id,
            lambda s, now: seen.append(s.step("map[99]")) or s,  # type: ignore[func-returns-value]
            focus=focus_of("map[0]/a"),
        )

        assert seen == [None]

    def test_a_claim_with_a_focus_reads_only_that(self, store: SqlStore, run: RunRecord) -> None:
        store.transact(run.id, Adding(a_step(run.id, "map[3]/a")))

        claimed = store.claim(run.id, 1, "map[3]/a", token="t", owner="host:1", lease_s=30, focus=focus_of("map[3]/a"))

        assert claimed is not None
        assert sorted(claimed.snapshot.steps) == ["charge", "map", "map#2", "map[3]/a"]
        with pytest.raises(Incomplete):
            claimed.snapshot.step("map[1]")

    @pytest.mark.parametrize(("prefix", "seen"), [("", "8765u"), ("ship", "8765sr"), ("ship/7", "7r")])
    def test_of_a_stack_what_is_open_and_the_top_are_loaded(self, store: SqlStore, prefix: str, seen: str) -> None:
        run = a_run()
        store.insert_run(run)
        over = {"status": StepStatus.DONE, "wake_at": None}
        undo = {"kind": StepKind.UNDO, "wake_at": None}
        done = [
            a_step(run.id, f"ship/{n}" if n != "2" else n, spec_text=_UNDOABLE, seq=int(n), folded=True, **over)
            for n in "123456789"
        ]
        others = [
            a_step(run.id, "ship/9!undo", undo_of="ship/9", **over | undo),
            a_step(run.id, "ship/none", seq=10, **over),
            a_step(run.id, "u!undo", undo_of="u", status=StepStatus.FAILED, **undo),
            a_step(run.id, "v!undo", undo_of="v", status=StepStatus.LOST, **undo),
            a_step(run.id, "ship/s", folded=True),
            a_step(run.id, "ship!rollback", kind=StepKind.ROLLBACK, status=StepStatus.WAITING, wake_at=None),
            a_step(run.id, "shipyard", status=StepStatus.HELD, wake_at=None),
        ]
        store.transact(run.id, Adding(*done, *others))

        def change(s: Snapshot, now: datetime) -> Snapshot:
            need_stacks(s, (prefix,))
            loaded.append(s)
            return s

        loaded: list[Snapshot] = []
        store.transact(run.id, change, focus=Focus(keys=("0",), is_folded=True))

        [s] = loaded
        assert (s.extent, dict(s.stacks)) == (Extent.PART, {prefix: prefix != "ship/7"})
        wanted = {_SHORT.get(each, f"ship/{each}") for each in seen} - {"0"}
        assert set(s.steps) == wanted | ({"ship/s", "ship!rollback", "shipyard"} if not prefix else set())
