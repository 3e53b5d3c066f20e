"""A client dies around its own transaction: its row and its run, signal or cancel are there together, or neither is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Connection, Engine, MetaData, String, Table, create_engine, delete, insert, select

from celery_saga import Run, Saga, SignalDuplicate, saga
from celery_saga.client import binding
from celery_saga.core.status import RunStatus
from tests.crash.dying import LEASE_S, Died, DyingHouse
from tests.scenarios.house import Place
from tests.servers import fresh_postgresql_database

orders = Table("client_order", MetaData(), Column("word", String(50), primary_key=True))


class Client:
    """Somebody with a connection of their own, on the house's database; dies where the house does."""

    def __init__(self, house: DyingHouse, engine: Engine) -> None:
        self.house = house
        self.engine = engine
        with self.engine.begin() as connection:
            orders.create(connection, checkfirst=True)
            connection.execute(delete(orders))

    def words(self) -> set[str]:
        with self.engine.connect() as connection:
            return set(connection.scalars(select(orders.c.word)))

    def once(self, word: str, also: Callable[[Connection], object]) -> None:
        """Write a row, and do something else, in one transaction; nothing where the row is there."""
        if word in self.words():
            return
        with self.engine.connect() as connection:
            connection.execute(insert(orders).values(word=word))
            also(connection)
            self.house.point("before:clients commit")
            connection.commit()
            self.house.point("after:clients commit")


def _saga(house: DyingHouse) -> Saga[Any, Any]:
    tasks = house.app.tasks

    @saga(name="crash-callers", key="{order}")
    def body(run: Run, order: str) -> str:
        run.step(tasks["crash.reserve"].si(order), undo=tasks["crash.release"].si(order))
        return str(run.wait_signal("approval"))

    return body


def _tell(house: DyingHouse, client: Client, end: RunStatus) -> None:
    """Order and answer, each as often as the process dies; a death leaves no row without its run or request."""
    body = _saga(house)
    house.add(body)
    binding.set_resolver(lambda _saga: house)

    def answer(connection: Connection) -> None:
        run = body.options(connection=connection).find(key="o1")
        if end is RunStatus.CANCELLED:
            run.cancel(reason="changed my mind")
        else:
            with suppress(SignalDuplicate):
                run.signal("approval", "yes", id="only-one")

    run = body.find(key="o1")
    dead = False
    for _ in range(12):
        try:
            if dead:
                house.revive()
            dead = False
            client.once("order", lambda connection: body.options(connection=connection).start("o1"))
            house.drain()
            client.once("answer", answer)
            house.drain()
            house.advance(LEASE_S + 1)
            if run.refresh().status.is_end:
                house.store.trace = None
                return
        except Died:
            dead = True
            trace, house.store.trace = house.store.trace, None
            assert ("order" in client.words()) == (house.store.load(run.id) is not None)
            house.store.trace = trace
    raise AssertionError(f"never ended: {house.labels[-30:]}")


Fresh = Callable[[int | None], tuple[DyingHouse, Client]]


@pytest.fixture(params=["sqlite", "postgresql"])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fresh]:
    with ExitStack() as stack:
        url = f"sqlite:///{tmp_path}/saga.db"
        if request.param == "postgresql":
            url = stack.enter_context(fresh_postgresql_database("psycopg2"))
        place = Place(url)
        stack.callback(place.store.close)
        engine = create_engine(url)
        stack.callback(engine.dispose)

        def make(at: int | None) -> tuple[DyingHouse, Client]:
            house = DyingHouse(place, at=at)
            return house, Client(house, engine)

        yield make


@pytest.mark.timeout(600)
@pytest.mark.parametrize("end", [RunStatus.COMPLETED, RunStatus.CANCELLED])
def test_whatever_dies_where_row_and_run_go_together(fresh: Fresh, end: RunStatus) -> None:
    unharmed, client = fresh(None)
    _tell(unharmed, client, end)
    assert unharmed.store.without_wake_up() == []

    for at in range(unharmed.passed):
        house, client = fresh(at)
        _tell(house, client, end)
        run = house.store.load(_saga(house).run_id("o1"))
        assert run is not None
        assert run.snapshot.run.status is end
        assert client.words() == {"order", "answer"}
        assert house.outside.first() == (["reserve"] if end is RunStatus.COMPLETED else ["reserve", "release"])
        assert house.store.without_wake_up() == []

    assert unharmed.labels.count("after:clients commit") == 2
    assert unharmed.passed > 60
