"""The checkout saga: once per key, flaky and dead gateways, undo in reverse order, approval by a person."""

from __future__ import annotations

from typing import Any

import pytest

from celery_saga import RunFailed
from celery_saga.core.records import Action
from tests.scenarios.house import House
from tests.scenarios.shop import GatewayTimeout, OutOfStock, Shop


def test_a01_the_same_order_twice_is_one_run(house: House, shop: Shop, checkout: Any) -> None:
    first = checkout.start("o1", 500)
    second = checkout.start("o1", 500)

    house.drain()

    assert (first.created, second.created, first.id) == (True, False, second.id)
    assert shop.calls == ["reserve o1", "charge 500", "dispatch o1"]
    assert first.wait(1) == second.wait(1) == {"chargeId": "ch_1"}
    assert [run.id for run in house.store.runs(_everything())] == [first.id]


def test_a02_a_flaky_gateway_is_tried_again_under_one_key(house: House, shop: Shop, checkout: Any) -> None:
    shop.fail["charge"] = 2

    handle = checkout.start("o2", 500)
    house.drain()

    assert shop.calls == ["reserve o2", "charge 500", "charge 500", "charge 500", "dispatch o2"]
    assert handle.status == "completed"
    assert len(shop.gateway) == 1


def test_a03_a_dead_gateway_undoes_what_was_done_and_only_that(house: House, shop: Shop, checkout: Any) -> None:
    shop.fail["charge"] = 99

    handle = checkout.start("o3", 500)
    house.drain()

    assert shop.calls == ["reserve o3", "charge 500", "charge 500", "charge 500", "release o3"]
    with pytest.raises(RunFailed, match="no answer") as caught:
        handle.wait(1)
    assert handle.status == "failed"
    assert isinstance(caught.value.cause, GatewayTimeout)


def test_a04_undos_run_last_in_first_out_and_get_the_result(house: House, shop: Shop, checkout: Any) -> None:
    shop.fail["dispatch"] = 1

    handle = checkout.start("o4", 500)
    house.drain()

    assert shop.calls[-3:] == ["dispatch o4", "refund ch_1", "release o4"]
    with pytest.raises(RunFailed) as caught:
        handle.wait(1)
    assert isinstance(caught.value.cause, OutOfStock)
    assert caught.value.cause.args == ("o4",)


def test_a05_a_run_waits_for_a_person_without_a_worker_and_goes_on(house: House, shop: Shop, checkout: Any) -> None:
    handle = checkout.start("o6", 200_000)
    house.drain()
    waiting = (handle.status, list(shop.calls), house.messages)

    answer = handle.signal("approval", True)
    house.drain()

    assert waiting == ("waiting", ["reserve o6"], [])
    assert answer == "delivered"
    assert handle.refresh().status == "completed"
    assert shop.calls == ["reserve o6", "charge 200000", "dispatch o6"]


def test_a06_another_process_takes_the_run_over(store_url: str) -> None:
    if store_url == "sqlite://":
        pytest.skip("a database in memory has one process")
    with House(store_url) as first:
        shop = Shop(first)
        saga = shop.checkout()
        first.add(saga)
        saga.start("o9", 200_000)
        first.drain()
        assert shop.calls == ["reserve o9"]
        del saga, shop

    with House(store_url, create=False) as second:
        shop = Shop(second)
        saga = shop.checkout()
        second.add(saga)
        handle = saga.find(key="o9")
        handle.signal("approval", True)
        second.drain()

    assert shop.calls == ["charge 200000", "dispatch o9"]


def test_a08_starting_twice_counts_once_at_the_gateway(house: House, shop: Shop, checkout: Any) -> None:
    handle = checkout.start("order-42", 500)
    assert checkout.start("order-42", 500).id == handle.id

    house.drain()

    assert list(shop.gateway.values()) == [1]
    assert list(shop.gateway) == [next(x for x in handle.steps() if x.key == "charge").idempotency_key]


def test_a28_the_history_of_an_undone_run_tells_only_outcomes(house: House, shop: Shop, checkout: Any) -> None:
    shop.fail["dispatch"] = 1

    handle = checkout.start("o5", 500)
    house.drain()

    assert house.actions(handle.id) == ["ok", "ok", "fail", "ok", "ok", "end"]
    assert house.rows(handle.id, Action.END) == 1


def _everything() -> Any:
    from celery_saga.core.ports import RunFilter

    return RunFilter()
