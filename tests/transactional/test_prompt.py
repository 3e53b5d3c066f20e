"""When a run that a caller's transaction started is taken up: at once, or by a sweeper if the caller is gone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from celery_saga import Run, saga
from celery_saga.core.ports import RunFilter
from tests.runtime.places import Place, place_with
from tests.scenarios.house import House
from tests.scenarios.house import Place as HousePlace
from tests.transactional.bank import ledger, write
from tests.workers import ROOT

TILL = "tests.transactional.till"

DIES_AFTER_ITS_COMMIT = """
import os, sys
from sqlalchemy import create_engine, event
from tests.transactional import till
from tests.transactional.bank import write

till.app.saga.services.publisher.publish = lambda messages: os._exit(7)  # right after the commit, before any message
engine = create_engine(till.settings["saga_database_url"])
with engine.begin() as connection:
    write(connection, "order")
    till.sale.options(connection=connection).start("orphan")
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with place_with("redis", tmp_path, module=TILL) as found:
        engine = create_engine(found.settings["saga_database_url"])
        with engine.begin() as connection:
            ledger.create(connection)
        engine.dispose()
        yield found


@pytest.mark.servers
def test_a_worker_takes_it_up_right_after_the_commit(tmp_path: Path) -> None:
    with place_with("redis", tmp_path, module=TILL, saga_lease=60.0) as place:
        engine = create_engine(place.settings["saga_database_url"])
        with engine.begin() as connection:
            ledger.create(connection)
        with place.worker():
            place.shop.sale.start("warm").wait(20)
            with engine.begin() as connection:
                write(connection, "order")
                run = place.shop.sale.options(connection=connection).start("prompt")
            begun_s = time.monotonic()
            assert run.wait(20) == "prompt"
        engine.dispose()

    assert time.monotonic() - begun_s < 15  # a sweeper would take it up after a lease of 60 s


@pytest.mark.servers
def test_a_sweeper_takes_it_up_where_the_caller_died_after_its_commit(place: Place) -> None:
    dead = subprocess.run(
        [sys.executable, "-c", DIES_AFTER_ITS_COMMIT],
        cwd=ROOT,
        env={**os.environ, **place.environment, "PYTHONPATH": str(ROOT)},
        timeout=60,
        check=False,
    )
    (orphan,) = place.shop.app.saga.store.runs(RunFilter())

    with place.worker():
        assert place.shop.sale.get(orphan.id).wait(30) == "orphan"

    assert dead.returncode == 7


def test_a_signal_and_a_cancel_are_looked_at_by_a_sweeper_too(postgresql_url: str) -> None:
    engine = create_engine(postgresql_url)
    house_place = HousePlace(postgresql_url)
    with House(house_place) as house:

        @saga(name="tx-swept", key="{order}")
        def body(run: Run, order: str) -> str:
            return str(run.wait_signal("go"))

        house.add(body)
        runs = [body.start("answered"), body.start("cancelled")]
        house.drain()
        with engine.begin() as connection:
            inside = body.options(connection=connection)
            inside.get(runs[0].id).signal("go", "yes")
            inside.get(runs[1].id).cancel()
        house.messages.clear()  # lost

        house.advance(house.engine.limits.lease_s + 1)

        assert [run.refresh().status for run in runs] == ["completed", "cancelled"]
    engine.dispose()
    house_place.store.close()
