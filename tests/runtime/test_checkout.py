"""A checkout on real workers: prefork over Redis and RabbitMQ, and the other pools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from celery_saga import RunFailed
from tests.runtime.places import Place, place_with

pytestmark = pytest.mark.servers


@pytest.fixture(params=["redis", "rabbitmq"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with place_with(request.param, tmp_path) as found:
        yield found


def test_steps_retries_undos_and_signals_work_on_a_prefork_worker(place: Place) -> None:
    shop = place.shop
    with place.worker():
        assert shop.checkout.start("o1", 500).wait(15) == "ch-500"
        assert shop.checkout.start("o2", 13).wait(15) == "ch-13"
        with pytest.raises(RunFailed) as failed:
            shop.checkout.start("none", 7).wait(15)
        run = shop.approval.start()
        assert run.signal("go", "x") in {"delivered", "kept"}
        assert run.wait(15) == "x"

    assert isinstance(failed.value.cause, shop.OutOfStock)
    assert place.calls() == [
        *("reserve o1", "charge 500 retries 0 args [500] same key True", "dispatch o1"),
        "reserve o2",
        *(f"charge 13 retries {n} args [13] same key True" for n in range(3)),
        "dispatch o2",
        *("reserve none", "charge 7 retries 0 args [7] same key True", "dispatch none"),
        *("refund ch-7 because of OutOfStock", "release r-none"),
        *("reserve a", "dispatch x"),
    ]


def test_the_task_gives_up_after_its_own_max_retries(place: Place) -> None:
    with place.worker():
        run = place.shop.checkout.start("o3", 99)
        with pytest.raises(RunFailed) as failed:
            run.wait(15)

    assert isinstance(failed.value.cause, place.shop.GatewayTimeout)
    assert [line.split()[0] for line in place.calls()] == ["reserve", "charge", "charge", "charge", "release"]


@pytest.mark.parametrize(("pool", "driver"), [("threads", "psycopg2"), ("solo", "psycopg2"), ("gevent", "psycopg")])
def test_every_pool_executes_steps(pool: str, driver: str, tmp_path: Path) -> None:
    with place_with("redis", tmp_path, driver=driver) as place, place.worker(pool=pool):
        assert place.shop.checkout.start("o2", 13).wait(15) == "ch-13"
        with pytest.raises(RunFailed):
            place.shop.checkout.start("none", 7).wait(15)

    assert [line.split()[0] for line in place.calls()] == [
        *("reserve", "charge", "charge", "charge", "dispatch"),
        *("reserve", "charge", "dispatch", "refund", "release"),
    ]
