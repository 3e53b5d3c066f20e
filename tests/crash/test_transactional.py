"""A transactional step dies before and after every statement and commit: its row is there exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, delete, insert, select

from celery_saga import Run, Saga, current_step, saga
from celery_saga.client import binding
from celery_saga.client.current import StepContext, enter
from celery_saga.core import attempts, codec
from celery_saga.core.attempts import Succeeded
from celery_saga.core.orders import StepSpec
from celery_saga.core.ports import Claimed
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunStatus, StepStatus
from celery_saga.engine import transactional
from tests.crash.dying import LEASE_S, Died, DyingHouse
from tests.scenarios.house import Place
from tests.scenarios.shop import OutOfStock
from tests.servers import fresh_postgresql_database

effects = Table(
    "effect", MetaData(), Column("id", Integer, primary_key=True), Column("word", String(50), nullable=False)
)


class LedgerHouse(DyingHouse):
    """A dying house with a table of effects in the saga database."""

    def __init__(self, place: Place, *, at: int | None = None) -> None:
        with place.store.own_sessions.engine.begin() as connection:
            effects.create(connection, checkfirst=True)
            connection.execute(delete(effects))
        super().__init__(place, at=at)

        @self.task("crash.tx_pay")
        def pay() -> str:
            return self.write("paid")

        @self.task("crash.tx_pay_back")
        def pay_back(word: str) -> str:
            return self.write("paid back")

    def write(self, word: str) -> str:
        """The effect: a row, through the step's connection."""
        self.point(f"before:write {word}")
        current_step.connection.execute(insert(effects).values(word=word))
        self.point(f"after:write {word}")
        return word

    def rows(self) -> list[str]:  # type: ignore[override]
        """The effects, in order."""
        with self.store.own_sessions.engine.connect() as connection:
            return list(connection.scalars(select(effects.c.word).order_by(effects.c.id)))

    def finish(self, claimed: Claimed) -> bool:
        if not StepSpec.from_text(claimed.step.spec_text).transactional:
            return super().finish(claimed)
        step, run = claimed.step, claimed.snapshot.run

        def task(connection: Any) -> Succeeded:
            context = StepContext(
                run.id, run.key, step.key, step.attempt, step.idempotency_key, connection_of=lambda: connection
            )
            with enter(context):
                return Succeeded(codec.encode(self.app.tasks[step.task].run(*step.args, **step.kwargs)))

        world = self.engine.world
        done = transactional.execute(world, claimed, task, self.store.step_transaction)
        self.landed.append((step.key, step.attempt, done is not None))
        if done is not None:
            transactional.follow(world, done)
        return done is not None


def _saga(house: LedgerHouse) -> Saga[Any, Any]:
    tasks = house.app.tasks

    @saga(name="crash-transactional", key="{order}", errors=[OutOfStock])
    def body(run: Run, order: str) -> str:
        run.step(tasks["crash.reserve"].si(order), undo=tasks["crash.release"].si(order))
        word: str = run.step(tasks["crash.tx_pay"].si(), undo=tasks["crash.tx_pay_back"].s(), transactional=True)
        run.step(tasks["crash.dispatch"].si(order))
        return word

    return body


def _tell(house: LedgerHouse, order: str) -> str:
    body = _saga(house)
    house.add(body)
    binding.set_resolver(lambda _saga: house)
    dead = False
    for _ in range(12):
        try:
            if dead:
                house.revive()
            dead = False
            run_id = body.start(order).id
            house.drain()
            loaded = house.store.load(run_id)
            if loaded is not None and loaded.snapshot.run.status.is_end:
                house.store.trace = None
                return run_id
            house.advance(LEASE_S + 1)
        except Died:
            dead = True
    raise AssertionError(f"never ended: {house.labels[-30:]}")


ORDERS = {"fine": (RunStatus.COMPLETED, ["paid"]), "none-left": (RunStatus.FAILED, ["paid", "paid back"])}


def _check(house: LedgerHouse, run_id: str, order: str) -> None:
    status, rows = ORDERS[order]
    loaded = house.store.load(run_id)
    assert loaded is not None
    assert loaded.snapshot.run.status is status
    assert house.rows() == rows
    for key in loaded.snapshot.steps:
        assert sum(success for name, _, success in house.landed if name == key) <= 1
    assert house.store.without_wake_up() == []


Fresh = Callable[[int | None], LedgerHouse]


@pytest.fixture(params=["sqlite", "postgresql"])
def fresh(request: pytest.FixtureRequest) -> Iterator[Fresh]:
    with ExitStack() as stack:
        url = "sqlite://"
        if request.param == "postgresql":
            url = stack.enter_context(fresh_postgresql_database("psycopg2"))
        place = Place(url)
        stack.callback(place.store.close)
        yield lambda at: LedgerHouse(place, at=at)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("order", sorted(ORDERS))
def test_whatever_dies_where_each_row_is_there_exactly_once(fresh: Fresh, order: str) -> None:
    unharmed = fresh(None)
    _check(unharmed, _tell(unharmed, order), order)

    deaths = 0
    for at in range(unharmed.passed):
        house = fresh(at)
        _check(house, _tell(house, order), order)
        deaths += house.deaths

    assert deaths == unharmed.passed
    assert any(label == "after:commit step" for label in unharmed.labels)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("half_way", [False, True], ids=["others finish", "others begin"])
@pytest.mark.parametrize("order", sorted(ORDERS))
def test_whoever_is_stopped_inside_the_transaction_leaves_no_second_row(
    postgresql_url: str, order: str, half_way: bool
) -> None:
    place = Place(postgresql_url)
    unharmed = LedgerHouse(place)
    _tell(unharmed, order)

    inside = {f"{when}:write {word}" for when in ("before", "after") for word in ORDERS[order][1]}
    points = [number for number, label in enumerate(unharmed.labels, start=1) if label in inside]
    for stop_at in points:
        house = LedgerHouse(place)
        house.stop_at, house.half_way = stop_at, half_way
        _check(house, _tell(house, order), order)

    place.store.close()
    assert len(points) == 2 * len(ORDERS[order][1])


def test_the_sweep_fails_without_the_fence(postgresql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = attempts.check_in

    def check_in(s: Snapshot, key: str, token: str, *rest: Any) -> Snapshot:
        running = replace(s.steps[key], status=StepStatus.RUNNING)
        return real(s.with_step(running), key, running.claim_token or token, *rest)

    monkeypatch.setattr(attempts, "check_in", check_in)

    with pytest.raises(AssertionError):
        test_whoever_is_stopped_inside_the_transaction_leaves_no_second_row(postgresql_url, "fine", half_way=False)
