"""What a person may do to a run: each verb where it is allowed, and refused with nothing changed where it is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from celery_saga import IllegalTransition, Retry, Run, RunCancelled, RunFailed, Saga, current_step, saga
from tests.scenarios.house import House


class Sold(Exception):
    """Declared by the sagas below."""


class Works:
    """Tasks a, b, c with undos; a ledger of calls with their idempotency keys; planned failures."""

    def __init__(self, house: House) -> None:
        self.calls: list[str] = []
        self.keys: list[str] = []
        self.fail: Counter[str] = Counter()
        self.tasks: dict[str, Any] = {}
        for name in ("a", "b", "c", "undo_a", "undo_b", "undo_c"):
            self.tasks[name] = self._task(house, name)

    def _task(self, house: House, name: str) -> Any:
        @house.task(f"works.{name}")
        def work(what: object = None) -> str:
            self.calls.append(name if what is None else f"{name} {what}")
            self.keys.append(current_step.idempotency_key)
            if self.fail[name] > 0:
                self.fail[name] -= 1
                raise Sold(name)
            return name.upper()

        return work

    def saga(self, **options: Any) -> Saga[Any, Any]:
        tasks = self.tasks

        @saga(name="works", errors=[Sold], **options)
        def works(run: Run) -> str:
            for name in ("a", "b", "c"):
                run.step(tasks[name].si(), undo=tasks[f"undo_{name}"], undo_retry=Retry(2, delay=0))
            return "all done"

        return works


@pytest.fixture
def house() -> Iterator[House]:
    """A house in memory."""
    with House("sqlite://") as built:
        yield built


@pytest.fixture
def works(house: House) -> Works:
    """The tasks of this house."""
    return Works(house)


def test_retry_goes_on_from_the_first_undone_step_in_a_new_generation(house: House, works: Works) -> None:
    body = works.saga()
    house.add(body)
    works.fail["c"] = 1
    handle = body.start()
    house.drain()
    assert (handle.status, works.calls) == ("failed", ["a", "b", "c", "undo_b B", "undo_a A"])
    works.calls.clear()

    handle.retry(by="me", reason="restocked")
    house.drain()

    assert works.calls == ["a", "b", "c"]
    assert handle.refresh().wait(1) == "all done"
    assert len(set(works.keys)) == len(works.keys), "the second generation has keys of its own"


def test_retry_keeps_what_lies_before_the_cut(house: House, works: Works) -> None:
    tasks = works.tasks

    @saga(name="plain", errors=[Sold])
    def plain(run: Run) -> str:
        key = run.uuid()
        run.step(tasks["a"].si(str(key)))
        run.step(tasks["b"].si())
        return str(run.step(tasks["c"].si(str(key))))

    house.add(plain)
    works.fail["c"] = 1
    handle = plain.start()
    house.drain()
    works.calls.clear()

    handle.retry()
    house.drain()

    assert [call.split()[0] for call in works.calls] == ["c"]
    assert handle.refresh().status == "completed"


def test_retry_from_a_named_step_undoes_what_lies_behind_it_first(house: House, works: Works) -> None:
    body = works.saga()
    house.add(body)
    handle = body.start()
    house.drain()
    assert handle.status == "completed"

    with pytest.raises(IllegalTransition, match="retry"):
        handle.retry(from_step="b")

    assert house.engine.run_of(handle.id).generation == 1


def test_restart_failed_starts_over_under_the_same_id(house: House, works: Works) -> None:
    body = works.saga(key=lambda: "only-one")
    house.add(body)
    works.fail["b"] = 1
    first = body.start()
    house.drain()
    works.calls.clear()

    second = body.options(if_exists="restart_failed").start()
    house.drain()

    assert (second.id, second.created) == (first.id, False)
    assert works.calls == ["a", "b", "c"]
    assert second.refresh().status == "completed"


def test_cancel_without_compensation_says_so_and_can_be_compensated_later(house: House, works: Works) -> None:
    @saga(name="waits")
    def waits(run: Run) -> None:
        run.step(works.tasks["a"].si(), undo=works.tasks["undo_a"])
        run.wait_signal("never")

    house.add(waits)
    handle = waits.start()
    house.drain()

    answer = handle.cancel(compensate=False, reason="late", by="me")
    row = handle.history()[-1]
    assert answer == {"cancelled": True, "status": "cancelled"}
    assert (row.action, row.by, row.reason, row.detail) == ("cancel", "me", "late", "undos are skipped")
    with pytest.raises(RunCancelled):
        handle.wait(1)

    waits.get(handle.id).compensate(by="me")
    house.drain()

    assert works.calls == ["a", "undo_a A"]
    assert waits.get(handle.id).status == "cancelled"


def test_a_completed_run_can_be_undone(house: House, works: Works) -> None:
    body = works.saga()
    house.add(body)
    handle = body.start()
    house.drain()
    works.calls.clear()

    body.get(handle.id).compensate(reason="returned")
    house.drain()

    assert works.calls == ["undo_c C", "undo_b B", "undo_a A"]
    assert body.get(handle.id).status == "cancelled"


def test_a_used_up_undo_lets_the_others_run_and_is_retried_with_other_arguments(house: House, works: Works) -> None:
    body = works.saga()
    house.add(body)
    works.fail.update({"c": 1, "undo_b": 2})
    handle = body.start()
    house.drain()
    assert works.calls == ["a", "b", "c", "undo_b B", "undo_b B", "undo_a A"]
    assert handle.status == "compensation_failed"
    with pytest.raises(RunFailed, match="c"):
        handle.wait(1)

    body.get(handle.id).retry_undo("b", args=["by hand"], by="me", reason="other account")
    house.drain()

    assert works.calls[-1] == "undo_b by hand"
    assert works.keys[-1] == works.keys[-3], "the undo keeps its key"
    assert body.get(handle.id).status == "failed"


@pytest.mark.parametrize(("outcome", "status"), [("done", "done"), ("skipped", "cancelled")])
def test_a_used_up_undo_is_closed_by_hand(house: House, works: Works, outcome: str, status: str) -> None:
    body = works.saga()
    house.add(body)
    works.fail.update({"c": 1, "undo_b": 2})
    handle = body.start()
    house.drain()

    body.get(handle.id).resolve_undo("b", outcome=outcome, by="me", reason="called the bank")

    again = body.get(handle.id)
    assert again.status == "failed"
    assert next(step.status for step in again.steps() if step.key == "b!undo") == status


def test_on_undo_failure_hold_waits_for_a_person_before_the_next_undo(house: House, works: Works) -> None:
    body = works.saga(on_undo_failure="hold")
    house.add(body)
    works.fail.update({"c": 1, "undo_b": 2})
    handle = body.start()
    house.drain()
    assert (handle.status, works.calls[-1]) == ("suspended", "undo_b B")

    handle.resolve_undo("b", outcome="done", by="me")
    house.drain()

    assert works.calls[-1] == "undo_a A"
    assert handle.refresh().status == "failed"


def test_suspend_lets_nothing_start_and_resume_goes_on_where_it_was(house: House, works: Works) -> None:
    body = works.saga()
    house.add(body)
    handle = body.start()
    claimed = house.claim_next()

    handle.suspend(reason="audit", by="me")
    house.finish(claimed)
    house.advance(3600)
    assert (handle.refresh().status, works.calls) == ("suspended", ["a"])

    handle.resume(by="me")
    house.drain()

    assert works.calls == ["a", "b", "c"]
    assert handle.refresh().status == "completed"


def test_suspend_holds_a_step_whose_message_is_already_out(house: House, works: Works) -> None:
    body = works.saga()
    house.add(body)
    handle = body.start()
    house.deliver(house.messages.pop(0))
    assert len(house.messages) == 1

    handle.suspend()
    house.drain()
    assert works.calls == []

    handle.resume()
    house.drain()
    assert works.calls == ["a", "b", "c"]


def test_suspend_in_the_middle_of_undos_holds_the_next_one(house: House, works: Works) -> None:
    body = works.saga()
    house.add(body)
    works.fail["c"] = 1
    handle = body.start()
    while "c" not in works.calls:
        house.deliver(house.messages.pop(0))

    handle.suspend()
    house.drain()
    assert works.calls == ["a", "b", "c"]

    handle.resume()
    house.drain()
    assert works.calls == ["a", "b", "c", "undo_b B", "undo_a A"]
    assert handle.refresh().status == "failed"


def test_skip_takes_a_failed_step_for_done_and_goes_on(house: House, works: Works) -> None:
    body = works.saga(on_failure="suspend")
    house.add(body)
    works.fail["b"] = 1
    handle = body.start()
    house.drain()
    assert handle.status == "suspended"

    handle.skip("b", result="by hand", by="me", reason="did it on paper")
    house.drain()

    assert works.calls == ["a", "b", "c"]
    assert handle.refresh().status == "completed"
    assert next(step.result for step in handle.steps() if step.key == "b") == "by hand"


def test_a_bug_parks_and_undoes_nothing_and_resume_goes_on_after_the_fix(house: House, works: Works) -> None:
    broken = [True]

    @saga(name="buggy")
    def buggy(run: Run) -> str:
        run.step(works.tasks["a"].si(), undo=works.tasks["undo_a"])
        if broken[0]:
            raise KeyError("oops")
        return str(run.step(works.tasks["b"].si()))

    house.add(buggy)
    handle = buggy.start()
    house.drain()
    parked = house.engine.run_of(handle.id)
    assert (parked.status, parked.reason, works.calls) == ("suspended", "body_error", ["a"])

    broken[0] = False
    handle.resume(by="me")
    house.drain()

    assert handle.refresh().wait(1) == "B"
    assert works.calls == ["a", "b"]


def test_on_bug_compensate_undoes(house: House, works: Works) -> None:
    @saga(name="buggy", on_bug="compensate")
    def buggy(run: Run) -> None:
        run.step(works.tasks["a"].si(), undo=works.tasks["undo_a"])
        raise KeyError("oops")

    house.add(buggy)
    handle = buggy.start()
    house.drain()

    assert works.calls == ["a", "undo_a A"]
    assert handle.status == "failed"


def test_changed_code_parks_and_names_both_sides(house: House, works: Works) -> None:
    order = ["a", "b"]

    @saga(name="changed")
    def changed(run: Run) -> None:
        for name in order:
            run.step(works.tasks[name].si())
        run.wait_signal("go")

    house.add(changed)
    handle = changed.start()
    house.drain()
    order.insert(0, "c")

    handle.signal("go")
    house.drain()

    parked = house.engine.run_of(handle.id)
    assert (parked.status, parked.reason) == ("suspended", "non_determinism")
    assert parked.error is not None
    assert "'a'" in parked.error.message and "'c'" in parked.error.message
    assert works.calls == ["a", "b"]

    order.pop(0)
    handle.resume()
    house.drain()
    assert handle.refresh().status == "completed"


def test_a_swallowed_suspension_parks(house: House, works: Works) -> None:
    @saga(name="swallows")
    def swallows(run: Run) -> str:
        try:  # noqa: SIM105 - as a user may write it
            run.step(works.tasks["a"].si())
        except BaseException:  # noqa: SIM105 - as a user may write it
            pass
        return "done"

    house.add(swallows)
    handle = swallows.start()
    house.drain()

    assert handle.status == "suspended"
    assert house.engine.run_of(handle.id).reason == "body_error"


def test_verbs_that_make_no_sense_are_refused_and_change_nothing(house: House, works: Works) -> None:
    body = works.saga()
    house.add(body)
    handle = body.start()
    house.drain()
    before = handle.export()

    for verb in (handle.resume, handle.retry, handle.suspend):
        with pytest.raises(IllegalTransition):
            verb()
    for verb_on_step in (handle.skip, handle.retry_undo, handle.resolve_undo):
        with pytest.raises(IllegalTransition):
            verb_on_step("a")
        with pytest.raises(IllegalTransition):
            verb_on_step("no-such-step")

    assert handle.cancel() == {"cancelled": False, "status": "completed"}
    assert body.get(handle.id).export() == before


@pytest.mark.parametrize("verb", ["resolve", "retry"])
def test_an_unknown_outcome_whose_undo_needs_the_result_parks_for_a_person(
    house: House, works: Works, verb: str
) -> None:
    tasks = works.tasks

    @house.task("works.needs")
    def needs(result: str) -> None:
        works.calls.append(f"needs {result}")

    @saga(name="unsure", errors=[Sold])
    def unsure(run: Run) -> None:
        run.step(tasks["a"].si(), undo=tasks["undo_a"])
        run.step(tasks["b"].si(), undo=needs)

    house.add(unsure)
    handle = unsure.start()
    house.finish(house.claim_next())
    for _ in range(house.engine.limits.max_stalls + 1):
        claimed = house.claim_next()
        house.engine.end_attempt(handle.id, "b", claimed.step.claim_token)
    house.drain()

    parked = house.engine.run_of(handle.id)
    assert (parked.status, parked.reason) == ("suspended", "undo_unknown")

    if verb == "resolve":
        handle.resolve_undo("b", outcome="skipped", by="me", reason="the bank says no charge")
    else:
        handle.retry_undo("b", args=["B"], by="me", reason="the bank says it was charged")
    house.drain()

    assert works.calls == (["a", "undo_a A"] if verb == "resolve" else ["a", "needs B", "undo_a A"])
    assert handle.refresh().status == "failed"
