"""The database goes away while an inline step is executed, and comes back."""

from __future__ import annotations

import pytest

from celery_saga import Run, saga
from celery_saga.engine.ports import Limits
from celery_saga.errors import StoreUnavailable
from celery_saga.store import open_store
from tests.inline.parlour import Parlour
from tests.scenarios.house import Place
from tests.servers import PrivatePostgres

pytestmark = pytest.mark.servers


class Impatient(Place):
    """A place whose store does not wait for its server."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.store.close()
        self.store = open_store(url, clock=lambda: self.now, patience_s=0.0)


def test_an_outcome_waits_until_the_database_is_back(private_postgres: PrivatePostgres) -> None:
    done: list[str] = []
    place = Impatient(private_postgres.url)
    with Parlour(place, limits=Limits(inline_slice_s=600.0)) as house:
        house.engine = house.another_engine(pause=lambda _: private_postgres.start())

        @house.task("outage.work")
        def work(word: str) -> str:
            done.append(word)
            if word == "b":
                private_postgres.kill()
            return word

        @saga(name="outage", dispatch="inline")
        def outage(run: Run) -> list[str]:
            return [run.step(work.si(word), name=word) for word in ("a", "b", "c")]

        house.add(outage)
        run = outage.start()

        house.drain()

        assert run.refresh().result == ["a", "b", "c"]
    place.store.close()
    assert done == ["a", "b", "c"]
    assert house.sent == ["run"]


def test_a_claim_that_cannot_be_written_executes_nothing(private_postgres: PrivatePostgres) -> None:
    done: list[str] = []
    place = Impatient(private_postgres.url)
    with Parlour(place) as house:

        @house.task("outage.work")
        def work(word: str) -> str:
            done.append(word)
            return word

        @saga(name="outage", dispatch="inline")
        def outage(run: Run) -> str:
            private_postgres.kill()
            return str(run.step(work.si("a"), name="a"))

        house.add(outage)
        outage.start()
        with pytest.raises(StoreUnavailable):
            house.drain()
        private_postgres.start()

        assert done == []
    place.store.close()
