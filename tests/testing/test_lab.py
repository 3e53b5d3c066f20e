"""A user's tests with the laboratory."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from celery import Celery, current_app, shared_task

from celery_saga import (
    CelerySaga,
    DeadlineExceeded,
    DefinitionError,
    Run,
    RunFailed,
    StepTimeout,
    WaitTimeout,
    current_step,
    saga,
)
from celery_saga.testing import Lab
from tests.testing import shop
from tests.testing.shop import GatewayTimeout, OutOfStock, Rejected, World, checkout


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    fresh = World()
    monkeypatch.setattr(shop, "world", fresh)
    return fresh


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab(shop.app) as opened:
        yield opened


def calls(lab: Lab) -> list[str]:
    """Without the idempotency keys."""
    return [f"{call.name} {next(x for x in reversed(call.args) if ':' not in str(x))}" for call in lab.calls]


def test_nothing_happens_before_drain(lab: Lab) -> None:
    run = lab.start(checkout, "o1", 500)

    assert run.status == "queued"
    assert lab.calls == []


def test_drain_completes_a_run(lab: Lab) -> None:
    run = lab.start(checkout, "o1", 500)

    lab.drain()

    assert run.status == "completed"
    assert run.result == "ch_1"
    assert calls(lab) == ["reserve o1", "charge 500", "dispatch o1"]
    assert [row.action.value for row in run.history()] == ["ok", "ok", "ok", "end"]


# SCENARIOS, as a user would write them
def test_a02_flaky_gateway(lab: Lab, world: World) -> None:
    lab.fail("charge", GatewayTimeout("busy"), times=2, after_effect=True)

    run = lab.start(checkout, "o2", 500)
    lab.advance(60)

    assert run.status == "completed"
    assert calls(lab) == ["reserve o2", "charge 500", "charge 500", "charge 500", "dispatch o2"]
    assert list(world.keys.values()) == [3]  # one key, three calls


def test_a03_gateway_down(lab: Lab, world: World) -> None:
    lab.fail("charge", GatewayTimeout("down"), times=None)

    run = lab.start(checkout, "o3", 500)
    lab.advance(60)

    assert run.status == "failed"
    assert isinstance(run.error, GatewayTimeout)
    assert calls(lab) == ["reserve o3", "charge 500", "charge 500", "charge 500", "release o3"]
    assert world.refunded == []


def test_a04_out_of_stock_last_in_first_out(lab: Lab, world: World) -> None:
    lab.fail("dispatch", OutOfStock("o4"))

    run = lab.start(checkout, "o4", 500)
    lab.drain()

    assert calls(lab)[-3:] == ["dispatch o4", "refund ch_1", "release o4"]
    assert repr(run.error) == "OutOfStock('o4')"
    assert world.refunded == ["ch_1"]
    assert world.ledger() == (0, 0)


def test_a05_human_approval(lab: Lab) -> None:
    run = lab.start(checkout, "o6", 200_000)
    lab.drain()
    assert (run.status.value, [on.name for on in run.waiting_on]) == ("waiting", ["approval"])
    assert calls(lab) == ["reserve o6"]

    assert run.signal("approval", True) == "delivered"
    lab.drain()

    assert run.status == "completed"
    assert calls(lab) == ["reserve o6", "charge 200000", "dispatch o6"]


# -- time ---------------------------------------------------------------------------------------------------------
def test_a_sleep_takes_no_real_time(lab: Lab) -> None:
    @saga(name="lab_sleeps")
    def sleeps(run: Run) -> str:
        run.sleep(timedelta(days=3))
        first = run.now()
        run.sleep(3600)
        return str(run.now() - first)

    begun, begun_s = lab.now, time.monotonic()
    run = lab.start(sleeps)
    lab.advance(timedelta(days=3, minutes=59))
    before = run.status
    lab.advance(60)

    assert (before, run.status, run.result) == ("waiting", "completed", "1:00:00")
    assert lab.now - begun == timedelta(days=3, hours=1)
    assert time.monotonic() - begun_s < 10


def test_a_back_off_is_as_long_as_it_is_written(lab: Lab) -> None:
    lab.fail("charge", GatewayTimeout)
    run = lab.start(checkout, "o1", 500)

    lab.advance(9)
    before = len(lab.calls)
    lab.advance(1)

    assert (before, len(lab.calls), run.status) == (2, 4, "completed")


def test_a_wait_goes_to_its_time_out_when_the_time_has_come(lab: Lab) -> None:
    run = lab.start(checkout, "o1", 200_000)

    lab.advance(timedelta(days=2) - timedelta(seconds=1))
    before = run.status
    lab.advance(1)

    assert (before, run.status) == ("waiting", "failed")
    assert isinstance(run.error, Rejected)


def test_wait_of_a_handle_moves_the_clock(lab: Lab) -> None:
    run = lab.start(checkout, "o1", 200_000)
    begun = lab.now

    with pytest.raises(WaitTimeout):
        run.wait(60)
    after = lab.now
    with pytest.raises(RunFailed):
        run.wait()

    assert after - begun == timedelta(seconds=60)
    assert lab.now - begun == timedelta(days=2)


def test_wait_for_what_no_time_brings_says_what_it_waits_for(lab: Lab) -> None:
    @saga(name="lab_waits_for_ever")
    def waits(run: Run) -> None:
        run.wait_signal("go")

    with pytest.raises(WaitTimeout, match="waiting on go: no time that passes will end it"):
        lab.start(waits).wait()


def test_a_deadline_comes_when_the_time_has_come(lab: Lab) -> None:
    run = lab.start(checkout.options(deadline=timedelta(hours=1)), "o1", 200_000)

    lab.advance(3600)

    assert run.status == "failed"
    assert isinstance(run.error, DeadlineExceeded)


def test_events_of_a_handle_move_the_clock_and_end(lab: Lab) -> None:
    run = lab.start(checkout, "o1", 200_000)

    seen = [row.action.value for row in run.events()]

    assert seen == ["ok", "timeout", "ok", "end"]


def test_a_delayed_start_starts_later(lab: Lab) -> None:
    run = lab.start(checkout.options(countdown=60), "o1", 500)

    lab.advance(59)
    before = len(lab.calls)
    lab.advance(1)

    assert (before, run.status) == (0, "completed")


# -- tasks as workers execute them ----------------------------------------------------------------------------------
def test_tasks_retry_by_their_own_policy_and_see_their_attempt(lab: Lab, world: World) -> None:
    @saga(name="lab_flaky_saga")
    def flaky(run: Run) -> int:
        return run.step(shop.flaky.si("o"))

    lab.fail("flaky", GatewayTimeout("busy"), times=2, after_effect=True)
    run = lab.start(flaky)
    lab.drain()
    before = len(world.notes)
    lab.advance(3 * 60)
    lab.advance(3 * 60)

    assert before == 1
    assert run.result == 2
    assert [(retries, attempt) for retries, attempt, _ in world.notes] == [(0, 1), (1, 2), (2, 3)]
    assert {key for *_, key in world.notes} == {f"{run.id}:1:flaky"}


def test_a_task_that_asks_for_a_retry_gets_its_new_arguments_when_the_time_has_come(lab: Lab) -> None:
    @saga(name="lab_asks_saga")
    def asks(run: Run) -> int:
        return run.step(shop.asks.si(1))

    run = lab.start(asks)
    lab.advance(119)
    before = [call.args for call in lab.calls]
    lab.advance(1)

    assert before == [(1,), (2,)]
    assert run.result == 3


def test_an_undo_sees_why(lab: Lab, world: World) -> None:
    def seen(order: str) -> None:
        world.notes.append((repr(current_step.cause), current_step.step))

    lab.stub(shop.release, side_effect=seen)
    lab.fail("dispatch", OutOfStock("o1"))
    lab.start(checkout, "o1", 500)
    lab.drain()

    assert world.notes == [("OutOfStock('o1')", "reserve!undo")]


def test_an_attempt_that_outlives_its_time_out_is_undone_and_counts_no_more(lab: Lab, world: World) -> None:
    @saga(name="lab_slow", errors=[StepTimeout])
    def slow(run: Run, order: str) -> None:
        run.step(shop.reserve.si(order), undo=shop.release.si(order), timeout=30)

    def takes_long(order: str) -> str:
        lab.advance(60)
        return order

    lab.stub(shop.reserve, side_effect=takes_long)
    run = lab.start(slow, "o1")
    lab.drain()

    assert run.status == "failed"
    assert isinstance(run.error, StepTimeout)
    assert [call.step for call in lab.calls] == ["reserve", "reserve!undo"]


def test_a_long_attempt_without_time_out_keeps_its_lease(lab: Lab) -> None:
    lab.stub(shop.reserve, side_effect=lambda order: lab.advance(3600))
    run = lab.start(checkout, "o1", 500)

    lab.drain()

    assert run.status == "completed"
    assert [call.attempt for call in lab.calls] == [1, 1, 1]


def test_a_long_attempt_learns_that_its_run_is_cancelled(lab: Lab, world: World) -> None:
    def looks(order: str) -> None:
        run.cancel()
        world.notes.append(current_step.cancelled)
        lab.advance(10)
        world.notes.append(current_step.cancelled)

    lab.stub(shop.reserve, side_effect=looks)
    run = lab.start(checkout, "o1", 500)
    lab.drain()

    assert world.notes == [False, True]
    assert run.status == "cancelled"
    assert [call.step for call in lab.calls] == ["reserve", "reserve!undo"]


# -- stubs, failures, crashes ---------------------------------------------------------------------------------------
def test_a_stub_stands_for_a_task_and_is_forgotten_afterwards(world: World) -> None:
    with Lab(shop.app) as lab:
        lab.stub(shop.charge, returns="stubbed")
        lab.stub("lab_shop.dispatch", side_effect=[OutOfStock("first"), None])
        run = lab.start(checkout, "o1", 500)
        lab.drain()

        assert run.status == "failed"
        assert world.charged == {}
        assert world.refunded == ["stubbed"]
    assert shop.charge("k", 5) == "ch_1"
    assert world.charged == {"k": 5}


def test_a_stub_refuses_arguments_that_the_task_would_refuse(lab: Lab) -> None:
    @saga(name="lab_wrong_call", errors=[TypeError])
    def wrong(run: Run) -> None:
        run.step(shop.charge.si("only one"))

    lab.stub(shop.charge, returns="ch")
    run = lab.start(wrong)
    lab.drain()

    assert isinstance(run.error, TypeError)


def test_a_task_of_another_project_is_stubbed_by_name(lab: Lab) -> None:
    @saga(name="lab_foreign")
    def foreign(run: Run) -> str:
        return run.step(shop.app.signature("billing.invoice", args=(5,), immutable=True))

    missing = lab.start(foreign)
    lab.drain()
    lab.stub("billing.invoice", returns="inv_1")
    run = lab.start(foreign)
    lab.drain()

    assert "lab.stub('billing.invoice', returns=...)" in str(missing.error)
    assert run.result == "inv_1"


def test_a_crash_before_an_effect_leaves_nothing_and_the_step_is_done_once(lab: Lab, world: World) -> None:
    lab.crash(before="charge")
    run = lab.start(checkout, "o1", 500)
    lab.drain()
    before = (run.status, dict(world.charged))

    lab.advance(31)

    assert before == ("running", {})
    assert run.status == "completed"
    assert list(world.keys.values()) == [1]


def test_a_crash_after_an_effect_repeats_it_with_one_key(lab: Lab, world: World) -> None:
    lab.crash(after=shop.charge)
    run = lab.start(checkout, "o1", 500)
    lab.drain()
    lab.advance(31)

    assert run.status == "completed"
    assert list(world.keys.values()) == [2]
    assert [row.action.value for row in run.history()] == ["ok", "lost", "ok", "ok", "end"]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("commit", range(1, 9))
def test_a_crash_at_any_commit_loses_nothing(lab: Lab, world: World, moment: str, commit: int) -> None:
    lab.crash(**{moment: "commit"}, at=commit)

    run = lab.start(checkout, "o1", 500)

    assert run.wait() == "ch_1"
    assert world.ledger() == (500, 1)
    assert lab.troubles.crashes == []


def test_plans_that_mean_nothing_are_refused(lab: Lab) -> None:
    for plan in (
        lambda: lab.crash(before="a", after="b"),
        lambda: lab.crash(at=0),
        lambda: lab.fail("a", "no error"),  # type: ignore[arg-type]
        lambda: lab.fail(3, ValueError),
        lambda: lab.stub(shop.charge, returns=1, side_effect=ValueError),
        lambda: lab.stub(3),
        lambda: lab.stub(shop.charge, side_effect=3),
    ):
        with pytest.raises(DefinitionError, match="nothing was planned"):
            plan()


# -- beside what a project has ----------------------------------------------------------------------------------------
def test_the_apps_own_sagas_are_what_they_were_afterwards() -> None:
    app = Celery("lab_own", set_as_current=False)
    CelerySaga(app, database_url="sqlite://")
    own = CelerySaga.of(app).services

    with Lab(app) as lab:
        assert CelerySaga.of(app).engine is lab.engine

    assert CelerySaga.of(app).services is own
    own.close()


@shared_task(name="lab_shared_double")
def double(number: int) -> int:
    return number * 2


def test_an_eager_app_is_eager_before_and_after_a_lab() -> None:
    app = Celery("lab_eager", set_as_current=False)
    app.conf.task_always_eager = True
    CelerySaga(app, database_url="sqlite://", sagas=[])
    CelerySaga.of(app).migrate()

    @app.task(name="lab_eager_double", shared=False)
    def double(number: int) -> int:
        return 2 * number

    @saga(name="lab_doubles")
    def doubles(run: Run, number: int) -> int:
        return run.step(double.si(number))

    CelerySaga.of(app).registry.add(doubles)
    before = doubles.start(1).wait(5)
    with Lab(app) as lab:
        lab.stub(double, returns=7)
        run = lab.start(doubles, 2)
        waiting = run.status
        lab.drain()
    after = doubles.start(3).wait(5)
    CelerySaga.of(app).services.close()

    assert (before, waiting.value, run.result, after) == (2, "queued", 7, 6)


def test_runs_can_be_looked_at_when_the_lab_is_closed() -> None:
    with Lab(shop.app) as lab:
        run, waiting = lab.start(checkout, "o1", 500), lab.start(checkout, "o2", 200_000)
        lab.drain()
    store = weakref.ref(run._engine.store)

    assert (run.result, waiting.status.value) == ("ch_1", "waiting")
    assert [call.name for call in lab.calls][:1] == ["reserve"]

    del run, waiting, lab
    gc.collect()
    assert store() is None


def test_an_eager_suite_goes_on_eagerly_and_the_lab_does_not(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    monkeypatch.setitem(shop.app.conf, "task_always_eager", True)

    with Lab(shop.app) as lab:
        lab.fail("charge", GatewayTimeout)
        run = lab.start(checkout, "o1", 500)
        lab.drain()
        before = run.status
        lab.advance(10)

        assert (before, run.status) == ("running", "completed")
        assert shop.charge.delay("k", 5).get() == "ch_1"


def test_sagas_started_by_the_code_under_test_are_in_the_lab(lab: Lab) -> None:
    started = checkout.start("o1", 500)

    assert lab.get(started).wait() == "ch_1"
    assert lab.get(started.id).status == "completed"
    assert checkout.find(key="o1").status == "completed"


def test_sending_a_task_in_a_body_is_refused(lab: Lab) -> None:
    @saga(name="lab_sends")
    def sends(run: Run) -> None:
        shop.charge.apply(("k", 5))

    run = lab.start(sends)
    lab.drain()

    assert (run.status, lab.calls) == ("suspended", [])


def test_what_tasks_send_outside_of_their_run_goes_nowhere_and_is_kept(lab: Lab) -> None:
    def sends(order: str) -> None:
        assert shop.charge.delay("k", 5).get(timeout=1) is None
        shop.app.send_task("elsewhere.mail", kwargs={"to": order})
        shop.dispatch.apply_async((order,), countdown=5)

    lab.stub(shop.dispatch, side_effect=sends)
    run = lab.start(checkout, "o1", 500)
    lab.drain()

    assert run.status == "completed"
    assert [(sent.name, sent.args, sent.kwargs) for sent in lab.sent] == [
        ("charge", ("k", 5), {}),
        ("mail", (), {"to": "o1"}),
        ("dispatch", ("o1",), {}),
    ]


def test_an_app_sends_as_it_did_when_the_lab_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    with Lab(shop.app):
        assert "send_task" in shop.app.__dict__
    assert "send_task" not in shop.app.__dict__

    monkeypatch.setattr(shop.app, "send_task", "a fake of the user's")
    with Lab(shop.app):
        assert shop.app.send_task == "a fake of the user's"
    assert shop.app.send_task == "a fake of the user's"


@pytest.mark.parametrize("how", ["delay", "apply_async", "apply"])
def test_sending_in_a_body_parks_whatever_the_way(lab: Lab, how: str) -> None:
    @saga(name="lab_sends_somehow")
    def sends(run: Run) -> None:
        getattr(shop.charge, how)(*(("k", 5) if how == "delay" else (("k", 5),)))

    run = lab.start(sends)
    lab.drain()

    assert run.status == "suspended"
    assert lab.sent == []
    assert "run.step(charge.si(...))" in str(run.error)


def test_a_lab_that_is_not_open_says_so() -> None:
    with pytest.raises(DefinitionError, match="with Lab"):
        Lab(shop.app).drain()
    with pytest.raises(DefinitionError, match="aware"):
        Lab(shop.app, now=datetime(2026, 1, 1))  # noqa: DTZ001


def test_shared_tasks_are_those_of_its_app_whichever_app_is_current() -> None:
    before = current_app._get_current_object()
    other = Celery("lab_other", set_as_current=False)
    other.finalize()
    other.close()  # so that no task which comes later is one of its own
    app = Celery("lab_own_tasks", set_as_current=False)
    CelerySaga(app)

    @shared_task(name="tests.testing.came_later")
    def came_later() -> str:
        return "done"

    @saga
    def uses_a_shared_task(run: Run) -> str:
        return run.step(came_later.si())

    other.set_current()
    try:
        with Lab(app) as lab:
            run = lab.start(uses_a_shared_task)
            lab.drain()
            assert run.result == "done"
        assert current_app._get_current_object() is other
    finally:
        before.set_current()
