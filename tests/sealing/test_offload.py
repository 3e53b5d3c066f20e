"""Long payloads in another store: put and fetched outside of transactions, waited for, missed, forgotten."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from celery_saga import CelerySaga, DefinitionError, PayloadTooLarge, PayloadUnreadable, Run, StoreUnavailable, saga
from celery_saga.core.ports import RunFilter
from celery_saga.store import Offload, migrate, open_store
from celery_saga.store.offloaded import forget, references
from celery_saga.store.session import GuardMissed, Tx
from celery_saga.store.vault import Vault
from celery_saga.testing import Lab
from celery_saga.testing.samples import a_run
from tests.sealing.keys import FIRST, Keys, Shelf, at_rest, lab_with, store_of

LONG = "long " * 1000


class Works:
    """A laboratory with a shelf for what is above 2,000 bytes."""

    def __init__(self, lab: Lab, shelf: Shelf) -> None:
        self.lab, self.shelf = lab, shelf

        @lab.app.task(name="offload.grow", shared=False)
        def grow(text: str, number: int) -> str:
            return f"{number}{text}"

        @lab.app.task(name="offload.shrink", shared=False)
        def shrink(text: str) -> int:
            return len(text)

        self.grow, self.shrink = grow, shrink

        @saga(name="long_texts", key="{key}")
        def long_texts(run: Run, key: str, text: str) -> int:
            grown = run.step(grow.si(text, 1), undo=shrink)
            said = run.wait_signal("said", type=str)
            parts = run.group(grow.si(grown, 2), grow.si(said, 3))
            return sum(run.step(shrink.si(part), name=f"shrink{number}") for number, part in enumerate(parts))

        @saga(name="turning")
        def turning(run: Run, text: str, turns: int) -> int:
            run.step(shrink.si("short"))
            if turns:
                run.continue_as_new(text + str(turns), turns - 1)
            return len(text)

        self.long_texts, self.turning = long_texts, turning

    def start(self, body: Any, *args: Any) -> Any:
        run = self.lab.start(body, *args)
        self.lab.drain()
        return run

    @property
    def held(self) -> set[str]:
        """References in the tables."""
        values = (value for column in at_rest(store_of(self.lab)).values() for value in column)
        return {value[4:] for value in values if value.startswith("!a1:")}


@pytest.fixture(params=[True, False], ids=["sealed", "clear"])
def works(request: pytest.FixtureRequest) -> Iterator[Works]:
    shelf = Shelf()
    codec = Keys(FIRST) if request.param else None
    with lab_with(codec=codec, offload=shelf, offload_above=2000) as lab:
        yield Works(lab, shelf)


def test_long_texts_are_elsewhere_and_come_back(works: Works) -> None:
    run = works.start(works.long_texts, "a", LONG)
    run.signal("said", LONG)
    works.lab.drain()

    assert run.refresh().wait(0) == 2 * len(LONG) + 3
    assert not any(len(value) > 2000 for column in at_rest(store_of(works.lab)).values() for value in column)
    assert works.held == set(works.shelf.texts)


def test_short_texts_stay_in_their_columns(works: Works) -> None:
    run = works.start(works.long_texts, "a", "short")
    run.signal("said", "short")
    works.lab.drain()

    assert run.refresh().wait(0) == 13
    assert works.shelf.texts == {}


def test_nothing_is_put_or_fetched_inside_a_transaction(works: Works) -> None:
    """A slow store must hold no lock of ours."""
    open_now: list[str] = []
    during: list[tuple[str, str]] = []
    store = store_of(works.lab)
    once = store.own_sessions._once

    def watched(name: str, *args: Any, **options: Any) -> Any:
        open_now.append(name)
        try:
            return once(name, *args, **options)
        finally:
            open_now.pop()

    store.own_sessions._once = watched  # type: ignore[method-assign]
    asked: list[str] = []

    def seen(what: str) -> None:
        asked.append(what)
        during.extend((what, name) for name in open_now)

    works.shelf.seen = seen
    run = works.start(works.long_texts, "a", LONG)
    run.signal("said", LONG)
    store.vault._kept.clear()
    works.lab.drain()

    assert run.refresh().wait(0) == 2 * len(LONG) + 3
    assert {"put", "get"} <= set(asked)
    assert during == []


def test_a_transaction_that_is_done_again_puts_nothing_twice(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    missed: list[str] = []
    end = Tx.end

    def sometimes(tx: Tx, name: str) -> None:
        if name == "transact":
            missed.append(name)
            if len(missed) % 2:
                raise GuardMissed("by the test")
        end(tx, name)

    monkeypatch.setattr(Tx, "end", sometimes)
    run = works.start(works.long_texts, "a", LONG)
    run.signal("said", LONG)
    works.lab.drain()

    assert run.refresh().wait(0) == 2 * len(LONG) + 3
    assert len(missed) > 4
    assert works.held == set(works.shelf.texts)


def test_an_input_that_is_replaced_leaves_nothing_behind(works: Works) -> None:
    run = works.start(works.turning, LONG, 5)

    assert run.refresh().wait(0) == len(LONG) + 5
    assert len(works.shelf.texts) == 1
    assert works.held == set(works.shelf.texts)


def test_while_it_is_out_of_reach_runs_wait(works: Works, caplog: pytest.LogCaptureFixture) -> None:
    run = works.start(works.long_texts, "a", LONG)
    works.shelf.is_down = True
    store_of(works.lab).vault._kept.clear()
    with pytest.raises(StoreUnavailable, match="saga_offload"):
        works.lab.start(works.long_texts, "b", LONG)
    with pytest.raises(StoreUnavailable), caplog.at_level(logging.WARNING):
        run.signal("said", "short")
    assert [each.id for each in store_of(works.lab).runs(RunFilter())] == [run.id]

    works.shelf.is_down = False
    run.signal("said", LONG)
    works.lab.advance(120)

    assert run.refresh().status == "completed"


def test_a_missing_object_parks_the_run_until_it_is_back(works: Works) -> None:
    run = works.start(works.long_texts, "a", LONG)
    kept = dict(works.shelf.texts)
    works.shelf.texts.clear()
    store_of(works.lab).vault._kept.clear()

    with pytest.raises(PayloadUnreadable):
        run.signal("said", "short")
    assert run.refresh().status == "waiting"
    works.lab.engine.coordinate(run.id)
    found = store_of(works.lab).load(run.id)
    assert found is not None
    assert (found.snapshot.run.status, found.snapshot.run.reason) == ("suspended", "unreadable")
    assert "saga_offload does not have it" in (found.unreadable or "")
    with pytest.raises(PayloadUnreadable):
        run.resume()

    works.shelf.texts.update(kept)
    run.signal("said", "short")
    run.resume()
    works.lab.drain()
    assert run.refresh().status == "completed"


def test_what_runs_hold_elsewhere_is_found_and_forgotten(works: Works) -> None:
    """What a purge calls: the references before the rows are gone, the objects after."""
    first, second = works.start(works.long_texts, "a", LONG), works.start(works.long_texts, "b", LONG)
    store = store_of(works.lab)

    found = references(store, [first.id])
    assert set(found) | set(references(store, [second.id])) == works.held
    forget(store, found)
    forget(store, found)  # again: nothing is there, nothing is wrong

    assert set(works.shelf.texts) == set(references(store, [second.id]))


def test_the_limit_of_payloads_is_that_of_the_value_as_it_is_given(works: Works) -> None:
    with pytest.raises(PayloadTooLarge):
        works.lab.start(works.long_texts, "a", "x" * 1_100_000)
    assert works.shelf.texts == {}


def test_a_run_of_the_caller_is_put_at_once(tmp_path: Any) -> None:
    """On a caller's connection there is no other moment; a rollback leaves the object behind, and no reference."""
    shelf = Shelf()
    assert isinstance(shelf, Offload)
    store = open_store(f"sqlite:///{tmp_path}/saga.db", vault=Vault(None, shelf, offload_above=2000))
    migrate(store)
    try:
        with store.own_sessions.engine.begin() as connection:
            store.joined(connection).insert_run(a_run(id="theirs", input_text=f'{{"text":"{LONG}"}}'))
        found = store.load("theirs")
        assert found is not None
        assert found.snapshot.run.input == {"text": LONG}
        assert len(shelf.texts) == 1
    finally:
        store.close()


def test_hooks_that_cannot_be_had_are_refused_by_name() -> None:
    with pytest.raises(DefinitionError, match=r"saga_codec: .* has no method encode\(\)"), lab_with(codec=object()):
        pass
    with (
        pytest.raises(DefinitionError, match=r"saga_offload: 'nowhere\.at_all' cannot be had"),
        lab_with(offload="nowhere.at_all"),
    ):
        pass


def test_a_purge_deletes_what_its_runs_have_held_and_nothing_else(works: Works) -> None:
    gone, stays = (works.start(works.long_texts, key, LONG) for key in ("a", "b"))
    gone.signal("said", LONG)
    works.lab.drain()
    works.lab.advance(100)
    operator = CelerySaga.of(works.lab.app)
    held = set(references(store_of(works.lab), [stays.id]))
    assert held < works.held == set(works.shelf.texts)

    assert operator.purge(older_than=1, dry_run=True)["matched"] == 1
    assert works.held == set(works.shelf.texts)
    assert operator.purge(older_than=1)["deleted"] == 1

    assert works.held == set(works.shelf.texts) == held
    assert stays.steps()[0].result
