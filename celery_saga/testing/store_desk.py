"""What a store must keep about the desk, and about wake-ups that are sent again because they were lost."""

# ruff: noqa: D102 - the names of the tests are the claims

from __future__ import annotations

from dataclasses import replace
from typing import Any

from celery_saga.core.due import Due, DueKind, SentFilter
from celery_saga.core.records import RunRecord, StepKind, StepRecord
from celery_saga.core.status import RunStatus, StepStatus
from celery_saga.store import SqlStore
from celery_saga.testing.samples import FAR_AHEAD, LONG_AGO, SECOND, Adding, a_run, a_step


class StoreDesk:
    """Needs the fixture `store` (migrated, empty)."""

    def test_the_desk_has_those_who_need_a_person_the_longest_waiting_first_without_payload(
        self, store: SqlStore
    ) -> None:
        runs = [_parked(attention_at=LONG_AGO + n * SECOND, created_at=LONG_AGO - n * SECOND) for n in (2, 0, 1)]
        for run in (*runs, a_run()):
            store.insert_run(run)

        rows = store.desk(saga=None, after=None, limit=10)

        oldest_first = sorted(runs, key=lambda run: run.attention_at or LONG_AGO)
        assert [row.run for row in rows] == [replace(run, input_text=None, result_text=None) for run in oldest_first]

    def test_a_page_of_the_desk_goes_on_after_one_that_has_left_it(self, store: SqlStore) -> None:
        runs = sorted((_parked(attention_at=LONG_AGO) for _ in range(3)), key=lambda run: run.id)
        for run in runs:
            store.insert_run(run)
        store.transact(runs[0].id, lambda s, now: s.with_run(attention_at=None))

        rows = store.desk(saga=None, after=(LONG_AGO, runs[0].id), limit=1)

        assert [row.run.id for row in rows] == [runs[1].id]
        assert store.desk(saga="another", after=None, limit=10) == []

    def test_of_undos_it_tells_those_that_have_failed_and_were_not_undone(self, store: SqlStore) -> None:
        run = _parked(attention_at=LONG_AGO)
        store.insert_run(run)
        steps = (
            _undo(run, "a", status=StepStatus.FAILED, failures=2, error_text="{}", wake_at=None),
            _undo(run, "b", status=StepStatus.SCHEDULED, failures=5, attempt=5),
            _undo(run, "c", status=StepStatus.RUNNING, stalls=1, lease_until=LONG_AGO),
            _undo(run, "d", status=StepStatus.DONE, failures=1),
            _undo(run, "e", status=StepStatus.SCHEDULED),
            a_step(run.id, "f", failures=3),
        )
        store.transact(run.id, Adding(*steps))

        (row,) = store.desk(saga=None, after=None, limit=10)

        assert [(undo.step, undo.status.value, undo.next_at) for undo in row.undos] == [
            ("a", "failed", None),
            ("b", "scheduled", FAR_AHEAD),
            ("c", "running", LONG_AGO),
        ]
        assert (row.undos[0].error_text, row.undos[1].failures, row.undos[1].attempt) == ("{}", 5, 5)

    def test_a_step_that_nobody_could_undo_is_told_while_its_outcome_is_unknown(self, store: SqlStore) -> None:
        unknown: dict[str, Any] = {
            "status": StepStatus.LOST,
            "maybe": True,
            "spec_text": '{"undo": {}}'.replace(" ", ""),
            "wake_at": None,
        }
        run, other = (_parked(attention_at=LONG_AGO, reason=reason) for reason in ("undo_unknown", "operator"))
        for each in (run, other):
            store.insert_run(each)
            store.transact(each.id, Adding(a_step(each.id, "a", **unknown), a_step(each.id, "b", **unknown)))
        store.transact(run.id, Adding(_undo(run, "b", status=StepStatus.DONE)))

        undos = {row.run.id: [undo.step for undo in row.undos] for row in store.desk(saga=None, after=None, limit=10)}

        assert undos == {run.id: ["a"], other.id: []}


class StoreRedispatching:
    """Needs the fixture `store` (migrated, empty)."""

    def test_what_was_sent_is_found_page_by_page_and_nothing_else_is(self, store: SqlStore) -> None:
        runs = [a_run(sends=1, wake_at=FAR_AHEAD + n // 2 * SECOND) for n in range(5)]
        others = (a_run(sends=0, wake_at=FAR_AHEAD), a_run(), _parked(sends=1), a_run(saga="pay", sends=1))
        for run in (*runs, *others):
            store.insert_run(run)

        seen: list[Due] = []
        after = None
        while page := store.sent(DueKind.RUN, SentFilter(LONG_AGO, "checkout", after, 2)):
            seen += page
            assert page[-1].run is not None
            assert page[-1].run.wake_at is not None
            after = (page[-1].run.wake_at, (page[-1].run_id,))

        assert sorted(each.run_id for each in seen) == sorted(run.id for run in runs)

    def test_marked_are_those_that_are_still_as_they_were_seen(self, store: SqlStore) -> None:
        run = a_run(sends=1, wake_at=FAR_AHEAD)
        store.insert_run(run)
        store.transact(run.id, Adding(a_step(run.id, "a"), a_step(run.id, "b"), a_step(run.id, "c", sends=0)))
        seen = _sent(store)
        store.claim(run.id, 1, "a", token="t", owner="o", lease_s=30)

        marked = store.mark_redispatched(seen, hold_s=30)

        assert [_name(each) for each in seen] == ["run", "a", "b"]
        assert [(_name(each), _row(each).sends) for each in marked] == [("run", 2), ("b", 2)]
        assert [_row(each).redispatched_at == _row(each).sent_at for each in marked] == [True, True]
        assert _sent(store) == []
        assert store.mark_redispatched(seen, hold_s=30) == []

    def test_what_could_not_be_sent_is_due_and_found_again(self, store: SqlStore) -> None:
        run = a_run(sends=1, wake_at=FAR_AHEAD)
        store.insert_run(run)
        marked = store.mark_redispatched(_sent(store), hold_s=30)

        store.take_back(marked)

        assert [_name(each) for each in _sent(store)] == ["run"]
        assert [each.run_id for each in store.pick_due(limit=10, hold_s=30)] == [run.id]


def _sent(store: SqlStore) -> list[Due]:
    wanted = SentFilter(LONG_AGO)
    return [*store.sent(DueKind.RUN, wanted), *store.sent(DueKind.STEP, wanted)]


def _row(due: Due) -> RunRecord | StepRecord:
    row = due.step or due.run
    assert row is not None
    return row


def _name(due: Due) -> str:
    return "run" if due.step is None else due.step.key


def _parked(**fields: Any) -> RunRecord:
    plain: dict[str, Any] = {
        "status": RunStatus.SUSPENDED,
        "reason": "undo_failed",
        "wake_at": None,
        "result_text": "1",
    }
    return a_run(**{**plain, **fields})


def _undo(run: RunRecord, of: str, **fields: Any) -> StepRecord:
    return a_step(run.id, f"{of}!undo", kind=StepKind.UNDO, undo_of=of, **fields)
