"""What every store must keep, as tests that each backend runs."""

# ruff: noqa: D102 - the names of the tests are the claims

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from celery_saga.core.ports import RunFilter
from celery_saga.core.records import Action
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunEvent, RunStatus, StepEvent, StepStatus
from celery_saga.errors import IllegalTransition, InvalidPayload
from celery_saga.store import SqlStore
from celery_saga.testing.samples import SECOND, Adding, a_run, a_signal, a_step, new_id
from celery_saga.testing.store_children import StoreChildren
from celery_saga.testing.store_definitions import StoreDefinitions
from celery_saga.testing.store_desk import StoreDesk, StoreRedispatching
from celery_saga.testing.store_due import StoreDue
from celery_saga.testing.store_faults import StoreFaults
from celery_saga.testing.store_focus import StoreFocus
from celery_saga.testing.store_lanes import StoreLanes
from celery_saga.testing.store_lists import StoreLists
from celery_saga.testing.store_outbox import StoreOutbox
from celery_saga.testing.store_purging import StorePurging
from celery_saga.testing.store_races import StoreRaces
from celery_saga.testing.store_schedules import StoreSchedules
from celery_saga.testing.store_sealing import StoreSealing

NAMES = ("charge", "Charge", "chargé", "charge ", " charge", "Chargé", "CHARGE", "ch%rge", "ch_rge", "ⅽharge")
TEXTS = (
    '"\\u0000 and \\ud800 escaped"',
    '"four bytes: 😀 𝔘 \U0010fffd"',
    '"back\\\\slash, \'quote\', \\"double\\", %s %(x)s :name ? {}"',
    '"' + "ä" * 2_500_000 + '"',
)


class StoreContract(
    StoreDue,
    StoreDesk,
    StoreRedispatching,
    StoreLists,
    StoreChildren,
    StoreDefinitions,
    StoreSchedules,
    StoreFocus,
    StorePurging,
    StoreLanes,
    StoreFaults,
    StoreRaces,
    StoreOutbox,
    StoreSealing,
):
    """Give it the fixtures `store`, `team` and `another` (see `StoreRaces`), and `cut`.

    `cut()` ends every connection of `store` on the server's side; it skips where there is no server.
    """

    # -- records ---------------------------------------------------------------------------------------------
    def test_a_record_comes_back_as_it_was_given(self, store: SqlStore) -> None:
        at = datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=UTC)
        run = replace(_filled(a_run(), at, without={"folded"}), tags_text='["vip"]')
        step = _filled(a_step(run.id), at, without={"folded"})
        signal = _filled(a_signal(run.id, taken_by=None, taken_generation=None), at, without={"taken_by"})
        store.insert_run(run)
        store.put_signal(signal)

        done = store.transact(run.id, Adding(replace(step, generation=run.generation)))

        loaded = store.load(run.id)
        assert done is not None and loaded is not None
        assert loaded.snapshot == done.new
        assert loaded.snapshot.run == replace(run, state_version=run.state_version + 1, updated_at=done.now)
        assert loaded.snapshot.steps == {step.key: replace(step, generation=run.generation)}
        assert loaded.snapshot.inbox == (replace(signal, id=loaded.snapshot.inbox[0].id),)

    def test_a_history_row_comes_back_as_it_was_given(self, store: SqlStore) -> None:
        run = a_run()
        store.insert_run(run)

        def change(s: Snapshot, now: datetime) -> Snapshot:
            return s.note(
                now, Action.FAIL, "step", step="charge", attempt=3, detail="Declined: nö", by="ann", reason="x"
            )

        done = store.transact(run.id, change)

        assert done is not None
        assert tuple(store.history(run.id)) == done.new.history
        assert store.history(run.id, after=1) == []

    @pytest.mark.parametrize("text", TEXTS, ids=["escapes", "four_bytes", "quotes", "five_megabytes"])
    def test_a_payload_comes_back_to_the_letter(self, store: SqlStore, text: str) -> None:
        run = a_run(input_text=text)
        store.insert_run(run)
        store.transact(run.id, lambda s, now: s.with_step(a_step(run.id, args_text=text, result_text=text)))

        loaded = store.load(run.id)

        assert loaded is not None
        assert loaded.snapshot.run.input_text == text
        assert loaded.snapshot.steps["charge"].args_text == text
        assert loaded.snapshot.steps["charge"].result_text == text

    def test_names_compare_byte_for_byte(self, store: SqlStore) -> None:
        run = a_run(saga="Checkout", key="Order ")
        store.insert_run(run)
        store.transact(run.id, Adding(*(a_step(run.id, name) for name in NAMES)))
        for name in NAMES:
            assert store.put_signal(a_signal(run.id, name=name))[1]

        assert set(store.steps(run.id)) == {a_step(run.id, name) for name in NAMES}
        assert {signal.name for signal in store.signals(run.id)} == set(NAMES)
        for name in NAMES:
            claimed = store.claim(run.id, 1, name, token=name, owner="o", lease_s=9)
            assert claimed is not None and claimed.step.key == name
        assert store.runs(RunFilter(saga="checkout")) == store.runs(RunFilter(key="Order")) == []
        assert [found.id for found in store.runs(RunFilter(saga="Checkout", key="Order "))] == [run.id]

    def test_a_name_that_does_not_fit_is_refused_and_nothing_is_written(self, store: SqlStore) -> None:
        run = a_run()
        store.insert_run(run)

        for name in ("k" * 256, "nul\0", "lone\ud800"):
            with pytest.raises(InvalidPayload):
                store.transact(run.id, Adding(a_step(run.id, "good"), a_step(run.id, name)))

        assert store.steps(run.id) == []

    def test_an_error_text_that_cannot_be_stored_is_stored_with_marks(self, store: SqlStore) -> None:
        run = a_run()
        store.insert_run(run)

        store.transact(run.id, lambda s, now: s.note(now, Action.FAIL, "step", detail="a\0b\ud800c 😀"))

        assert store.history(run.id)[0].detail == "a�b�c 😀"

    # -- starting --------------------------------------------------------------------------------------------
    def test_a_second_start_gets_the_first_run_with_its_input(self, store: SqlStore) -> None:
        first = a_run(input_text='{"a": 1}')
        assert store.insert_run(first) == (first, True)

        assert store.insert_run(replace(first, input_text='{"a": 2}')) == (first, False)

    def test_an_unknown_run_is_nothing(self, store: SqlStore) -> None:
        run_id = new_id()

        assert store.load(run_id) is None
        assert store.transact(run_id, lambda s, now: s) is None
        assert store.renew(run_id, 1, "a", token="t", lease_s=1) is None
        assert store.claim(run_id, 1, "a", token="t", owner="o", lease_s=1) is None
        assert (store.steps(run_id), store.history(run_id), store.signals(run_id)) == ([], [], [])

    # -- transitions -----------------------------------------------------------------------------------------
    def test_a_change_that_changes_nothing_writes_nothing(self, store: SqlStore) -> None:
        run = a_run()
        store.insert_run(run)

        same = store.transact(run.id, lambda s, now: s)
        equal = store.transact(run.id, lambda s, now: s.with_run(reason=None))

        assert same is not None and same.new is same.old
        assert equal is not None and equal.new.run.state_version == 1
        loaded = store.load(run.id)
        assert loaded is not None and loaded.snapshot.run == run

    def test_every_transition_raises_the_version_by_one(self, store: SqlStore) -> None:
        run = a_run()
        store.insert_run(run)
        store.put_signal(a_signal(run.id))

        def look(s: Snapshot, now: datetime) -> Snapshot:
            return s.with_inbox(tuple(replace(signal, wake_at=None) for signal in s.inbox))

        changes: list[Callable[[Snapshot, datetime], Snapshot]] = [
            lambda s, now: s.with_run(reason="x"),
            Adding(a_step(run.id)),
            lambda s, now: s.with_step(replace(s.steps["charge"], task_id="t")),
            look,
        ]
        done = [store.transact(run.id, change) for change in changes]

        assert [d.new.run.state_version for d in done if d is not None] == [2, 3, 4, 5]

    def test_what_a_change_raises_rolls_back_and_comes_out(self, store: SqlStore) -> None:
        run = a_run()
        store.insert_run(run)

        def change(s: Snapshot, now: datetime) -> Snapshot:
            return s.with_step(a_step(run.id)).move_run(RunEvent.RESUMED)

        with pytest.raises(IllegalTransition):
            store.transact(run.id, change)

        loaded = store.load(run.id)
        assert loaded is not None and loaded.snapshot == Snapshot(run)

    def test_steps_keep_the_order_in_which_they_were_stored(self, store: SqlStore) -> None:
        run = a_run()
        store.insert_run(run)
        keys = [f"part[{number}]" for number in range(12)]

        store.transact(run.id, Adding(*(a_step(run.id, key) for key in keys)))
        store.transact(run.id, Adding(a_step(run.id, "aaa")))

        assert [step.key for step in store.steps(run.id)] == [*keys, "aaa"]
        assert [step.key for step in store.steps(run.id, all_generations=True)] == [*keys, "aaa"]

    def test_a_restart_keeps_some_steps_and_archives_the_others(self, store: SqlStore) -> None:
        run = a_run()
        store.insert_run(run)
        store.transact(run.id, Adding(*(a_step(run.id, key, wake_at=None) for key in ("kept", "cut", "again"))))

        def restart(s: Snapshot, now: datetime) -> Snapshot:
            kept = replace(s.steps["kept"], generation=2)
            anew = a_step(run.id, "again", generation=2, born=2)
            return replace(s.with_run(generation=2), steps={"kept": kept, "again": anew})

        store.transact(run.id, restart)

        now_stored = {(s.generation, s.key, s.born) for s in store.steps(run.id)}
        everything = {(s.generation, s.key) for s in store.steps(run.id, all_generations=True)}
        assert now_stored == {(2, "kept", 1), (2, "again", 2)}
        assert everything == {(2, "kept"), (2, "again"), (1, "cut"), (1, "again")}
        before = store.load(run.id, generation=1)
        assert before is not None and set(before.snapshot.steps) == {"cut", "again"}
        assert store.claim(run.id, 1, "cut", token="t", owner="o", lease_s=9) is None

    def test_a_step_renewed_between_read_and_write_is_read_again(
        self, store: SqlStore, another: SqlStore | None
    ) -> None:
        if another is None or store.dialect == "sqlite":
            pytest.skip("a writer has the database to itself")
        run = a_run()
        store.insert_run(run)
        store.transact(run.id, Adding(a_step(run.id)))
        store.claim(run.id, 1, "charge", token="t", owner="o", lease_s=9)
        leases: list[Any] = []

        def change(s: Snapshot, now: datetime) -> Snapshot:
            leases.append(s.steps["charge"].lease_until)
            if len(leases) == 1:
                assert another.renew(run.id, 1, "charge", token="t", lease_s=60) is not None
            return s.move_step("charge", StepEvent.SUCCEEDED, claim_token=None, lease_until=None)

        store.transact(run.id, change)

        assert len(leases) == 2
        assert leases[0] < leases[1]
        assert store.steps(run.id)[0].status is StepStatus.DONE

    # -- claims ----------------------------------------------------------------------------------------------
    def test_a_claim_takes_the_step_and_brings_the_records(self, store: SqlStore) -> None:
        run = a_run()
        store.insert_run(run)
        store.transact(run.id, Adding(a_step(run.id), a_step(run.id, "other")))
        store.put_signal(a_signal(run.id))

        claimed = store.claim(run.id, 1, "charge", token="t", owner="h:7", lease_s=30)

        loaded = store.load(run.id)
        assert claimed is not None and loaded is not None
        step = claimed.step
        assert (step.status, step.attempt, step.claim_token, step.owner) == (StepStatus.RUNNING, 1, "t", "h:7")
        assert step.lease_until is not None and step.wake_at is not None and step.started_at is not None
        assert timedelta(0) <= step.wake_at - step.lease_until < SECOND / 10  # never woken before it has ended
        assert abs(step.lease_until - step.started_at - 30 * SECOND) < SECOND / 10
        assert claimed.snapshot == loaded.snapshot
        assert claimed.snapshot.run.input_text == "{}"

    def test_only_a_scheduled_step_that_was_sent_can_be_claimed(self, store: SqlStore) -> None:
        run = a_run()
        store.insert_run(run)
        steps = [a_step(run.id, str(status), status=status) for status in StepStatus]
        store.transact(run.id, Adding(*steps, a_step(run.id, "unsent", sends=0)))

        taken = [
            key
            for key in [*map(str, StepStatus), "unsent", "unknown"]
            if store.claim(run.id, 1, key, token="t", owner="o", lease_s=9) is not None
        ]

        assert taken == ["scheduled"]

    def test_a_renewal_under_another_token_is_refused(self, store: SqlStore) -> None:
        run = a_run()
        store.insert_run(run)
        store.transact(run.id, Adding(a_step(run.id)))
        claimed = store.claim(run.id, 1, "charge", token="t", owner="o", lease_s=9)
        assert claimed is not None

        renewed = store.renew(run.id, 1, "charge", token="t", lease_s=90)
        lease = store.steps(run.id)[0].lease_until
        refused = store.renew(run.id, 1, "charge", token="T", lease_s=900)

        assert renewed == replace(claimed.snapshot.run, input_text=None)
        assert lease is not None and claimed.step.lease_until is not None
        assert lease - claimed.step.lease_until > 80 * SECOND
        assert (refused, store.steps(run.id)[0].lease_until) == (None, lease)


def _filled(record: Any, at: datetime, *, without: set[str] | frozenset[str] = frozenset()) -> Any:
    """The record with a value of its own in every field."""
    values: dict[str, Any] = {}
    for number, (name, kind) in enumerate(type(record).__annotations__.items(), start=2):
        if name in {"id", "run_id", "status", "kind", *without}:
            continue
        if "datetime" in kind:
            values[name] = at + number * SECOND
        elif "RunStatus" in kind:
            values[name] = RunStatus.CANCELLED
        elif "bool" in kind:
            values[name] = True
        elif "int" in kind:
            values[name] = number
        else:
            values[name] = f"{name} ü"
    return replace(record, **values)
