"""What a store must keep about purges: whole trees that have ended, and nothing that has moved meanwhile."""

# ruff: noqa: D102 - the names of the tests are the claims

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from celery_saga.core.ports import RunFilter
from celery_saga.core.records import Action, HistoryRecord, RunRecord
from celery_saga.core.retention import PurgeFilter, Stretch
from celery_saga.core.status import RunStatus
from celery_saga.store import SqlStore
from celery_saga.testing.samples import LONG_AGO, SECOND, a_run, a_signal, a_step
from celery_saga.testing.store_schedules import a_schedule, write
from celery_saga.testing.team import Team

_CUTOFF = LONG_AGO + timedelta(days=1)
_OLD: dict[str, Any] = {"status": RunStatus.COMPLETED, "ended_at": LONG_AGO, "result_text": "1"}


class StorePurging:
    """Needs the fixtures `store` (migrated, empty), `another` (the same tables, or None) and `team`."""

    def test_only_what_has_ended_well_and_long_ago_goes(self, store: SqlStore) -> None:
        ends = {RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED}
        old = {status: _put(store, status=status, ended_at=LONG_AGO) for status in RunStatus}
        recent = _put(store, **{**_OLD, "ended_at": _CUTOFF})

        assert _purge(store, dry_run=True) == (3, 0)
        assert _left(store) == {recent.id, *(run.id for run in old.values())}
        assert store.protected(PurgeFilter(_CUTOFF)) == (5, 1)
        assert _purge(store) == (3, 3)
        assert _left(store) == {recent.id, *(run.id for status, run in old.items() if status not in ends)}
        assert _purge(store) == (0, 0)

    def test_all_that_belongs_to_a_run_goes_with_it(self, store: SqlStore) -> None:
        gone, stays = (_full(store, **fields) for fields in (_OLD, {"status": RunStatus.SUSPENDED}))

        _purge(store)

        assert store.load(gone.id) is None
        assert not store.steps(gone.id, all_generations=True)
        assert not store.history(gone.id) and not store.signals(gone.id)
        assert store.runs(RunFilter(tag="vip")) == [
            replace(run, input_text=None, result_text=None) for run in _loaded(store, stays)
        ]
        assert store.steps(stays.id) and store.history(stays.id) and store.signals(stays.id)

    def test_of_a_run_with_a_key_the_emptied_row_stays_until_keys_go_too(self, store: SqlStore) -> None:
        run = _full(store, key="order-1", input_digest="d", input_text='"secret"', error_text='"secret"', **_OLD)

        assert _purge(store) == (1, 1)
        (left,) = _loaded(store, run)
        assert left.purged_at is not None
        assert (left.key, left.status, left.input_digest, left.ended_at) == ("order-1", run.status, "d", LONG_AGO)
        assert "secret" not in repr(left) and left.input_text is None and left.tags == ()
        assert not store.steps(run.id) and not store.history(run.id) and not store.signals(run.id)
        assert store.runs(RunFilter()) == store.runs(RunFilter(key="order-1")) == store.runs(RunFilter(tag="vip")) == []
        assert [found.id for found in store.runs(RunFilter(purged=True))] == [run.id]
        assert store.insert_run(run) == (left, False)
        assert _purge(store) == (0, 0)
        assert _purge(store, keep_keys=False) == (1, 1)
        assert store.load(run.id) is None

    def test_of_a_fired_run_no_key_stays_unless_its_time_might_be_fired_again(self, store: SqlStore) -> None:
        later = LONG_AGO + SECOND
        write(store, a_schedule("reports", next_at=later))
        write(store, a_schedule("once", next_at=None))
        past = _put(store, saga="nightly", key="past", scheduled_for=LONG_AGO, **_OLD)
        due = _put(store, saga="nightly", key="due", scheduled_for=later, **_OLD)
        other = _put(store, saga="hourly", key="other", scheduled_for=later, **_OLD)

        assert _purge(store) == (3, 3)
        assert [run.id for run in _loaded(store, past, due, other)] == [due.id]

    def test_a_tree_goes_as_a_whole_or_not_at_all(self, store: SqlStore) -> None:
        kinds = {"goes": _OLD, "lives": {"status": RunStatus.RUNNING}, "young": {**_OLD, "ended_at": _CUTOFF}}
        kinds |= {"waits": {"status": RunStatus.COMPENSATION_FAILED, "ended_at": LONG_AGO}}
        trees: dict[str, list[RunRecord]] = {}
        for name, fields in kinds.items():
            root = _put(store, key=name, **_OLD)
            child = _put(store, parent_id=root.id, key="own", **_OLD)
            other = _put(store, parent_id=root.id, **_OLD)
            trees[name] = [root, child, other, _put(store, parent_id=child.id, **fields)]

        assert _purge(store, dry_run=True, limit=1) == (4, 0)
        assert _purge(store, limit=1) == (4, 4)

        assert _left(store) == {run.id for name, runs in trees.items() if name != "goes" for run in runs}
        assert [run.id for run in store.runs(RunFilter(purged=True))] == [trees["goes"][0].id]

    def test_a_saga_and_statuses_narrow_it(self, store: SqlStore) -> None:
        runs = {
            (saga, status): _put(store, saga=saga, status=status, ended_at=LONG_AGO)
            for saga, status in itertools.product(("a", "b"), (RunStatus.COMPLETED, RunStatus.FAILED))
        }
        _put(store, saga="a", key="k", **_OLD)
        _purge(store, saga="a", status=(RunStatus.FAILED,), keep_keys=False)

        assert _left(store) >= {run.id for of, run in runs.items() if of != ("a", RunStatus.FAILED)}
        assert runs["a", RunStatus.FAILED].id not in _left(store)

    def test_the_latest_of_each_saga_stay(self, store: SqlStore) -> None:
        runs = [_put(store, saga="ab"[n % 2], **{**_OLD, "ended_at": LONG_AGO + n * SECOND}) for n in range(8)]
        alone = _put(store, saga="c", **_OLD)

        assert _purge(store, keep_latest=2, limit=1) == (4, 4)

        assert _left(store) == {alone.id, *(run.id for run in runs[4:])}

    @pytest.mark.parametrize("limit", [1, 2, 100])
    def test_parts_of_any_size_take_all_once(self, store: SqlStore, limit: int) -> None:
        for n in range(5):
            _put(store, **{**_OLD, "ended_at": LONG_AGO + (n // 3) * SECOND})

        assert _purge(store, limit=limit) == (5, 5)
        assert _left(store) == set()

    def test_a_run_that_moves_while_it_is_purged_stays_whole(self, store: SqlStore, another: SqlStore | None) -> None:
        if another is None or store.database.one_writer:
            pytest.skip("nobody else can write meanwhile")
        if store.dialect in ("mysql", "mariadb"):
            pytest.skip("what is looked at is locked too, so it cannot move")
        root = _put(store, **_OLD)
        child = _full(store, parent_id=root.id, **_OLD)

        def restart(label: str) -> None:
            if label == "before:delete runs":
                store.trace = None
                another.transact(child.id, lambda s, now: s.with_run(status=RunStatus.RUNNING, ended_at=None))

        store.trace = restart

        assert _purge(store) == (0, 0)
        assert _left(store) == {root.id, child.id}
        assert store.steps(child.id) and store.history(child.id)

    def test_what_somebody_works_on_is_left_for_another_time(self, store: SqlStore, another: SqlStore | None) -> None:
        if another is None or not store.database.skips_locked or store.database.one_writer:
            pytest.skip("nobody else can have it locked, or it is waited for")
        locked, free = (_put(store, **_OLD) for _ in range(2))

        def purge_others(s: Any, now: Any) -> Any:
            assert _purge(store) == (1, 1)
            return s

        another.transact(locked.id, purge_others)

        assert _left(store) == {locked.id}
        assert store.load(free.id) is None

    def test_purges_beside_each_other_do_no_harm(self, store: SqlStore, team: Team) -> None:
        for n in range(12):
            root = _full(store, key=f"k{n}" if n % 2 else None, **_OLD)
            _full(store, parent_id=root.id, **_OLD)

        done: list[int] = team.race([(purge_one_by_one, ())] * 4)

        assert sum(done) == 24
        assert _left(store) == set()
        assert len(store.runs(RunFilter(purged=True))) == 6

    def test_a_signal_that_came_while_its_run_was_purged_is_dropped(self, store: SqlStore) -> None:
        run = _put(store, **_OLD)
        _purge(store)
        store.put_signal(a_signal(run.id))

        store.pick_due(limit=10, hold_s=1)

        assert store.signals(run.id) == []

    # -- imports ---------------------------------------------------------------------------------------------
    def test_a_run_is_imported_with_all_that_belongs_to_it_or_not_at_all(self, store: SqlStore) -> None:
        run = a_run(tags_text='["vip"]', **_OLD)
        steps = [a_step(run.id, key, wake_at=None) for key in ("b", "a")]
        history = [_row(run.id, 1), _row(run.id, 2)]
        signals = [a_signal(run.id, signal_id=str(n), wake_at=None) for n in range(2)]

        assert store.import_run(run, steps, history, signals) is True
        assert store.import_run(run, steps, history, signals) is False

        assert _loaded(store, run) == [run]
        assert store.steps(run.id, all_generations=True) == steps
        assert store.history(run.id) == history
        assert [replace(signal, id=0) for signal in store.signals(run.id)] == signals
        assert [found.id for found in store.runs(RunFilter(tag="vip"))] == [run.id]


def purge_one_by_one(store: SqlStore) -> int:
    """How many runs this racer has taken."""
    return _purge(store, limit=1)[1]


def _row(run_id: str, seq: int) -> HistoryRecord:
    return HistoryRecord(run_id=run_id, seq=seq, at=LONG_AGO, action=Action.OK, kind="step", step="charge")


def _put(store: SqlStore, **fields: Any) -> RunRecord:
    return store.insert_run(a_run(**fields))[0]


def _full(store: SqlStore, **fields: Any) -> RunRecord:
    """A stored run with a tag, a step, a history row and a signal."""
    run = a_run(**{"tags_text": '["vip"]', **fields})
    signal = a_signal(run.id, wake_at=None)
    store.import_run(run, [a_step(run.id, wake_at=None)], [_row(run.id, 1)], [signal])
    return run


def _loaded(store: SqlStore, *runs: RunRecord) -> list[RunRecord]:
    return [loaded.snapshot.run for run in runs if (loaded := store.load(run.id)) is not None]


def _left(store: SqlStore) -> set[str]:
    return {run.id for run in store.runs(RunFilter(limit=1000))}


def _purge(
    store: SqlStore, *, limit: int = 100, dry_run: bool = False, keep_latest: int | None = None, **fields: Any
) -> tuple[int, int]:
    """How many were found to go, and are gone."""
    wanted = PurgeFilter(_CUTOFF, **fields)
    matched = deleted = 0
    for stretch in store.purge_stretches(wanted, keep_latest=keep_latest):
        rest: Stretch | None = stretch
        while rest is not None:
            done = store.purge_some(wanted, rest, limit=limit, dry_run=dry_run)
            matched, deleted, rest = matched + done.matched, deleted + done.deleted, done.rest
    return matched, deleted
