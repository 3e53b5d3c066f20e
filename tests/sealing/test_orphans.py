"""Objects in the other store that no row names: found where it lists what it keeps, and deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from celery_saga import DefinitionError, InvalidPayload, Run, StoreUnavailable, saga
from celery_saga.testing import Lab
from tests.sealing.keys import FIRST, Keys, Shelf, lab_with

LONG = "long " * 1000
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


class Listed(Shelf):
    """A shelf that tells what it keeps; all of it was put long ago, unless `put_at` says otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.put_at: dict[str, datetime] = {}

    def put_before(self, at: datetime) -> Iterable[str]:
        self._ask("put_before")
        return (each for each in list(self.texts) if self.put_at.get(each, LONG_AGO) < at)


@pytest.fixture
def shelf() -> Listed:
    return Listed()


@pytest.fixture
def lab(shelf: Listed) -> Iterator[Lab]:
    with lab_with(codec=Keys(FIRST), offload=shelf, offload_above=2000) as lab:
        yield lab


def _run_with_long_texts(lab: Lab) -> Any:
    @lab.app.task(name="orphans.grow", shared=False)
    def grow(text: str) -> str:
        return text + text

    @saga(name="orphans.keeps")
    def keeps(run: Run, text: str) -> int:
        grown = run.step(grow.si(text))
        return len(grown) + len(run.wait_signal("said", type=str))

    run = lab.start(keeps, LONG)
    lab.drain()
    return run


def test_what_no_row_names_is_deleted_and_everything_else_is_kept(lab: Lab, shelf: Listed) -> None:
    run = _run_with_long_texts(lab)
    named = set(shelf.texts)
    old, young = shelf.put("orphan"), shelf.put("of a commit that is under way")
    shelf.put_at[young] = lab.app.saga.store.now()

    dry = lab.app.saga.purge_orphans(older_than=timedelta(hours=2), dry_run=True)
    kept = set(shelf.texts)
    done = lab.app.saga.purge_orphans(older_than=timedelta(hours=2))
    again = lab.app.saga.purge_orphans(older_than=timedelta(hours=2))

    assert len(named) >= 3
    assert dry == {"found": 1, "deleted": 0, "dry_run": True} and old in kept
    assert (done["found"], done["deleted"], again["found"]) == (1, 1, 0)
    assert set(shelf.texts) == named | {young}
    run.signal("said", LONG)
    lab.drain()
    assert run.wait(0) == 3 * len(LONG)


@pytest.mark.parametrize("age", [0, 7199, timedelta(minutes=1), None, "1d", datetime(2001, 1, 1)], ids=str)  # noqa: DTZ001
def test_what_may_still_be_committed_is_not_asked_for(lab: Lab, shelf: Listed, age: Any) -> None:
    shelf.put("orphan")

    with pytest.raises(InvalidPayload, match=r"purge_orphans.*older_than=.*nothing was purged"):
        lab.app.saga.purge_orphans(older_than=age)

    assert len(shelf.texts) == 1


def test_a_shelf_that_is_out_of_reach_is_told_as_such(lab: Lab, shelf: Listed) -> None:
    shelf.is_down = True

    with pytest.raises(StoreUnavailable):
        lab.app.saga.purge_orphans(older_than=timedelta(days=1))


@pytest.mark.parametrize("offload", [None, Shelf()], ids=["none", "one that does not list"])
def test_an_offload_that_does_not_list_is_refused(offload: Shelf | None) -> None:
    with lab_with(offload=offload) as lab, pytest.raises(DefinitionError, match=r"saga_offload .*nothing was purged"):
        lab.app.saga.purge_orphans(older_than=timedelta(days=1))
