"""Starting, following and steering runs, on a real store and engine; messages wait until they are delivered by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from celery_saga import Retry, Run, RunHandle, Saga, Signal, saga
from celery_saga.client import binding
from celery_saga.errors import (
    DefinitionError,
    IdempotencyConflict,
    InvalidPayload,
    PayloadTooLarge,
    ResultPurged,
    RunCancelled,
    RunExists,
    RunFailed,
    RunNotFound,
    SignalDuplicate,
    SignalExpired,
    SignalNotExpected,
    WaitTimeout,
)
from tests.scenarios.house import House


@dataclass(frozen=True)
class Receipt:
    charge_id: str


class Declined(Exception):
    pass


APPROVAL = Signal("approval", Receipt)


@pytest.fixture
def house() -> Iterator[House]:
    with House("sqlite://") as made:
        yield made


@pytest.fixture
def approved(house: House) -> Saga[[str], Receipt]:
    """Waits for an approval and returns it."""

    @saga(key="{order}", signals=[APPROVAL, "note"], errors=[Declined])
    def approved(run: Run, order: str) -> Receipt:
        return run.wait_signal(APPROVAL)

    house.add(approved)
    return approved


@pytest.fixture
def failing(house: House) -> Saga[[], None]:
    """Fails at its only step, which was tried once."""

    @house.app.task(name="client.charge", shared=False)
    def charge() -> None:
        raise Declined("no money")

    @saga(errors=[Declined])
    def failing(run: Run) -> None:
        run.step(charge.si())

    house.add(failing)
    return failing


# -- start --------------------------------------------------------------------------------------------------------
def test_a_start_commits_one_run_and_sends_one_message(house: House, approved: Saga[[str], Receipt]) -> None:
    handle = approved.start("o1")

    assert (handle.created, handle.status, handle.key, handle.saga) == (True, "queued", "o1", "approved")
    assert handle.id == approved.run_id("o1")
    assert len(house.messages) == 1


def test_the_same_key_and_payload_is_the_same_run(house: House, approved: Saga[[str], Receipt]) -> None:
    first, second = approved.start("o1"), approved.start(order="o1")

    assert first == second
    assert (first.created, second.created) == (True, False)
    assert len(house.messages) == 1


def test_the_same_key_with_another_payload_is_a_conflict(house: House, approved: Saga[[str], Receipt]) -> None:
    approved.options(key="k").start("o1")

    with pytest.raises(IdempotencyConflict):
        approved.options(key="k").start("o2")


def test_raise_if_it_exists(house: House, approved: Saga[[str], Receipt]) -> None:
    approved.start("o1")

    with pytest.raises(RunExists):
        approved.options(if_exists="raise").start("o1")


def test_options_of_a_start_are_stored_and_leave_the_saga_as_it_was(house: House) -> None:
    @saga(priority=1, deadline=60, tags=["a"])
    def plain(run: Run) -> None: ...

    given = plain.options(priority=9, countdown=5).options(deadline=30, tags=["b"])
    run, other = (house.engine.run_of(each.start().id) for each in (given, plain))

    assert (run.priority, run.tags) == (9, ("b",))
    assert run.deadline_at is not None and (run.deadline_at - run.created_at).total_seconds() == 30
    assert run.not_before_at is not None and (run.not_before_at - run.created_at).total_seconds() == 5
    assert (other.priority, other.tags, other.not_before_at) == (1, ("a",), None)
    assert other.deadline_at is not None and (other.deadline_at - other.created_at).total_seconds() == 60


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ((), InvalidPayload),
        ((7,), InvalidPayload),
        (("o1", "o2"), InvalidPayload),
        (("x" * 2_000_000,), PayloadTooLarge),
    ],
)
def test_arguments_that_do_not_fit_write_nothing(
    house: House, approved: Saga[..., Receipt], args: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        approved.start(*args)

    assert house.messages == []
    assert house.store.live_versions() == []


def test_an_event_loop_can_start_and_wait(house: House) -> None:
    @saga
    def plain(run: Run) -> int:
        return 5

    house.add(plain)

    async def go() -> int:
        handle = await plain.start_async()
        house.drain()
        return await handle.wait_async(5)

    assert asyncio.run(go()) == 5


def test_without_an_app_the_error_says_what_to_write() -> None:
    binding.set_resolver(None)

    @saga
    def lonely(run: Run) -> None: ...

    with pytest.raises(DefinitionError, match=r"saga 'lonely'.*CelerySaga\(app\)"):
        lonely.start()


# -- waiting ------------------------------------------------------------------------------------------------------
def test_a_completed_run_gives_its_typed_result(house: House, approved: Saga[[str], Receipt]) -> None:
    handle = approved.start("o1")
    house.drain()
    assert (handle.status, handle.state) == ("waiting", "STARTED")
    assert [(each.kind, each.name) for each in handle.waiting_on] == [("signal", "approval")]

    handle.signal(APPROVAL, Receipt("ch"))
    house.drain()

    assert handle.wait(0) == handle.result == handle.get() == Receipt("ch")
    assert (handle.ready(), handle.successful(), handle.failed(), handle.state) == (True, True, False, "SUCCESS")
    assert handle.error is None
    assert handle.waiting_on == []


def test_a_handle_that_knows_no_saga_finds_it_in_the_registry(house: House, approved: Saga[[str], Receipt]) -> None:
    started = approved.start("o1")
    started.signal(APPROVAL, Receipt("ch"))
    house.drain()

    handle: RunHandle[Any] = RunHandle(house.engine, started.id, created=False)

    assert handle.result == Receipt("ch")


def test_a_run_that_does_not_end_in_time_goes_on(house: House, approved: Saga[[str], Receipt]) -> None:
    handle = approved.start("o1")
    house.drain()

    with pytest.raises(WaitTimeout, match=r"has not ended within 0\.05 s: it is waiting; it goes on"):
        handle.wait(0.05)
    handle.suspend(reason="checking", by="ann")
    with pytest.raises(WaitTimeout, match=r"suspended, reason operator: it goes on once a person resumes it"):
        handle.wait(0)


def test_who_waits_is_told_that_nobody_has_taken_the_run_up_yet(approved: Saga[[str], Receipt]) -> None:
    with pytest.raises(WaitTimeout, match=r"it is queued; it goes on once a worker takes it up .*saga doctor"):
        approved.start("o1").wait(0)


def test_who_waits_for_a_run_that_a_bug_has_parked_is_told_the_bug(house: House) -> None:
    @saga
    def client_buggy(run: Run) -> None:
        raise ZeroDivisionError("nobody to share with")

    house.add(client_buggy)
    handle = client_buggy.start()
    house.drain()

    with pytest.raises(WaitTimeout, match="reason body_error, with ZeroDivisionError: nobody to share with: it goes"):
        handle.wait(0)


def test_a_failed_run_raises_with_its_cause_and_message(house: House, failing: Saga[[], None]) -> None:
    handle = failing.start()
    house.drain()

    with pytest.raises(
        RunFailed, match="failed at step 'charge' with Declined: no money; what it had done is undone"
    ) as caught:
        handle.wait(1)

    assert type(caught.value.cause) is Declined
    assert caught.value.__cause__ is caught.value.cause
    assert caught.value.step == "charge"
    assert isinstance(handle.error, Declined)
    assert isinstance(handle.get(propagate=False), RunFailed)
    assert (handle.state, handle.failed(), handle.result) == ("FAILURE", True, None)


def test_a_cancelled_run_raises_that(house: House, approved: Saga[[str], Receipt]) -> None:
    handle = approved.start("o1")
    house.drain()

    first, again = handle.cancel(reason="typo"), handle.cancel()

    assert first == again == {"cancelled": True, "status": "cancelled"}
    assert handle.state == "REVOKED"
    with pytest.raises(RunCancelled, match="was cancelled"):
        handle.wait()


def test_there_is_no_run_or_no_longer(house: House, approved: Saga[[str], Receipt]) -> None:
    started = approved.start("o1")
    house.drain()
    unknown = approved.get("no-such-run")
    purged: RunHandle[Any] = RunHandle(house.engine, "purged", approved, created=True)

    with pytest.raises(RunNotFound):
        unknown.wait(1)
    with pytest.raises(RunNotFound):
        unknown.cancel()
    with pytest.raises(ResultPurged):
        purged.wait(1)
    assert started.status == "waiting"


def test_what_was_seen_ended_is_not_read_again_until_refreshed(house: House, failing: Saga[[], None]) -> None:
    handle = failing.start()
    house.drain()
    assert handle.status == "failed"

    failing.get(handle.id).retry()

    assert handle.status == "failed"
    assert not handle.refresh().ready()


def test_waiting_in_a_body_is_refused(house: House, approved: Saga[[str], Receipt]) -> None:
    handle = approved.start("o1")

    @saga
    def waits(run: Run) -> Receipt:
        return handle.wait()

    house.add(waits)
    parked = waits.start()
    house.drain()

    assert parked.status == "suspended"
    assert "RunHandle.wait() was called in the body" in str(parked.error)


# -- signals ------------------------------------------------------------------------------------------------------
def test_a_signal_is_delivered_to_a_wait_or_kept_for_one(house: House, approved: Saga[[str], Receipt]) -> None:
    early, late = approved.start("early"), approved.start("late")

    kept = early.signal("approval", {"charge_id": "a"})
    house.drain()
    delivered = late.signal(APPROVAL, Receipt("b"))
    house.drain()

    assert (kept, delivered) == ("kept", "delivered")
    assert (early.wait(0), late.wait(0)) == (Receipt("a"), Receipt("b"))


def test_a_signal_may_precede_a_run_that_is_found_by_key(house: House, approved: Saga[[str], Receipt]) -> None:
    assert approved.find(key="o1").signal(APPROVAL, Receipt("a")) == "kept"

    handle = approved.start("o1")
    house.drain()

    assert handle.wait(0) == Receipt("a")


@pytest.mark.parametrize(
    ("signal", "options", "error"),
    [
        ("approval", {"value": {"charge_id": 7}}, InvalidPayload),
        (APPROVAL, {"value": "yes"}, InvalidPayload),
        ("rejection", {}, SignalNotExpected),
        ("note", {"value": object()}, InvalidPayload),
        ("note", {"value": "x" * 2_000_000}, PayloadTooLarge),
        ("note", {"error": Declined}, InvalidPayload),
        ("note", {"error": Declined(), "value": 7}, InvalidPayload),
        ("note", {"id": ""}, InvalidPayload),
        ("note", {"id": "x" * 201}, InvalidPayload),
    ],
)
def test_a_signal_that_nobody_could_take_is_refused_where_it_is_sent(
    house: House, approved: Saga[[str], Receipt], signal: Any, options: Any, error: type[Exception]
) -> None:
    handle = approved.start("o1")

    with pytest.raises(error):
        handle.signal(signal, **options)

    assert house.store.signals(handle.id) == []


def test_an_error_instead_of_a_value_is_raised_in_the_body(house: House, approved: Saga[[str], Receipt]) -> None:
    handle = approved.start("o1")
    handle.signal(APPROVAL, error=Declined("never"))
    house.drain()

    with pytest.raises(RunFailed, match="Declined: never") as caught:
        handle.wait(0)
    assert type(caught.value.cause) is Declined


def test_an_id_counts_once_and_an_ended_run_takes_nothing(house: House, approved: Saga[[str], Receipt]) -> None:
    handle = approved.start("o1")
    handle.signal("note", 1, id="n1")

    with pytest.raises(SignalDuplicate):
        handle.signal("note", 2, id="n1")
    handle.cancel()
    with pytest.raises(SignalExpired):
        handle.signal("note", 3)


def test_an_undo_that_is_used_up_fails_the_run_until_a_person_repairs_it(house: House) -> None:
    undone: list[str] = []

    @house.app.task(name="client.reserve", shared=False)
    def reserve() -> str:
        return "r1"

    @house.app.task(name="client.release", shared=False)
    def release(reservation: str) -> None:
        if reservation == "r1":
            raise OSError("stock is down")
        undone.append(reservation)

    @saga(errors=[Declined], undo_retry=Retry(1))
    def reserving(run: Run) -> None:
        run.step(reserve.si(), undo=release)
        raise Declined("no money")

    house.add(reserving)
    handle = reserving.start()
    house.drain()

    with pytest.raises(RunFailed, match="the undo of 'reserve' failed too and waits for a person") as caught:
        handle.wait(0)
    assert isinstance(caught.value.cause, Declined)
    assert (handle.status, handle.state) == ("compensation_failed", "FAILURE")

    with pytest.raises(InvalidPayload):
        handle.retry_undo("reserve", args=[object()])
    handle.retry_undo("reserve", args=["r2"], by="ann")
    house.drain()

    assert undone == ["r2"]
    assert handle.status == "failed"


# -- looking and steering -----------------------------------------------------------------------------------------
def test_export_is_plain_json_with_all_that_is_stored(house: House, approved: Saga[[str], Receipt]) -> None:
    handle = approved.start("o1")
    house.drain()
    handle.signal(APPROVAL, Receipt("ch"))
    house.drain()
    before = house.engine.run_of(handle.id).updated_at

    document = handle.export()

    assert json.loads(json.dumps(document)) == document
    assert document["run"]["input"] == {"order": "o1"}
    assert document["run"]["result"] == {"charge_id": "ch"}
    assert [step["key"] for step in document["steps"]] == ["approval"]
    assert [row["action"] for row in document["history"]] == ["signal", "end"]
    assert document["signals"][0]["value"] == {"charge_id": "ch"}
    assert "claim_token" not in document["run"]
    assert house.engine.run_of(handle.id).updated_at == before


def test_events_end_with_the_run_and_start_after_what_was_seen(house: House, failing: Saga[[], None]) -> None:
    handle = failing.start()
    house.drain()

    assert [row.action.value for row in handle.events()] == ["fail", "end"]
    assert [row.action.value for row in handle.events(after=1)] == ["end"]
    assert handle.history() == list(handle.events())


def test_operators_verbs_reach_the_engine_and_leave_their_names(house: House, approved: Saga[[str], Receipt]) -> None:
    handle = approved.start("o1")
    house.drain()

    assert handle.suspend(reason="look", by="ann").status == "suspended"
    assert handle.resume(by="ann").status != "suspended"
    house.drain()
    handle.skip("approval", Receipt("by hand"), by="bob")
    house.drain()

    assert handle.wait(0) == Receipt("by hand")
    rows = [(row.action.value, row.by) for row in handle.history()]
    assert rows == [("suspend", "ann"), ("resume", "ann"), ("skip", "bob"), ("end", None)]


def test_a_saga_whose_app_knows_another_of_its_name_is_not_started(house: House) -> None:
    def other() -> Saga[..., Any]:
        @saga(name="namesake")
        def body(run: Run) -> None: ...

        return body

    @saga(name="namesake")
    def mine(run: Run) -> None: ...

    house.add(other())

    with pytest.raises(DefinitionError, match="namesake"):
        mine.start()

    assert house.messages == []
