"""Sagas whose body is a canvas: versions, keys, errors, undos and retries, without groups."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from celery import chain

from celery_saga import DefinitionError, IdempotencyConflict, Retry, RunFailed, Saga, StepFailed, step
from tests.scenarios.house import House


class Bank(Exception):
    """It said no."""


class Till:
    """Tasks over money, with a ledger, that fail as often as they are told to."""

    def __init__(self, house: House) -> None:
        self.ledger: list[str] = []
        self.fail: Counter[str] = Counter()

        @house.task("till.total")
        def total(*cents: int, tip: int = 0) -> int:
            return self.tell("total", sum(cents) + tip)

        @house.task("till.charge")
        def charge(cents: int) -> str:
            return f"charge of {self.tell('charge', cents)}"

        @house.task("till.refund")
        def refund(charged: str) -> None:
            self.tell("refund", charged)

        @house.task("till.ship")
        def ship(charged: str) -> str:
            return f"shipped for {self.tell('ship', charged)}"

        self.total, self.charge, self.refund, self.ship = total, charge, refund, ship

    def tell(self, name: str, what: Any) -> Any:
        self.ledger.append(f"{name} {what}")
        if self.fail[name]:
            self.fail[name] -= 1
            raise Bank(name)
        return what

    def canvas(self) -> Any:
        return chain(self.total.s(1), step(self.charge.s(), undo=self.refund), self.ship.s())


@pytest.fixture
def till(house: House) -> Till:
    return Till(house)


def made(house: House, name: str, canvas: object, **options: Any) -> Saga[..., Any]:
    saga = Saga.from_canvas(name, canvas, **options)
    house.add(saga)
    return saga


def test_arguments_of_the_start_go_to_the_first_task_in_front_of_its_own(house: House, till: Till) -> None:
    saga = made(house, "till_args", till.canvas())

    handle = saga.start(10, tip=5)
    house.drain()

    assert handle.wait(0) == "shipped for charge of 16"
    assert [row.key for row in handle.steps()] == ["total", "charge", "ship"]
    assert (handle.saga, saga.version) == ("till_args", 1)


def test_a_failing_task_undoes_what_the_canvas_did(house: House, till: Till) -> None:
    till.fail["ship"] = 1
    handle = made(house, "till_undo", till.canvas(), errors=[Bank]).start(10)
    house.drain()

    with pytest.raises(RunFailed) as failed:
        handle.wait(0)

    assert isinstance(failed.value.cause, Bank)
    assert failed.value.step == "ship"
    assert till.ledger == ["total 11", "charge 11", "ship charge of 11", "refund charge of 11"]


def test_an_error_that_is_not_declared_ends_the_run_too_for_no_body_could_be_mended(house: House, till: Till) -> None:
    till.fail["ship"] = 1
    handle = made(house, "till_undeclared", till.canvas()).start(10)
    house.drain()

    assert handle.status == "failed"
    assert isinstance(handle.error, StepFailed)
    assert till.ledger[-1] == "refund charge of 11"


def test_a_retry_is_that_of_the_step_in_the_canvas(house: House, till: Till) -> None:
    till.fail["charge"] = 2
    canvas = chain(till.total.s(), step(till.charge.s(), retry=Retry(max_attempts=3, delay=0, on=[Bank])))
    handle = made(house, "till_retry", canvas).start(3)
    house.drain()

    assert handle.wait(0) == "charge of 3"
    assert till.ledger == ["total 3", "charge 3", "charge 3", "charge 3"]


def test_a_map_is_one_step_and_its_result_a_list(house: House, till: Till) -> None:
    canvas = chain(till.total.s(1), till.charge.map([1, 2]), till.total.starmap([(1, 2), (3,)]))
    handle = made(house, "till_map", canvas).start()
    house.drain()

    assert handle.wait(0) == [3, 3]
    assert [row.key for row in handle.steps()] == ["total", "map", "starmap"]


@pytest.mark.parametrize(
    ("key", "found"), [("order-{args[0]}", "order-7"), (lambda order, **more: f"{order}/{more['tip']}", "7/1")]
)
def test_a_key_is_made_of_what_the_start_takes(house: House, till: Till, key: Any, found: str) -> None:
    saga = made(house, "till_key", till.canvas(), key=key)

    first, second = saga.start(7, tip=1), saga.start(7, tip=1)

    assert (first.key, first.created, second.created) == (found, True, False)
    with pytest.raises(IdempotencyConflict):
        saga.options(key=found).start(7, tip=2)
    house.drain()


def test_runs_stay_with_the_version_that_they_were_started_with(house: House, till: Till) -> None:
    old = made(house, "till_versions", chain(till.total.s(1), till.charge.s()))
    new = made(house, "till_versions", chain(till.total.s(2), till.ship.s()), version=2)
    handles = old.start(), new.start()
    house.drain()

    assert [handle.wait(0) for handle in handles] == ["charge of 1", "shipped for 2"]


def test_a_canvas_that_changed_without_a_new_version_parks_the_run(house: House, till: Till) -> None:
    saga = made(house, "till_changed", chain(till.total.s(1), till.charge.s(), till.ship.s()))
    handle = saga.start()
    for _ in range(2):
        house.deliver(house.messages.pop(0))
    house.registry._sagas["till_changed", 1] = Saga.from_canvas("till_changed", chain(till.total.s(2), till.charge.s()))
    house.drain()

    assert handle.status == "suspended"
    assert "till.total" in str(handle.error)
    assert till.ledger == ["total 1", "charge 1"]  # which was on its way


def test_two_canvases_of_one_place_cannot_share_a_name_and_version(till: Till) -> None:
    first = Saga.from_canvas("till_twice", till.canvas())
    again = Saga.from_canvas("till_twice", till.canvas())

    with pytest.raises(DefinitionError, match=r"saga 'till_twice' version 1 is defined twice"):
        Saga.from_canvas("till_twice", chain(till.total.s(1), till.ship.s()))
    assert first.name == again.name


def test_what_is_not_carried_is_refused_when_the_saga_is_defined(till: Till) -> None:
    with pytest.raises(DefinitionError) as refused:
        Saga.from_canvas("till_refused", chain(till.total.s().set(expires=3), till.ship.s().set(countdown=1)))

    assert str(refused.value).startswith(
        "Saga.from_canvas('till_refused') cannot make this canvas durable; nothing was registered.\n- "
    )
    assert str(refused.value).count("\n- ") == 2


def test_a_worker_needs_only_the_names_of_the_tasks(house: House, till: Till) -> None:
    plain = {
        "task": "celery.chain",
        "args": [],
        "kwargs": {"tasks": [{"task": "till.total", "args": [1]}, {"task": "till.charge"}]},
        "options": {},
        "subtask_type": "chain",
    }
    handle = made(house, "till_json", plain).start(4)
    house.drain()

    assert handle.wait(0) == "charge of 5"
