"""What a store must keep when processes race: fences, versions, picks and the clock behind the lock."""

# ruff: noqa: D102 - the names of the tests are the claims

from __future__ import annotations

import threading
from collections import Counter
from datetime import datetime

import pytest

from celery_saga.core.ports import Transition
from celery_saga.core.records import Action
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepEvent, StepStatus
from celery_saga.store import SqlStore
from celery_saga.testing.samples import LONG_AGO, SECOND, Adding, a_run, a_signal, a_step, new_id
from celery_saga.testing.team import Team


# -- what racers do: functions of this module, so that they travel to other processes --------------------------
def claim(store: SqlStore, run_id: str, key: str, token: str) -> str | None:
    """The token, if the claim landed."""
    claimed = store.claim(run_id, 1, key, token=token, owner="host:1", lease_s=30)
    return None if claimed is None else claimed.step.claim_token


def note_often(store: SqlStore, run_id: str, times: int) -> tuple[list[int], int]:
    """The versions that these transitions made, and how often they were computed."""
    made: list[int] = []
    computed = 0

    def change(s: Snapshot, now: datetime) -> Snapshot:
        nonlocal computed
        computed += 1
        return s.note(now, Action.OK, "step")

    for _ in range(times):
        done = store.transact(run_id, change)
        assert done is not None
        made.append(done.new.run.state_version)
    return made, computed


def cancel(store: SqlStore, run_id: str, key: str) -> str:
    """How the step stood when it was cancelled, or found to run."""

    def change(s: Snapshot, now: datetime) -> Snapshot:
        if s.steps[key].status is StepStatus.SCHEDULED:
            return s.move_step(key, StepEvent.CANCELLED, wake_at=None, ended_at=now)
        return s.note(now, Action.CANCEL, "run")

    done = store.transact(run_id, change)
    assert done is not None
    return done.new.steps[key].status.value


def check_in(store: SqlStore, run_id: str, key: str, token: str) -> bool:
    """Whether a checkpoint under this token landed."""

    def change(s: Snapshot, now: datetime) -> Snapshot:
        step = s.steps[key]
        if step.status is not StepStatus.RUNNING or step.claim_token != token:
            return s
        s = s.move_step(key, StepEvent.SUCCEEDED, claim_token=None, lease_until=None, wake_at=None)
        return s.note(now, Action.OK, "step", step=key)

    done = store.transact(run_id, change)
    return done is not None and done.new is not done.old


def end_lease(store: SqlStore, run_id: str, key: str) -> bool:
    """Whether the end of the lease was written before a checkpoint was."""

    def change(s: Snapshot, now: datetime) -> Snapshot:
        if s.steps[key].status is not StepStatus.RUNNING:
            return s
        return s.move_step(key, StepEvent.STALLED, claim_token=None, lease_until=None, stalls=1)

    done = store.transact(run_id, change)
    return done is not None and done.new is not done.old


def renew_often(store: SqlStore, run_id: str, key: str, token: str, times: int) -> int:
    """How many renewals landed."""
    landed = [store.renew(run_id, 1, key, token=token, lease_s=60) for _ in range(times)]
    return sum(1 for run in landed if run is not None)


def pick(store: SqlStore, rounds: int) -> list[tuple[str, str, str]]:
    """Everything picked, as (kind, run id, step key)."""
    found: list[tuple[str, str, str]] = []
    for _ in range(rounds):
        for due in store.pick_due(limit=9, hold_s=3600):
            found.append((due.kind.value, due.run_id, "" if due.step is None else due.step.key))
    return found


def send(store: SqlStore, run_id: str, signal_id: str, value_text: str) -> tuple[bool, str]:
    """Whether this one was stored, and the value that is."""
    stored, new = store.put_signal(a_signal(run_id, signal_id=signal_id, value_text=value_text))
    return new, stored.value_text


def start(store: SqlStore, run_id: str, digest: str) -> tuple[bool, str]:
    """Whether this start wrote the run, and whose it is."""
    stored, new = store.insert_run(a_run(id=run_id, input_digest=digest))
    return new, stored.input_digest


def work(store: SqlStore, run_id: str, name: str, rounds: int) -> int:
    """Steps added, claimed and checked in, one after the other, beside others on the same run."""
    landed = 0
    for number in range(rounds):
        key, token = f"{name}{number}", f"{name}-{number}"
        store.transact(run_id, Adding(a_step(run_id, key, wake_at=LONG_AGO)))
        store.pick_due(limit=5, hold_s=0.01)
        claim(store, run_id, key, token)
        renew_often(store, run_id, key, token, 1)
        landed += check_in(store, run_id, key, token)
    return landed


class StoreRaces:
    """Needs the fixtures `store` (migrated, empty), `team` (racers on it) and `another` (the same, opened again)."""

    def test_of_racing_claims_one_wins(self, store: SqlStore, team: Team) -> None:
        run = a_run()
        store.insert_run(run)
        for number in range(5):
            key = f"charge{number}"
            store.transact(run.id, Adding(a_step(run.id, key)))

            tokens = team.race([(claim, (run.id, key, f"token{racer}")) for racer in range(team.size)])

            won = [token for token in tokens if token is not None]
            assert len(won) == 1
            step = next(s for s in store.steps(run.id) if s.key == key)
            assert (step.claim_token, step.attempt) == (won[0], 1)

    def test_racing_transitions_wait_for_each_other_and_lose_nothing(self, store: SqlStore, team: Team) -> None:
        run = a_run()
        store.insert_run(run)

        made = team.race([(note_often, (run.id, 10))] * team.size)

        versions = sorted(version for versions, _ in made for version in versions)
        assert [computed for _, computed in made] == [10] * team.size  # none was computed in vain
        assert versions == list(range(2, 2 + 10 * team.size))
        assert [row.seq for row in store.history(run.id)] == list(range(1, 1 + 10 * team.size))

    def test_a_claim_and_a_cancel_cannot_both_have_the_step(self, store: SqlStore, team: Team) -> None:
        run = a_run()
        store.insert_run(run)
        for number in range(8):
            key = f"charge{number}"
            store.transact(run.id, Adding(a_step(run.id, key)))

            token, status = team.race([(claim, (run.id, key, "token")), (cancel, (run.id, key))])

            stored = next(s for s in store.steps(run.id) if s.key == key)
            assert (token is None) == (stored.status is StepStatus.CANCELLED)
            assert stored.status.value == status or (token is not None and status == "running")

    def test_a_checkpoint_and_the_end_of_its_lease_cannot_both_land(self, store: SqlStore, team: Team) -> None:
        run = a_run()
        store.insert_run(run)
        for number in range(8):
            key = f"charge{number}"
            store.transact(run.id, Adding(a_step(run.id, key)))
            claim(store, run.id, key, "mine")

            landed = team.race(
                [
                    (check_in, (run.id, key, "mine")),
                    (end_lease, (run.id, key)),
                    (renew_often, (run.id, key, "mine", 5)),
                ]
            )

            assert landed[:2].count(True) == 1
            step = next(s for s in store.steps(run.id) if s.key == key)
            assert step.status is (StepStatus.DONE if landed[0] else StepStatus.SCHEDULED)
            assert step.claim_token is None

    def test_each_due_row_is_picked_once(self, store: SqlStore, team: Team) -> None:
        wanted: list[tuple[str, str, str]] = []
        for _ in range(12):
            run = a_run(wake_at=LONG_AGO)
            store.insert_run(run)
            keys = ["a", "b", "c"]
            store.transact(run.id, Adding(*(a_step(run.id, key, wake_at=LONG_AGO) for key in keys)))
            store.put_signal(a_signal(run.id))
            wanted += [("run", run.id, ""), ("signal", run.id, ""), *(("step", run.id, key) for key in keys)]

        # Rows locked by another racer are left out of a pick, so that a racer may find nothing while there is some.
        found = [row for racer in team.race([(pick, (12,))] * team.size) for row in racer] + pick(store, 12)

        assert Counter(found) == Counter(wanted)

    def test_of_racing_signals_with_one_id_the_first_counts(self, store: SqlStore, team: Team) -> None:
        run_id = new_id()

        answers = team.race([(send, (run_id, "once", f'"{racer}"')) for racer in range(10)])

        assert [new for new, _ in answers].count(True) == 1
        first = next(value for new, value in answers if new)
        assert {value for _, value in answers} == {first}
        assert len(store.signals(run_id)) == 1

    def test_of_racing_starts_one_writes_the_run(self, store: SqlStore, team: Team) -> None:
        run_id = new_id()

        answers = team.race([(start, (run_id, f"digest{racer}")) for racer in range(team.size)])

        assert [new for new, _ in answers].count(True) == 1
        assert {digest for _, digest in answers} == {next(digest for new, digest in answers if new)}

    def test_everything_at_once_on_one_run_gets_through(self, store: SqlStore, team: Team) -> None:
        run = a_run(wake_at=LONG_AGO)
        store.insert_run(run)

        landed = team.race([(work, (run.id, f"racer{racer}_", 6)) for racer in range(team.size)])

        assert landed == [6] * team.size
        steps = store.steps(run.id)
        assert sorted(step.seq or 0 for step in steps) == list(range(1, 1 + 6 * team.size))
        assert [row.seq for row in store.history(run.id)] == list(range(1, 1 + 6 * team.size))

    def test_the_time_is_read_after_the_lock(self, store: SqlStore, another: SqlStore | None) -> None:
        if another is None:
            pytest.skip("one connection: nobody waits inside the database")
        run = a_run()
        store.insert_run(run)
        holding, asking = threading.Event(), threading.Event()
        released: list[datetime] = []
        found: list[Transition] = []

        def hold(s: Snapshot, now: datetime) -> Snapshot:
            holding.set()
            assert asking.wait(10)
            released.append(_when_it_is(another, now + SECOND / 4))
            return s.with_run(reason="held")

        holder = threading.Thread(target=store.transact, args=(run.id, hold))
        holder.start()
        assert holding.wait(10)
        waiter = threading.Thread(target=_transact_and_keep, args=(store, asking, run.id, found))
        waiter.start()
        holder.join(20)
        waiter.join(20)

        assert found[0].old.run.reason == "held"
        assert found[0].now >= released[0]


def _transact_and_keep(store: SqlStore, asking: threading.Event, run_id: str, found: list[Transition]) -> None:
    asking.set()
    done = store.transact(run_id, lambda s, now: s)
    assert done is not None
    found.append(done)


def _when_it_is(store: SqlStore, wanted: datetime) -> datetime:
    while (now := store.now()) < wanted:
        pass
    return now
