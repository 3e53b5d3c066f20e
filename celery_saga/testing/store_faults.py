"""What a store must keep when connections break and processes die in the middle."""

# ruff: noqa: D102 - the names of the tests are the claims

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from celery_saga.core.records import Action
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepEvent, StepStatus
from celery_saga.store import SqlStore
from celery_saga.testing.samples import LONG_AGO, Adding, a_run, a_signal, a_step


class Death(BaseException):
    """Stands for the end of the process: nothing that catches `Exception` sees it."""


class StoreFaults:
    """Needs the fixtures `store` (migrated, empty), `another` and `cut` (ends the connections of `store`)."""

    def test_a_connection_cut_between_two_calls_is_not_noticed(self, store: SqlStore, cut: Callable[[], None]) -> None:
        run = a_run()
        store.insert_run(run)

        cut()
        done = store.transact(run.id, Adding(a_step(run.id)))
        cut()
        claimed = store.claim(run.id, 1, "charge", token="t", owner="o", lease_s=9)
        cut()
        assert store.load(run.id) is not None
        cut()
        assert store.pick_due(limit=9, hold_s=9) == []

        assert done is not None and claimed is not None

    @pytest.mark.parametrize(
        "moment", ["lock run", "load steps", "update run", "update step", "insert steps", "insert history", "commit"]
    )
    def test_a_connection_cut_in_the_middle_is_repaired(
        self, store: SqlStore, cut: Callable[[], None], moment: str
    ) -> None:
        run = _claimed_run(store)
        cuts: list[str] = []
        if store.database.writes_together and moment.startswith(("update", "insert")):
            moment = "change rows"

        def trace(label: str) -> None:
            if label.startswith(f"before:{moment}") and not cuts:
                cuts.append(label)
                cut()

        store.trace = trace
        done = store.transact(run, _check_in)

        assert len(cuts) == 1
        assert done is not None and done.new is not done.old
        _assert_checked_in_once(store, run)

    @pytest.mark.parametrize("writes", [False, True])
    def test_a_connection_cut_after_its_last_word_is_given_up_unseen(
        self, store: SqlStore, cut: Callable[[], None], writes: bool
    ) -> None:
        run = a_run()
        store.insert_run(run)
        last = "after:commit" if writes else "after:read clock"
        for _ in range(1 if writes else 12):  # more than a pool holds: no place in it is lost
            cuts: list[str] = []

            def trace(label: str, seen: list[str] = cuts) -> None:
                if label.startswith(last) and not seen:
                    seen.append(label)
                    cut()

            store.trace = trace
            if writes:
                store.put_signal(a_signal(run.id))
            else:
                assert store.now() > LONG_AGO
            assert len(cuts) == 1

    def test_a_commit_whose_answer_is_lost_is_not_applied_twice(self, store: SqlStore) -> None:
        if store.database.one_connection:
            pytest.skip("closing the only connection to a database in memory drops it")
        run = _claimed_run(store)

        with _lost_answer(store) as lost:
            done = store.transact(run, _check_in)

        assert lost == ["commit"]
        assert done is not None and done.new.steps["charge"].status is StepStatus.DONE
        _assert_checked_in_once(store, run)

    def test_a_claim_whose_answer_is_lost_knows_its_token(self, store: SqlStore) -> None:
        if store.database.one_connection:
            pytest.skip("closing the only connection to a database in memory drops it")
        run = a_run()
        store.insert_run(run)
        store.transact(run.id, Adding(a_step(run.id)))

        with _lost_answer(store):
            claimed = store.claim(run.id, 1, "charge", token="t", owner="o", lease_s=9)

        assert claimed is not None and claimed.step.claim_token == "t"
        assert store.steps(run.id)[0].attempt == 1

    def test_a_start_and_a_signal_whose_answers_are_lost_count_as_new(self, store: SqlStore) -> None:
        if store.database.one_connection:
            pytest.skip("closing the only connection to a database in memory drops it")
        run = a_run()

        with _lost_answer(store):
            started = store.insert_run(run)
        with _lost_answer(store):
            sent = store.put_signal(a_signal(run.id))

        assert started == (run, True)
        assert sent[1]
        assert store.insert_run(run)[1] is store.put_signal(a_signal(run.id))[1] is False

    def test_a_death_at_any_moment_leaves_all_or_nothing_and_no_connection(self, store: SqlStore) -> None:
        labels: list[str] = []
        store.trace = labels.append
        run = _claimed_run(store)
        labels.clear()
        store.transact(run, _check_in)
        store.trace = None
        assert len(labels) >= 8

        for number, label in enumerate(labels):
            run = _claimed_run(store)
            before = store.load(run)
            store.trace = _dying_at(number)
            with pytest.raises(Death):
                store.transact(run, _check_in)
            store.trace = None

            after = store.load(run)
            assert before is not None and after is not None
            if label == "after:commit transact":
                _assert_checked_in_once(store, run)
            else:
                assert after.snapshot == before.snapshot, label
            store.transact(run, _check_in)
            _assert_checked_in_once(store, run)

    def test_a_death_in_any_call_lets_the_next_call_through(self, store: SqlStore) -> None:
        run = a_run(wake_at=LONG_AGO)
        store.insert_run(run)
        store.transact(run.id, Adding(a_step(run.id, wake_at=LONG_AGO)))
        calls: list[Callable[[], Any]] = [
            lambda: store.insert_run(a_run(id=run.id)),
            lambda: store.put_signal(a_signal(run.id)),
            lambda: store.pick_due(limit=9, hold_s=0),
            lambda: store.claim(run.id, 1, "charge", token="t", owner="o", lease_s=9),
            lambda: store.renew(run.id, 1, "charge", token="t", lease_s=9),
            lambda: store.beat("a", host="h", pid=1, sagas=[], ttl_s=9),
            lambda: store.load(run.id),
        ]
        for call in calls:
            for number in range(40):
                store.trace = _dying_at(number)
                try:
                    call()
                except Death:
                    continue
                break
            else:
                raise AssertionError("a call has more than 40 moments")
            store.trace = None
            assert store.transact(run.id, lambda s, now: s.note(now, Action.OK, "run")) is not None


def _claimed_run(store: SqlStore) -> str:
    run = a_run()
    store.insert_run(run)
    store.transact(run.id, Adding(a_step(run.id)))
    assert store.claim(run.id, 1, "charge", token="mine", owner="o", lease_s=99) is not None
    return run.id


def _check_in(s: Snapshot, now: Any) -> Snapshot:
    step = s.steps["charge"]
    if step.status is not StepStatus.RUNNING or step.claim_token != "mine":
        return s
    s = s.move_step("charge", StepEvent.SUCCEEDED, claim_token=None, lease_until=None, wake_at=None, result_text="1")
    return s.with_step(a_step(s.run.id, "dispatch")).note(now, Action.OK, "step", step="charge", attempt=1)


def _assert_checked_in_once(store: SqlStore, run_id: str) -> None:
    loaded = store.load(run_id)
    assert loaded is not None
    assert loaded.snapshot.run.state_version == 3
    assert [(s.key, s.status.value) for s in store.steps(run_id)] == [("charge", "done"), ("dispatch", "scheduled")]
    assert [row.seq for row in store.history(run_id)] == [1]


def _dying_at(number: int) -> Callable[[str], None]:
    left = number

    def trace(label: str) -> None:
        nonlocal left
        if left == 0:
            raise Death(label)
        left -= 1

    return trace


@contextmanager
def _lost_answer(store: SqlStore) -> Iterator[list[str]]:
    """The next commit lands, and then its connection is closed and says so, as when the network breaks there."""
    dialect: Any = store.sessions.engine.dialect
    real = dialect.do_commit
    lost: list[str] = []

    def commit(connection: Any) -> None:
        real(connection)
        if not lost:
            lost.append("commit")
            driver = connection.dbapi_connection
            driver.close()
            driver.cursor().execute("SELECT 1")  # the driver's own error of a closed connection

    dialect.do_commit = commit
    try:
        yield lost
    finally:
        dialect.do_commit = real
