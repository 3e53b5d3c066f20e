"""`reencrypt`: everything is under the new key afterwards, and nothing else has changed."""

from __future__ import annotations

from typing import Any

import pytest

from celery_saga import DefinitionError
from celery_saga.store import SqlStore
from celery_saga.store.resealing import reseal, tables_to_reseal
from tests.sealing.keys import FIRST, SECOND, Keys, Shelf, lab_with, store_of, where
from tests.sealing.test_keys import Works
from tests.sealing.test_offload import LONG
from tests.sealing.test_offload import Works as LongWorks


def _all(store: SqlStore, *, limit: int) -> tuple[int, int]:
    texts = unreadable = 0
    for table in tables_to_reseal(store):
        after: tuple[Any, ...] | None = None
        while True:
            done = reseal(store, table, after, limit=limit)
            texts, unreadable, after = texts + done.texts, unreadable + done.unreadable, done.after
            if after is None:
                break
    return texts, unreadable


@pytest.mark.parametrize("limit", [1, 2, 1000])
def test_the_old_key_is_not_needed_any_more(limit: int) -> None:
    keys = Keys(FIRST)
    with lab_with(codec=keys) as lab:
        works = Works(lab, keys)
        run, nested = works.start(works.waits, "a", 1), works.start(works.nested, 5)
        keys.use(SECOND, FIRST)

        texts, unreadable = _all(store_of(lab), limit=limit)
        keys.use(SECOND)
        run.signal("go", 7)
        lab.get(nested.steps()[0].task_id or "").signal("go", 6)
        lab.drain()

        assert texts > 10 and unreadable == 0
        assert run.refresh().wait(0) == [2, 7, 4, 14]
        assert nested.refresh().wait(0) == [10, 6, 20, 12]


def test_what_was_in_clear_is_sealed_and_what_cannot_be_read_is_left() -> None:
    keys = Keys(FIRST)
    with lab_with() as lab:
        works = Works(lab, keys)
        run = works.start(works.waits, "a", 417_417)
        with pytest.raises(DefinitionError, match="saga_codec"):
            _all(store_of(lab), limit=10)
        assert where(store_of(lab), "417417")
        store_of(lab).vault.codec = keys

        _all(store_of(lab), limit=10)

        assert where(store_of(lab), "417417") == set()
        keys.use(SECOND)
        texts, unreadable = _all(store_of(lab), limit=10)
        assert texts == 0 and unreadable > 3
        keys.use(FIRST)
        run.signal("go", 1)
        lab.drain()
        assert run.refresh().status == "completed"


def test_what_is_elsewhere_is_sealed_anew_and_the_old_object_goes() -> None:
    keys, shelf = Keys(FIRST), Shelf()
    with lab_with(codec=keys, offload=shelf, offload_above=2000) as lab:
        works = LongWorks(lab, shelf)
        run = works.start(works.long_texts, "a", LONG)
        before = set(shelf.texts)
        keys.use(SECOND, FIRST)

        _all(store_of(lab), limit=10)
        keys.use(SECOND)
        store_of(lab).vault._kept.clear()
        run.signal("said", LONG)
        lab.drain()

        assert run.refresh().status == "completed"
        assert not before & set(shelf.texts)
        assert works.held == set(shelf.texts)


def test_a_text_that_was_written_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, shelf = Keys(FIRST), Shelf()
    with lab_with(codec=keys, offload=shelf, offload_above=2000) as lab:
        works = LongWorks(lab, shelf)
        run = works.start(works.turning, LONG, 0)
        store = store_of(lab)
        write = store.own_sessions.write

        def late(name: str, work: Any, **options: Any) -> Any:
            if name == "reseal":
                with store.own_sessions.engine.begin() as connection:
                    connection.exec_driver_sql('UPDATE saga_run SET input_text = \'{"text":"n","turns":0}\'')
            return write(name, work, **options)

        monkeypatch.setattr(store.own_sessions, "write", late)
        reseal(store, "saga_run", None, limit=10)

        found = store.load(run.id)
        assert found is not None
        assert found.snapshot.run.input == {"text": "n", "turns": 0}
        assert len(shelf.texts) == 1  # what was put for nothing is gone again
