"""A process whose codec lacks the keys of the others is told so by the check, before it meets a run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from celery_saga import StoreUnavailable
from celery_saga.runtime.checking import check
from celery_saga.runtime.guard import Finding
from celery_saga.store.legible import Legible
from tests.guard.world import findings, make_app
from tests.sealing.keys import FIRST, SECOND, THIRD, Keys, at_rest, lab_with, store_of
from tests.sealing.test_keys import Works


@pytest.fixture
def works() -> Iterator[Works]:
    keys = Keys(FIRST)
    with lab_with(codec=keys) as lab:
        yield Works(lab, keys)


def _found(works: Works) -> dict[str, Finding]:
    return {each.code: each for each in check(works.lab.app) if each.code.startswith("PAYLOADS")}


def test_a_wrong_key_is_told_and_changes_nothing(works: Works) -> None:
    for name in "ab":
        works.start(works.waits, name, 1)
    before = at_rest(store_of(works.lab))
    assert _found(works) == {}

    works.keys.use(SECOND)
    (finding,) = _found(works).values()

    assert (finding.code, finding.level) == ("PAYLOADS_UNREADABLE", "error")
    assert "None of the 2 latest live runs" in finding.sentence
    assert "InvalidToken" in finding.sentence
    assert at_rest(store_of(works.lab)) == before


def test_a_lacking_older_key_is_told_where_only_some_runs_need_it(works: Works) -> None:
    works.start(works.waits, "old", 1)
    works.keys.use(SECOND)
    works.start(works.waits, "new", 1)

    assert "1 of the 2 latest live runs" in _found(works)["PAYLOADS_PARTLY_UNREADABLE"].sentence
    works.keys.use(THIRD, SECOND, FIRST)
    assert _found(works) == {}


def test_a_codec_that_is_not_set_is_told(works: Works) -> None:
    works.start(works.waits, "a", 1)
    store_of(works.lab).vault.codec = None

    assert "none is set here" in _found(works)["PAYLOADS_UNREADABLE"].sentence


def test_ended_runs_are_not_looked_at(works: Works) -> None:
    works.start(works.waits, "a", 1).cancel(compensate=False)
    works.lab.drain()
    works.keys.use(SECOND)

    assert _found(works) == {}


def test_keys_that_are_out_of_reach_are_told_unless_the_database_is() -> None:
    def down() -> Legible:
        raise StoreUnavailable("the key service does not answer")

    for state, told in (("current", True), ("absent", False)):
        found = findings(make_app(), schema_state=lambda state=state: state, legible=down)
        assert ("PAYLOADS_NOT_ASKED" in found) is told
        assert not told or "key service" in found["PAYLOADS_NOT_ASKED"].sentence
