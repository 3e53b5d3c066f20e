"""What a store must keep about its lists, and about finding what nothing would wake."""

# ruff: noqa: D102 - the names of the tests are the claims

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from celery_saga.core import codec
from celery_saga.core.ports import REPEATED, RunFilter
from celery_saga.core.records import RunRecord, StepKind, StepRecord
from celery_saga.core.status import RunStatus, StepStatus
from celery_saga.errors import InvalidPayload
from celery_saga.store import SqlStore
from celery_saga.testing.samples import FAR_AHEAD, LONG_AGO, SECOND, Adding, a_run, a_signal, a_step


class StoreLists:
    """Needs the fixture `store` (migrated, empty)."""

    def test_runs_are_listed_newest_first_without_input_and_result(self, store: SqlStore) -> None:
        runs = [a_run(created_at=LONG_AGO + n * SECOND, result_text="1") for n in range(4)]
        for run in runs:
            store.insert_run(run)

        listed = store.runs(RunFilter())

        assert listed == [replace(run, input_text=None, result_text=None) for run in reversed(runs)]

    def test_pages_hold_every_run_once_also_where_runs_are_of_one_moment(self, store: SqlStore) -> None:
        runs = [a_run(created_at=LONG_AGO + (n // 3) * SECOND) for n in range(8)]
        for run in runs:
            store.insert_run(run)

        seen: list[str] = []
        while page := store.runs(RunFilter(limit=3, after=seen[-1] if seen else None)):
            seen += [run.id for run in page]

        assert sorted(seen) == sorted(run.id for run in runs)
        assert len(seen) == 8

    def test_each_filter_takes_its_runs_and_no_others(self, store: SqlStore) -> None:
        tags = codec.encode(["vip", "É"])
        wanted = a_run(
            saga="pay",
            version=7,
            key="k",
            lane="slow",
            status=RunStatus.SUSPENDED,
            tags_text=tags,
            created_at=FAR_AHEAD,
        )
        other = a_run(tags_text=codec.encode(["VIP", "vi", "vip2", "e"]), key="K", lane="Slow", saga="Pay")
        for run in (wanted, other):
            store.insert_run(run)
        filters = [
            RunFilter(saga="pay"),
            RunFilter(version=7),
            RunFilter(key="k"),
            RunFilter(lane="slow"),
            RunFilter(status=("suspended", "failed")),
            RunFilter(tag="vip"),
            RunFilter(tag="É"),
            RunFilter(since=FAR_AHEAD),
            RunFilter(attention=True),
        ]

        assert [[run.id for run in store.runs(by)] for by in filters] == [[wanted.id]] * len(filters)
        assert [run.id for run in store.runs(RunFilter(until=FAR_AHEAD))] == [other.id]
        assert store.runs(RunFilter(tag="v_p")) == store.runs(RunFilter(tag="%")) == []

    def test_filters_together_take_what_fulfils_them_all(self, store: SqlStore) -> None:
        texts = {True: codec.encode(["vip", "late"]), False: "[]"}
        runs = [
            a_run(saga=saga, version=version, status=status, tags_text=texts[tagged], created_at=LONG_AGO + n * SECOND)
            for n, (saga, version, status, tagged) in enumerate(
                itertools.product(("a", "b"), (1, 2), (RunStatus.FAILED, RunStatus.COMPLETED), (True, False))
            )
        ]
        for run in runs:
            store.insert_run(run)

        for saga, version, status, tag in itertools.product((None, "b"), (None, 2), (None, ("failed",)), (None, "vip")):
            wanted = RunFilter(saga=saga, version=version, status=status, tag=tag)
            expected = [run.id for run in reversed(runs) if _fits(run, wanted)]
            assert [run.id for run in store.runs(wanted)] == expected
            assert _paged(store, replace(wanted, limit=1)) == expected

    def test_what_is_written_between_two_pages_is_neither_lost_nor_repeated(self, store: SqlStore) -> None:
        runs = [a_run(created_at=LONG_AGO + n * SECOND, saga="a", version=1 + n % 2) for n in range(6)]
        for run in runs:
            store.insert_run(run)
        first = store.runs(RunFilter(saga="a", limit=2))
        store.insert_run(a_run(saga="a", created_at=LONG_AGO + 9 * SECOND))
        store.transact(runs[0].id, lambda s, now: s.with_run(status=RunStatus.COMPLETED))
        store.transact(runs[3].id, lambda s, now: s.with_run(status=RunStatus.FAILED))

        rest = store.runs(RunFilter(saga="a", after=first[-1].id, after_at=first[-1].created_at))

        assert [run.id for run in [*first, *rest]] == [run.id for run in reversed(runs)]

    def test_a_page_goes_on_where_the_last_run_of_the_one_before_is_gone(self, store: SqlStore) -> None:
        runs = [a_run(created_at=LONG_AGO + n * SECOND) for n in range(3)]
        for run in (runs[0], runs[2]):
            store.insert_run(run)

        assert store.runs(RunFilter(after=runs[1].id, after_at=runs[1].created_at))[0].id == runs[0].id
        with pytest.raises(InvalidPayload, match="no such run"):
            store.runs(RunFilter(after=runs[1].id))

    # -- late ------------------------------------------------------------------------------------------------
    def test_runs_that_nobody_moves_are_listed_as_late(self, store: SqlStore) -> None:
        wait = {"status": StepStatus.WAITING, "kind": StepKind.TIMER}
        late = [
            _store_run(store, a_run(wake_at=LONG_AGO)),
            _store_run(store, a_run(wake_at=FAR_AHEAD, sends=REPEATED)),
            _store_run(store, a_run(), a_step("", wake_at=LONG_AGO)),
            _store_run(store, a_run(), a_step("", sends=REPEATED)),
            _store_run(store, a_run(status=RunStatus.WAITING), a_step("", wake_at=LONG_AGO, **wait)),
        ]
        signalled = _store_run(store, a_run())
        store.put_signal(a_signal(signalled.id))
        _store_run(store, a_run(wake_at=FAR_AHEAD, sends=REPEATED - 1))
        _store_run(store, a_run(), a_step("", status=StepStatus.RUNNING, sends=REPEATED))
        _store_run(store, a_run(), a_step("", generation=2, wake_at=LONG_AGO))
        _store_run(store, a_run(status=RunStatus.SUSPENDED), a_step("", wake_at=LONG_AGO))
        _store_run(store, a_run(status=RunStatus.COMPLETED, wake_at=LONG_AGO))

        found = store.runs(RunFilter(late_s=60))

        assert {run.id for run in found} == {run.id for run in (*late, signalled)}

    def test_live_runs_are_counted_by_version(self, store: SqlStore) -> None:
        for run in (
            a_run(),
            a_run(version=2),
            a_run(version=2, status=RunStatus.SUSPENDED),
            a_run(version=3, status=RunStatus.FAILED),
        ):
            store.insert_run(run)

        assert store.live_versions() == [("checkout", 1, 1), ("checkout", 2, 2)]

    # -- nothing live without a wake-up ----------------------------------------------------------------------
    def test_a_run_that_something_wakes_is_not_stuck(self, store: SqlStore) -> None:
        wait = {"kind": StepKind.SIGNAL, "status": StepStatus.WAITING, "task": "approval"}
        _store_run(store, a_run(wake_at=FAR_AHEAD))
        _store_run(store, a_run(), a_step("", "sent"))
        _store_run(store, a_run(status=RunStatus.SUSPENDED))
        _store_run(store, a_run(status=RunStatus.COMPLETED))
        _store_run(store, a_run(status=RunStatus.WAITING), a_step("", "no_time_out", wake_at=None, **wait))
        unseen = _store_run(store, a_run(status=RunStatus.WAITING), a_step("", "w", wake_at=None, **wait))
        store.put_signal(a_signal(unseen.id))
        other = _store_run(store, a_run(status=RunStatus.WAITING), a_step("", "w", wake_at=None, **wait))
        store.put_signal(a_signal(other.id, name="Approval", wake_at=None))

        assert store.without_wake_up() == []

    def test_a_run_that_nothing_would_wake_is_found(self, store: SqlStore) -> None:
        wait = {"kind": StepKind.SIGNAL, "status": StepStatus.WAITING, "task": "approval", "wake_at": None}
        nothing = _store_run(store, a_run())
        ended = _store_run(store, a_run(), a_step("", "ended", status=StepStatus.DONE))
        forgotten = _store_run(store, a_run(), a_step("", "f", wake_at=None), a_step("", "fine"))
        seen = _store_run(store, a_run(status=RunStatus.WAITING), a_step("", "w", **wait))
        store.put_signal(a_signal(seen.id, wake_at=None))

        found = {run.id for run in store.without_wake_up()}

        assert found == {nothing.id, ended.id, forgotten.id, seen.id}

    def test_a_join_whose_parts_are_all_in_or_held_is_found(self, store: SqlStore) -> None:
        join = a_step(
            "", "group", kind=StepKind.JOIN, status=StepStatus.WAITING, wake_at=None, join_total=2, join_left=1
        )
        of_it = {"kind": StepKind.PART, "join_key": "group", "wake_at": None}
        done = a_step("", "group[0]", status=StepStatus.DONE, **of_it)
        held = a_step("", "group[1]", status=StepStatus.HELD, **of_it)
        waiting = a_step("", "group[1]", status=StepStatus.WAITING, **of_it)
        wait = a_step("", "group[1]/w", kind=StepKind.SIGNAL, status=StepStatus.WAITING, task="go", wake_at=None)
        stuck = [_store_run(store, a_run(status=RunStatus.WAITING), join, done, x) for x in (held, waiting)]
        _store_run(store, a_run(status=RunStatus.WAITING), join, done, waiting, wait)

        assert {run.id for run in store.without_wake_up()} == {run.id for run in stuck}


def _fits(run: RunRecord, wanted: RunFilter) -> bool:
    return (
        wanted.saga in (None, run.saga)
        and wanted.version in (None, run.version)
        and (wanted.status is None or run.status.value in wanted.status)
        and (wanted.tag is None or wanted.tag in run.tags)
    )


def _paged(store: SqlStore, wanted: RunFilter) -> list[str]:
    found: list[str] = []
    while page := store.runs(wanted):
        found += [run.id for run in page]
        wanted = replace(wanted, after=page[-1].id, after_at=page[-1].created_at)
    return found


def _store_run(store: SqlStore, run: RunRecord, *steps: StepRecord) -> RunRecord:
    store.insert_run(run)
    if steps:
        store.transact(run.id, Adding(*(replace(step, run_id=run.id) for step in steps)))
    return run
