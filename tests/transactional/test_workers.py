"""Transactional steps on real workers: prefork over Redis and RabbitMQ."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, select

from celery_saga import RunFailed
from tests.runtime.places import Place, place_with
from tests.transactional.bank import ledger

pytestmark = pytest.mark.servers

TILL = "tests.transactional.till"


@pytest.fixture(params=[("redis", "psycopg2"), ("rabbitmq", "psycopg")], ids=["redis", "rabbitmq"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    broker, driver = request.param
    with place_with(broker, tmp_path, driver=driver, module=TILL) as found:
        engine = create_engine(found.settings["saga_database_url"])
        with engine.begin() as connection:
            ledger.create(connection)
        engine.dispose()
        yield found


def words(place: Place) -> list[str]:
    engine = create_engine(place.settings["saga_database_url"])
    with engine.connect() as connection:
        found = list(connection.scalars(select(ledger.c.word).order_by(ledger.c.id)))
    engine.dispose()
    return found


def test_the_row_is_there_once_although_the_first_process_died_after_writing_it(place: Place) -> None:
    with place.worker():
        assert place.shop.sale.start("calm").wait(20) == "calm"
        assert place.shop.sale.start("killed", "dies").wait(30) == "killed"

    assert words(place) == ["calm", "killed"]
    assert place.calls() == ["pay calm 1", "note calm", "pay killed 1", "pay killed 2", "note killed"]


def test_a_soft_time_limit_leaves_nothing_and_no_doubt(place: Place) -> None:
    with place.worker():
        run = place.shop.slow_sale.start("late")
        with pytest.raises(RunFailed):
            run.wait(20)

    assert words(place) == []
    assert [step.maybe for step in run.steps()] == [False]


def test_a_long_task_keeps_its_lease_by_renewal(place: Place) -> None:
    with place.worker():
        assert place.shop.sale.start("long", "sleeps").wait(20) == "long"

    assert words(place) == ["long"]
    assert place.calls() == ["pay long 1", "note long"]


def test_between_inline_steps_it_is_a_message_of_its_own(place: Place) -> None:
    with place.worker():
        run = place.shop.inline_sale.start("mixed")
        assert run.wait(20) == "mixed"

    assert words(place) == ["mixed"]
    assert place.calls() == ["note before", "pay mixed 1", "note after", "note last"]
    assert [step.attempt for step in run.steps()] == [1, 1, 1, 1]
