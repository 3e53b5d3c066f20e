"""The search finds what each guard of the engine is for: with the guard taken out there is a counterexample."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from celery_saga.core import (
    advance,
    attempts,
    compensation,
    forward,
    joins,
    operator,
    owners,
    pivot,
    rollback,
    scopes,
    wakeup,
)
from celery_saga.core.child_ends import Wish
from celery_saga.core.records import StepKind
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import StepStatus
from celery_saga.core.transactions import Broken as Cause
from celery_saga.engine import children, coordinator, inline, transactional, worker, world
from celery_saga.engine.dispatch import messages_of
from celery_saga.engine.sweeper import Sweeper
from tests.model.children import CHILDREN
from tests.model.family_moves import FamilySearch
from tests.model.inline import INLINE, InlineMoves
from tests.model.joins import JOINS
from tests.model.moves import Moves
from tests.model.sagas import SCENARIOS
from tests.model.scopes import SCOPES
from tests.model.search import Counterexample, Search
from tests.model.state import is_undo
from tests.model.transactional import TRANSACTIONAL, TransactionalMoves

Patch = pytest.MonkeyPatch
RUNNING = StepStatus.RUNNING
_ALL = (
    ((*SCENARIOS, *JOINS, *SCOPES), Moves),
    (TRANSACTIONAL, TransactionalMoves),
    (INLINE, InlineMoves),
)


def _counterexample(name: str, *, faults: int) -> Counterexample:
    """The shortest one of a scenario; it is shown with `pytest -s`."""
    scenario, moves = next((x, moves) for some, moves in _ALL for x in some if x.name == name)
    walk = Search(replace(scenario, faults=faults), moves).walk()
    print(f"\n{walk.counterexample}")
    assert walk.counterexample is not None, f"nothing was found in {walk.states} states"
    return walk.counterexample


def _of_family(name: str, *, faults: int) -> Counterexample:
    scenario = next(x for x in CHILDREN if x.name == name)
    walk = FamilySearch(replace(scenario, faults=faults)).walk()
    print(f"\n{walk.counterexample}")
    assert walk.counterexample is not None, f"nothing was found in {walk.states} states"
    return walk.counterexample


def test_without_comparing_claim_tokens_a_zombie_is_let_in(monkeypatch: Patch) -> None:
    real = attempts.check_in

    def unfenced(s: Snapshot, key: str, token: str, *rest: Any) -> Snapshot:
        step = s.steps.get(key)
        return real(s, key, token if step is None else step.claim_token or "", *rest)

    monkeypatch.setattr(attempts, "check_in", unfenced)

    found = _counterexample("two steps", faults=1)

    assert found.rule == "a zombie of a was let in"


def test_without_a_wake_up_at_the_check_in_a_run_gets_stuck(monkeypatch: Patch) -> None:
    asleep = SimpleNamespace(scheduled=wakeup.scheduled, after=wakeup.after, wake=lambda s, now, resend_s: s)
    monkeypatch.setattr(owners, "wakeup", asleep)

    found = _counterexample("two steps", faults=2)

    assert found.rule.startswith("the run is stuck")


def test_without_sending_again_a_lost_message_stops_a_run(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Sweeper, "_again", lambda self, message, due: None)

    found = _counterexample("two steps", faults=1)

    assert found.rule == "from here on the run goes in circles"
    assert found.trace[1][0] == "the wake-up of the run is lost"


def test_without_quiesce_an_undo_starts_while_an_attempt_runs(monkeypatch: Patch) -> None:
    real = advance.undo_next

    def hasty(s: Snapshot, now: datetime, resend_s: float) -> Snapshot:
        running = {x.key: x for x in s.where(StepStatus.RUNNING) if not is_undo(x)}
        seen = replace(s, steps={key: x for key, x in s.steps.items() if key not in running})
        after = real(seen, now, resend_s)
        return replace(after, steps={**after.steps, **running})

    monkeypatch.setattr(advance, "undo_next", hasty)

    found = _counterexample("two steps, cancelled", faults=0)

    assert "while" in found.rule
    assert "cancel" in [label for label, _ in found.trace]


def test_without_comparing_versions_a_late_decision_writes_over_what_others_did(monkeypatch: Patch) -> None:
    def careless(world: Any, reading: Any, decided: Any) -> None:
        run_id = reading.snapshot.run.id
        done = world.store.transact(run_id, lambda s, now: coordinator.written(world, s, decided, now))
        if done.new is not done.old:
            world.publisher.publish(messages_of(done))

    monkeypatch.setattr(coordinator, "_write", careless)

    found = _counterexample("two steps", faults=1)

    assert found.rule == "step a was written over: attempt 1 became 0"


def test_without_comparing_versions_a_check_in_decides_for_a_run_that_has_moved(monkeypatch: Patch) -> None:
    real = worker._followed

    def blind(world: Any, claimed: Any, s: Snapshot, *rest: Any) -> Any:
        return real(world, claimed, s.with_run(state_version=claimed.snapshot.run.state_version), *rest)

    monkeypatch.setattr(worker, "_followed", blind)

    found = _counterexample("two steps, cancelled", faults=0)

    assert found.rule == "the forward part has ended, but b may still start"


def test_a_claim_that_may_be_lost_must_not_be_of_a_step_with_an_undo(monkeypatch: Patch) -> None:
    monkeypatch.setattr(attempts, "may_claim_asynchronously", lambda step: True)

    found = _counterexample("two steps, cancelled", faults=1)

    assert "was not undone" in found.rule
    assert "the database crashes" in [label for label, _ in found.trace]


def test_without_its_own_claim_a_late_careful_advance_parks_a_run_for_nothing(monkeypatch: Patch) -> None:
    real = coordinator._take
    monkeypatch.setattr(coordinator, "_take", lambda world, run_id, token: real(world, run_id, world.token()))

    found = _counterexample("two steps", faults=2)

    assert found.rule == "the run comes to rest as suspended"


def test_without_undoing_losers_a_race_leaves_effects_behind(monkeypatch: Patch) -> None:
    monkeypatch.setattr(joins, "begin_rollback", lambda s, prefix, now: s)

    found = _counterexample("a race", faults=0)

    assert found.rule.endswith("lost a race and was not undone")


def test_without_waiting_for_its_rollback_a_body_goes_on_too_early(monkeypatch: Patch) -> None:
    real = scopes.leave_by

    def hasty(replay: Any, key: str, *rest: Any) -> None:
        if rollback.rollback_key(key) not in replay.snapshot.steps:
            real(replay, key, *rest)

    monkeypatch.setattr(scopes, "leave_by", hasty)

    found = _counterexample("a scope, left and caught", faults=1)

    assert found.rule == "the body went on to c before scope s was undone"


def test_without_quiesce_a_rollback_is_over_while_an_attempt_runs(monkeypatch: Patch) -> None:
    real = rollback._inside
    roll = rollback._roll

    def hasty(s: Snapshot, *rest: Any) -> Snapshot:
        with monkeypatch.context() as inner:
            inner.setattr(rollback, "_inside", lambda s, p: [x for x in real(s, p) if x.status is not RUNNING])
            return roll(s, *rest)

    monkeypatch.setattr(rollback, "_roll", hasty)

    found = _counterexample("a race", faults=0)

    assert "is done while an attempt of" in found.rule


def test_without_the_shield_a_cancel_is_applied_inside(monkeypatch: Patch) -> None:
    monkeypatch.setattr(operator, "is_shielded", lambda s: False)

    found = _counterexample("a shield, cancelled", faults=0)

    assert found.rule == "the run is to end as cancelled although it holds a shield"


def test_without_the_pivot_a_cancel_undoes_what_may_only_go_forward(monkeypatch: Patch) -> None:
    monkeypatch.setattr(pivot, "is_passed", lambda s: False)

    found = _counterexample("a pivot, cancelled", faults=0)

    assert found.rule == "the run is to end as cancelled although it has passed its pivot"


def test_without_asking_whether_it_has_landed_a_lost_transaction_passes_for_done(monkeypatch: Patch) -> None:
    def hopes(self: Any) -> bool:
        return self.transition is not None and self._tx.broken is Cause.LOST

    monkeypatch.setattr(transactional._Try, "has_landed", hopes)

    found = _counterexample("one transaction", faults=1)

    assert found.rule == "the attempt of a is taken to have landed"


def test_without_comparing_claim_tokens_the_effect_of_a_zombie_commits(monkeypatch: Patch) -> None:
    real = attempts.check_in

    def unfenced(s: Snapshot, key: str, token: str, *rest: Any) -> Snapshot:
        step = s.steps.get(key)
        return real(s, key, token if step is None else step.claim_token or "", *rest)

    monkeypatch.setattr(attempts, "check_in", unfenced)

    found = _counterexample("one transaction", faults=1)

    assert found.rule == "a zombie of a was let in"


def test_without_comparing_versions_an_inline_step_starts_after_a_cancel(monkeypatch: Patch) -> None:
    real = inline._Going._next

    def blind(self: Any, s: Snapshot, *rest: Any) -> Any:
        self._version = s.run.state_version
        return real(self, s, *rest)

    monkeypatch.setattr(inline._Going, "_next", blind)

    found = _counterexample("two inline, cancelled", faults=0)

    assert found.rule == "the run has ended as cancelled while there is a running"


def test_without_comparing_claim_tokens_an_inline_step_is_checked_in_for_another(monkeypatch: Patch) -> None:
    real = attempts.check_in

    def unfenced(s: Snapshot, key: str, token: str, *rest: Any) -> Snapshot:
        step = s.steps.get(key)
        return real(s, key, token if step is None else step.claim_token or "", *rest)

    monkeypatch.setattr(attempts, "check_in", unfenced)
    monkeypatch.setattr(Moves, "_stays_out", lambda self, now, zombie: None)

    found = _counterexample("two inline", faults=2)

    assert found.rule == "the run has ended as completed while an attempt of b lives"


def test_without_carrying_out_requests_a_row_cancels_nothing(monkeypatch: Patch) -> None:
    monkeypatch.setattr(world, "carry_out", lambda s, now: s)

    found = _counterexample("waiting, and cancelled by a row", faults=0)

    assert found.rule == "from here on the run goes in circles"


def test_without_a_wake_up_of_its_own_a_child_that_has_ended_never_tells(monkeypatch: Patch) -> None:
    silent = {"wake_at": None, "sends": 0}
    for module in (forward, compensation):
        monkeypatch.setattr(module, "reports", lambda run, now, resend_s: silent)

    found = _of_family("a child", faults=0)

    assert found.rule == "the parent comes to rest as waiting"


def test_without_reading_what_its_parent_wants_a_child_goes_on(monkeypatch: Patch) -> None:
    monkeypatch.setattr(children, "_wish", lambda world, run: Wish.NOTHING)

    found = _of_family("a child is undone", faults=0)

    assert found.rule == "from here on the run goes in circles"


def test_without_quiesce_a_parent_ends_before_its_child(monkeypatch: Patch) -> None:
    real = advance.undo_next

    def hasty(s: Snapshot, now: datetime, resend_s: float) -> Snapshot:
        waiting = {x.key: x for x in s.where(StepStatus.WAITING) if x.kind is StepKind.CHILD}
        seen = replace(s, steps={key: x for key, x in s.steps.items() if key not in waiting})
        after = real(seen, now, resend_s)
        return replace(after, steps={**after.steps, **waiting})

    monkeypatch.setattr(advance, "undo_next", hasty)

    found = _of_family("a parent is cancelled", faults=0)

    assert found.rule.startswith("the parent has ended as cancelled while its child is")
