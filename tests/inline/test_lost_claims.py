"""The database crashes while an inline step is executed whose claim was not flushed yet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from celery_saga import Run, current_step, saga
from celery_saga.engine.ports import Limits
from tests.inline.parlour import Parlour
from tests.scenarios.house import Place
from tests.servers import PrivatePostgres

pytestmark = [pytest.mark.servers, pytest.mark.heavy]


@pytest.fixture
def late() -> Iterator[PrivatePostgres]:
    """A server that flushes nothing by itself for ten seconds."""
    with PrivatePostgres(settings={"wal_writer_delay": "10s"}) as server:
        yield server


@pytest.mark.parametrize("has_undo", [False, True], ids=["without_undo", "with_undo"])
def test_a_first_claim_is_lost_with_the_database_only_where_there_is_nothing_to_undo(
    late: PrivatePostgres, has_undo: bool
) -> None:
    keys: list[str] = []
    attempts: list[int] = []
    place = Place(late.url)
    with Parlour(place, limits=Limits(inline_slice_s=600.0, lease_s=30.0)) as house:
        house.engine = house.another_engine(pause=lambda _: late.start())

        @house.task("lost.work")
        def work(word: str) -> str:
            keys.append(current_step.idempotency_key)
            attempts.append(current_step.attempt)
            if len(keys) == 1:
                late.kill()
                late.start()
            return word

        @house.task("lost.back")
        def back(word: str) -> None:
            """Never called."""

        @saga(name="lost", dispatch="inline")
        def lost(run: Run) -> list[str]:
            undo = back if has_undo else None
            return [run.step(work.si(word), name=word, undo=undo) for word in ("a", "b")]

        house.add(lost)
        run = lost.start()
        house.drain()
        steps = [step.status.value for step in house.store.steps(run.id)]
        if not has_undo:
            # What it has done counts no more than that of an attempt which ended unseen.
            assert steps == []
            house.advance(40)

        assert run.refresh().result == ["a", "b"]
        assert house.actions(run.id) == ["ok", "ok", "end"]
    place.store.close()
    first = [key for key in keys if key.endswith(":a")]
    assert len(set(first)) == 1
    assert len(first) == (1 if has_undo else 2)
    assert attempts == [1] * len(keys)
