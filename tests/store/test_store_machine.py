"""Random lives of a run, in the store and beside it in memory: both always tell the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from celery_saga.core.due import DueKind
from celery_saga.core.ports import Change
from celery_saga.core.records import Action, SignalRecord, StepKind
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import STEP_TABLE, RunEvent, RunStatus, StepEvent, StepStatus
from celery_saga.errors import IllegalTransition
from celery_saga.store import SqlStore, migrate, open_store
from celery_saga.testing.samples import LONG_AGO, a_run, a_signal, a_step

KEYS = st.sampled_from(["a", "a!undo", "A", "b"])
LEASE_S = 30.0


def wake_up_of(status: StepStatus, now: datetime) -> datetime | None:
    """What a step in this status is to be woken by."""
    return now + timedelta(seconds=LEASE_S) if status in {StepStatus.SCHEDULED, StepStatus.RUNNING} else None


class StoreMachine(RuleBasedStateMachine):
    """One run; `model` is what must be stored."""

    open: Callable[[], SqlStore] = staticmethod(lambda: open_store("sqlite://", clock=None))

    def __init__(self) -> None:
        super().__init__()
        self.store = type(self).open()
        migrate(self.store)
        self.token = 0
        self.signal = 0
        self.taken: list[SignalRecord] = []

    def teardown(self) -> None:
        self.store.close()

    @initialize()
    def a_run_starts(self) -> None:
        run = a_run(wake_at=datetime.now(UTC) + timedelta(hours=1))
        assert self.store.insert_run(run) == (run, True)
        self.model = Snapshot(run)
        self.archive: dict[tuple[int, str], Any] = {}

    def apply(self, change: Change) -> None:
        """Do it in the store and in the model; refused in one is refused in both, and changes nothing."""
        try:
            done = self.store.transact(self.model.run.id, change)
        except IllegalTransition:
            with pytest.raises(IllegalTransition):
                change(self.model, LONG_AGO)
            return
        assert done is not None
        assert done.old == self.model
        expected = change(self.model, done.now)
        if expected is self.model:
            assert done.new is done.old
            return
        raised = replace(expected.run, state_version=self.model.run.state_version + 1, updated_at=done.now)
        assert done.new == replace(expected, run=raised)
        for key, step in self.model.steps.items():
            if key not in expected.steps:
                self.archive[step.generation, key] = step
        inbox = tuple(signal for signal in expected.inbox if signal.taken_by is None)
        self.taken += [signal for signal in expected.inbox if signal.taken_by is not None]
        self.model = replace(expected, run=raised, inbox=inbox, history=())

    # -- what an engine does ---------------------------------------------------------------------------------
    @rule(key=KEYS, status=st.sampled_from([StepStatus.HELD, StepStatus.SCHEDULED, StepStatus.WAITING]))
    def a_step_is_ordered(self, key: str, status: StepStatus) -> None:
        if key in self.model.steps:
            return
        generation = self.model.run.generation
        kind = StepKind.SIGNAL if status is StepStatus.WAITING else StepKind.STEP

        def change(s: Snapshot, now: datetime) -> Snapshot:
            wake_at = wake_up_of(status, now)
            fields = {"status": status, "kind": kind, "wake_at": wake_at, "generation": generation, "born": generation}
            return s.with_step(a_step(s.run.id, key, created_at=now, **fields))

        self.apply(change)

    @rule(key=KEYS, event=st.sampled_from(list(StepEvent)))
    def an_event_meets_a_step(self, key: str, event: StepEvent) -> None:
        if key not in self.model.steps or event is StepEvent.CLAIMED:
            return

        def change(s: Snapshot, now: datetime) -> Snapshot:
            moved = s.move_step(key, event, claim_token=None, lease_until=None)
            step = replace(moved.steps[key], wake_at=wake_up_of(moved.steps[key].status, now))
            return moved.with_step(step).note(now, Action.OK, "step", step=key)

        self.apply(change)

    @rule(event=st.sampled_from(list(RunEvent)))
    def an_event_meets_the_run(self, event: RunEvent) -> None:
        def change(s: Snapshot, now: datetime) -> Snapshot:
            s = s.move_run(event)
            awake = not s.run.status.is_end and s.run.status is not RunStatus.SUSPENDED
            return s.with_run(wake_at=now + timedelta(hours=1) if awake else None)

        self.apply(change)

    @rule(keep=st.sets(KEYS))
    def the_run_starts_over(self, keep: set[str]) -> None:
        def change(s: Snapshot, now: datetime) -> Snapshot:
            generation = s.run.generation + 1
            kept = {k: replace(step, generation=generation) for k, step in s.steps.items() if k in keep}
            return replace(s.with_run(generation=generation), steps=kept)

        self.apply(change)

    @rule(key=KEYS)
    def a_worker_claims(self, key: str) -> None:
        self.token += 1
        run, token = self.model.run, f"token{self.token}"

        claimed = self.store.claim(run.id, run.generation, key, token=token, owner="h:1", lease_s=LEASE_S)

        step = self.model.steps.get(key)
        free = step is not None and step.status is StepStatus.SCHEDULED and step.sends > 0
        assert (claimed is not None) is free
        if claimed is not None and step is not None:
            assert (STEP_TABLE[step.status, StepEvent.CLAIMED], claimed.step.attempt) == (
                claimed.step.status,
                step.attempt + 1,
            )
            expected = self.model.with_step(claimed.step)
            assert claimed.snapshot == replace(expected, steps={**self.model.steps, key: claimed.step})
            self.model = claimed.snapshot

    @rule(key=KEYS, mine=st.booleans())
    def a_worker_renews(self, key: str, mine: bool) -> None:
        run, step = self.model.run, self.model.steps.get(key)
        token = step.claim_token if mine and step is not None and step.claim_token is not None else "stolen"

        renewed = self.store.renew(run.id, run.generation, key, token=token, lease_s=LEASE_S)

        assert (renewed is not None) is (token != "stolen")
        if renewed is not None:
            self.take_over(key)

    @rule()
    def a_sweeper_picks(self) -> None:
        before = self.model
        for due in self.store.pick_due(limit=30, hold_s=LEASE_S):
            assert due.run_id == before.run.id
            if due.kind is DueKind.SIGNAL:
                loaded = self.store.load(due.run_id)
                assert loaded is not None
                self.model = replace(self.model, inbox=loaded.snapshot.inbox)
            elif due.step is not None:
                assert before.steps[due.step.key].wake_at is not None
                self.model = self.model.with_step(due.step)

    @rule(name=st.sampled_from(["a", "A"]), again=st.booleans())
    def a_signal_comes(self, name: str, again: bool) -> None:
        self.signal += 0 if again and self.signal else 1
        signal = a_signal(self.model.run.id, name=name, signal_id=str(self.signal))
        known = {(s.name, s.signal_id) for s in (*self.model.inbox, *self.taken)}

        stored, new = self.store.put_signal(signal)

        assert new is ((name, signal.signal_id) not in known)
        if new:
            self.model = self.model.with_inbox((*self.model.inbox, stored))

    @precondition(lambda self: self.model.inbox)
    @rule(data=st.data())
    def a_wait_takes_a_signal(self, data: st.DataObject) -> None:
        signal = data.draw(st.sampled_from(self.model.inbox))

        def change(s: Snapshot, now: datetime) -> Snapshot:
            taken = replace(signal, taken_by="wait", taken_generation=s.run.generation, wake_at=None)
            return s.with_inbox(tuple(taken if x.id == signal.id else x for x in s.inbox))

        self.apply(change)

    # -- what always holds -----------------------------------------------------------------------------------
    @invariant()
    def the_store_tells_what_the_model_tells(self) -> None:
        loaded = self.store.load(self.model.run.id)
        assert loaded is not None
        assert loaded.snapshot == self.model
        assert list(loaded.snapshot.steps) == [s.key for s in self.store.steps(self.model.run.id)]

    @invariant()
    def history_and_ends_are_numbered_without_a_gap(self) -> None:
        run = self.model.run
        assert [row.seq for row in self.store.history(run.id)] == list(range(1, run.history_seq + 1))
        seqs = [s.seq for s in self.store.steps(run.id, all_generations=True) if s.seq is not None]
        assert len(seqs) == len(set(seqs)) and max(seqs, default=0) <= run.step_seq

    @invariant()
    def nothing_archived_changes_but_its_wake_up(self) -> None:
        stored = self.store.steps(self.model.run.id, all_generations=True)
        old = {(s.generation, s.key): s for s in stored if s.generation != self.model.run.generation}
        assert {k: replace(s, wake_at=None) for k, s in old.items()} == {
            k: replace(s, wake_at=None) for k, s in self.archive.items()
        }

    @invariant()
    def what_is_live_has_a_wake_up(self) -> None:
        assert self.store.without_wake_up() == []

    def take_over(self, key: str) -> None:
        loaded = self.store.load(self.model.run.id)
        assert loaded is not None
        before, after = self.model.steps[key], loaded.snapshot.steps[key]
        assert replace(before, lease_until=after.lease_until, wake_at=after.wake_at) == after
        self.model = self.model.with_step(after)


def test_random_lives_on_sqlite() -> None:
    run_state_machine_as_test(StoreMachine, settings=settings(max_examples=40, stateful_step_count=30, deadline=None))


@pytest.mark.parametrize("server", ["postgresql_url", "mariadb_url"])
def test_random_lives_on_a_server(request: pytest.FixtureRequest, server: str) -> None:
    url = request.getfixturevalue(server)
    number = count(1)

    class OnServer(StoreMachine):
        open = staticmethod(lambda: open_store(url, table_prefix=f"life{next(number)}_"))

    run_state_machine_as_test(OnServer, settings=settings(max_examples=8, stateful_step_count=25, deadline=None))
