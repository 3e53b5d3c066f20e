"""What a project tests of its sagas: `pytest`, in this folder; there is no broker, and no database server."""

from __future__ import annotations

from datetime import timedelta

import pytest
from celery_saga.testing import Lab, RehearsalFailed, rehearse

import shop
from shop import GatewayTimeout, OutOfStock, checkout


@pytest.fixture(autouse=True)
def empty_world() -> None:
    for each in (shop.warehouse.held, shop.warehouse.sent, shop.gateway.paid):
        each.clear()


def ledger() -> dict[str, int]:
    return {
        "money": sum(shop.gateway.paid.values()),
        "held": len(shop.warehouse.held),
        "sent": len(shop.warehouse.sent),
    }


def steps(lab: Lab) -> list[str]:
    return [call.step for call in lab.calls]


def test_an_order_is_paid_and_sent(lab: Lab) -> None:
    run = lab.start(checkout, "o1", 500)
    lab.drain()

    assert run.result == "payment-500"
    assert ledger() == {"money": 500, "held": 1, "sent": 1}


def test_a_flaky_gateway_is_asked_three_times_with_one_key(lab: Lab) -> None:
    lab.fail("charge", GatewayTimeout(), times=2, after_effect=True)

    run = lab.start(checkout, "o2", 500)
    lab.advance(60)  # over both back-offs

    assert run.status == "completed"
    assert steps(lab) == ["reserve", "charge", "charge", "charge", "dispatch"]
    assert ledger()["money"] == 500


def test_a_gateway_that_is_down_costs_nothing(lab: Lab) -> None:
    lab.fail("charge", GatewayTimeout(), times=None)

    run = lab.start(checkout, "o3", 500)
    lab.advance(60)

    assert isinstance(run.error, GatewayTimeout)
    assert steps(lab) == ["reserve", "charge", "charge", "charge", "reserve!undo"]


def test_what_cannot_be_sent_is_undone_last_in_first_out(lab: Lab) -> None:
    lab.stub(shop.dispatch, side_effect=OutOfStock("o4"))

    run = lab.start(checkout, "o4", 500)
    lab.drain()

    assert isinstance(run.error, OutOfStock)
    assert steps(lab)[-2:] == ["charge!undo", "reserve!undo"]
    assert ledger() == {"money": 0, "held": 0, "sent": 0}


def test_a_large_order_waits_for_a_person(lab: Lab) -> None:
    run = lab.start(checkout, "o5", 200_000)
    lab.advance(timedelta(days=1))
    assert (run.status, steps(lab)) == ("waiting", ["reserve"])

    run.signal(shop.APPROVAL, True)
    lab.drain()

    assert run.status == "completed"
    assert steps(lab) == ["reserve", "charge", "dispatch"]


def test_a_worker_that_dies_after_the_payment_does_not_take_it_twice(lab: Lab) -> None:
    lab.crash(after="charge")

    run = lab.start(checkout, "o6", 500)
    lab.advance(31)  # until its lease has ended

    assert run.status == "completed"
    assert steps(lab).count("charge") == 2
    assert ledger()["money"] == 500


def test_whatever_fails_or_dies_the_books_are_right() -> None:
    report = rehearse(checkout, "o7", 200_000, signals={"approval": True}, ledger=ledger)

    assert report.steps == ("reserve", "charge", "dispatch")
    assert len(report.scenes) > 20


def test_a_forgotten_undo_is_found() -> None:
    with pytest.raises(RehearsalFailed, match="Without undo: reserve"):
        rehearse(shop.hasty, "o8", ledger=ledger)
