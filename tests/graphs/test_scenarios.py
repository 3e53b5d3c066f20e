"""The scenarios of sagas that are data: steps, choices, waits, signals and ends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from celery_saga import DeadlineExceeded, RunFailed, Saga, current_step
from celery_saga.core.records import Action
from tests.scenarios.house import House


class Team:
    """Tasks of a house that tell what they were asked for."""

    def __init__(self, house: House) -> None:
        self.calls: list[str] = []
        self.gateway: dict[str, int] = {}
        self.raises: Exception | None = None

        @house.task("send-mail")
        def send_mail(mail: dict[str, str]) -> dict[str, str]:
            return {"to": mail["to"]}

        @house.task("charge")
        def charge(order: Any) -> str:
            self.calls.append("charge")
            key = str(current_step.idempotency_key)
            self.gateway[key] = self.gateway.get(key, 0) + 1
            return "ch_1"

        @house.task("refund")
        def refund(charge_id: str) -> None:
            self.calls.append("refund")
            assert charge_id == "ch_1"

        @house.task("ship")
        def ship(charge_id: str) -> str:
            self.calls.append("ship")
            if self.raises is not None:
                raise self.raises
            return "shipped"

        @house.task("later")
        def later(_: object) -> None:
            self.calls.append("later")


def test_a07_quick_start(house: House) -> None:
    Team(house)
    mail = Saga.from_graph(
        {
            "name": "g-mail",
            "version": 1,
            "start": "send",
            "states": {"send": {"step": "send-mail", "on": {"ok": "done"}}, "done": {"end": True}},
        }
    )
    house.add(mail)

    handle = mail.start({"to": "ann@example.org"})
    house.drain()

    assert handle.wait(1) == {"to": "ann@example.org"}


def test_a08_two_starts_of_one_key_are_one_run_and_the_gateway_sees_one_key(house: House) -> None:
    team = Team(house)
    pay = Saga.from_graph(
        {
            "name": "g-pay-once",
            "version": 1,
            "start": "charge",
            "states": {"charge": {"step": "charge", "on": {"ok": "done"}}, "done": {"end": True}},
        }
    )
    house.add(pay)

    first = pay.options(key="order-42").start({"order": 42})
    second = pay.options(key="order-42").start({"order": 42})
    house.drain()

    assert (first.id, second.created) == (second.id, False)
    assert team.gateway == {f"{first.id}:1:charge": 1}


SHIPPING: dict[str, Any] = {
    "charge": {"step": "charge", "undo": "refund", "on": {"ok": "ship"}},
    "ship": {"step": "ship", "on": {"ok": "done"}},
    "done": {"end": True},
}
BY_HAND: dict[str, Any] = {
    "charge": {"step": "charge", "on": {"ok": "ship"}},
    "ship": {"step": "ship", "on": {"ok": "done", "fail": "refund"}},
    "refund": {"step": "refund", "on": {"ok": "given_up"}},
    "done": {"end": True},
    "given_up": {"end": "failed"},
}


@pytest.mark.parametrize("states", [SHIPPING, BY_HAND], ids=["undo", "by hand"])
def test_a09_what_was_charged_is_refunded_when_it_cannot_be_shipped(
    house: House, states: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    team = Team(house)
    team.raises = LookupError("none left")
    name = f"g-ship-{request.node.callspec.id.rpartition('-')[2].replace(' ', '-')}"
    saga = Saga.from_graph({"name": name, "version": 1, "start": "charge", "states": states})
    house.add(saga)

    handle = saga.start("o1")
    house.drain()

    assert team.calls == ["charge", "ship", "refund"]
    assert handle.status == "failed"
    assert house.actions(handle.id) == ["ok", "fail", "ok", "end"]
    with pytest.raises(RunFailed, match="none left") as caught:
        handle.wait(1)
    assert isinstance(caught.value.cause, LookupError)


def test_a10_an_approval_that_came_before_any_worker_looked(house: House) -> None:
    approve = Saga.from_graph(
        {
            "name": "g-approve",
            "version": 1,
            "start": "ask",
            "states": {
                "ask": {
                    "signal": "approve",
                    "timeout_s": timedelta(days=7).total_seconds(),
                    "on": {"signal": "done", "timeout": "late"},
                },
                "done": {"end": True, "output": {"approvedBy": "$.ask.by"}},
                "late": {"end": "failed"},
            },
        }
    )
    house.add(approve)
    handle = approve.start()
    kept = handle.signal("approve", {"by": "boss"})

    house.drain()

    assert kept == "kept"
    assert handle.wait(1) == {"approvedBy": "boss"}


WAITS: dict[str, Any] = {
    "start": "pause",
    "states": {
        "pause": {"wait": 86_400, "on": {"ok": "go", "cancel": "over"}},
        "go": {"step": "later", "on": {"ok": "over"}},
        "over": {"end": True},
    },
}


def test_a11_cancel_while_waiting(house: House) -> None:
    team = Team(house)
    waits = Saga.from_graph({"name": "g-waits", "version": 1, **WAITS})
    house.add(waits)
    handle = waits.start()
    house.drain()

    answer = handle.cancel()
    house.advance(2 * 86_400)

    assert answer == {"cancelled": True, "status": "cancelled"}
    assert handle.refresh().status == "cancelled"
    assert house.actions(handle.id) == ["cancel"]
    assert team.calls == []


@pytest.mark.parametrize("of", ["graph", "start"])
def test_a12_a_deadline_while_waiting(house: House, of: str) -> None:
    team = Team(house)
    deadline = {"deadline_s": 0.03} if of == "graph" else {}
    waits = Saga.from_graph({"name": f"g-deadline-of-{of}", "version": 1, **WAITS, **deadline})
    house.add(waits)
    handle = (waits if deadline else waits.options(deadline=0.03)).start()
    house.drain()

    house.advance(0.05)

    assert handle.status == "failed"
    with pytest.raises(RunFailed) as caught:
        handle.wait(1)
    assert isinstance(caught.value.cause, DeadlineExceeded)
    assert caught.value.cause.code == "TIMEOUT"
    assert team.calls == []
    assert house.rows(handle.id, Action.OK) == 0
