"""A transition on what the caller knows already: it holds only while the run and its step are still so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from celery_saga import Run, saga
from celery_saga.core.ports import Transition
from celery_saga.core.snapshot import Snapshot
from tests.inline.parlour import Parlour
from tests.servers import fresh_mariadb_database, fresh_postgresql_database


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def house(request: pytest.FixtureRequest) -> Iterator[Parlour]:
    if request.param == "sqlite":
        with Parlour("sqlite://") as built:
            yield built
        return
    fresh = fresh_mariadb_database() if request.param == "mariadb" else fresh_postgresql_database("psycopg2")
    with fresh as url, Parlour(url) as built:
        yield built


class Transacted:
    """One transaction on a basis: what it was given, and which statements there were."""

    def __init__(self, house: Parlour, basis: Snapshot) -> None:
        self.given: list[Snapshot] = []
        self.labels: list[str] = []
        house.store.trace = lambda label: self.labels.append(label) if label.startswith("before") else None
        self.transition: Transition | None = house.store.transact(basis.run.id, self._change, basis=basis)
        house.store.trace = None

    def _change(self, s: Snapshot, now: datetime) -> Snapshot:
        self.given.append(s)
        return s.with_step(replace(s.steps["one"], due_at=now + timedelta(seconds=len(self.given))))


@pytest.fixture
def basis(house: Parlour) -> Snapshot:
    @house.task("basis.one")
    def one() -> int:
        return 1

    @saga(name="basis")
    def body(run: Run) -> None:
        run.step(one.si(), name="one")

    house.add(body)
    run = body.start()
    house.claim_next()
    loaded = house.store.load(run.id)
    assert loaded is not None
    return loaded.snapshot


def test_while_nothing_has_moved_nothing_is_loaded(house: Parlour, basis: Snapshot) -> None:
    done = Transacted(house, basis)

    assert done.given == [basis]
    together = house.store.sessions.database.writes_together
    writes = ["before:change rows"] if together else ["before:update run", "before:update step"]
    assert done.labels == ["before:lock version", *writes, "before:commit transact"]
    assert done.transition is not None
    assert done.transition.new.run.state_version == basis.run.state_version + 1
    assert _stored(house, basis) == done.transition.new.steps["one"].due_at


def test_a_run_that_has_moved_is_loaded(house: Parlour, basis: Snapshot) -> None:
    house.engine.cancel(basis.run.id)

    done = Transacted(house, basis)

    assert [s.run.outcome for s in done.given] == ["cancelled"]
    assert _stored(house, basis) is not None


def test_a_step_that_was_renewed_is_loaded(house: Parlour, basis: Snapshot) -> None:
    house.now += timedelta(seconds=1)
    step = basis.steps["one"]
    house.store.renew(basis.run.id, 1, "one", token=step.claim_token or "", lease_s=60)

    done = Transacted(house, basis)

    first, second = done.given
    assert first is basis
    assert second.steps["one"].lease_until != step.lease_until
    assert _stored(house, basis) is not None


def test_a_run_that_is_gone_is_told(house: Parlour, basis: Snapshot) -> None:
    gone = replace(basis, run=replace(basis.run, id="gone"))

    assert Transacted(house, gone).transition is None


def _stored(house: Parlour, basis: Snapshot) -> datetime | None:
    loaded = house.store.load(basis.run.id)
    assert loaded is not None
    return loaded.snapshot.steps["one"].due_at
