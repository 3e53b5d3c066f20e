"""A run that is exported and imported is the same run, and a document that was not exported is refused as a whole."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_saga import InvalidPayload, RunExists
from celery_saga.client import export, importing
from celery_saga.core.records import StepKind
from celery_saga.runtime.app import CelerySaga
from celery_saga.store import SqlStore, migrate, open_store
from celery_saga.testing import Lab
from tests.retention import shop
from tests.retention.shop import everything, fails, kept, parent, parks, stays, waits


@pytest.fixture
def operator(lab: Lab) -> CelerySaga:
    return CelerySaga.of(shop.app)


@pytest.fixture
def elsewhere() -> Iterator[SqlStore]:
    """The store of another deployment."""
    store = open_store("sqlite://")
    migrate(store)
    yield store
    store.close()


def moved(document: dict[str, Any], store: SqlStore) -> dict[str, Any] | None:
    """The document of the run that was imported from this one, by way of JSON."""
    found = importing.read(json.loads(json.dumps(document)))
    assert store.import_run(found.run, found.steps, found.history, found.signals)
    return export.exported(store, found.run.id)


def test_a27_an_export_has_run_history_and_signals_and_changes_nothing(lab: Lab, operator: CelerySaga) -> None:
    run = lab.start(waits, "o1")
    lab.drain()
    run.signal("other", {"a": 1}, id="s1")
    before = operator.store.load(run.id)
    lab.advance(5)

    document = operator.export(run.id)

    after = operator.store.load(run.id)
    assert document is not None and before is not None and after is not None
    assert document["run"]["updated_at"] == before.snapshot.run.updated_at.isoformat()
    assert after.snapshot == before.snapshot
    assert [row["step"] for row in document["history"]] == ["book"]
    assert [(signal["id"], signal["name"], signal["value"]) for signal in document["signals"]] == [
        (1, "other", {"a": 1})
    ]
    assert document == run.export() == json.loads(json.dumps(document))
    assert operator.export("11111111-1111-1111-1111-111111111111") is None
    assert "claim_token" not in json.dumps(document)


def test_a_run_with_a_step_of_each_kind_comes_back_as_it_was(lab: Lab, operator: CelerySaga, elsewhere: Any) -> None:
    run = lab.start(everything, "o1")
    lab.drain()
    operator.chord(run.id, ["go"])(shop.book.si("chord"))
    lab.advance(1)
    lab.drain()
    run.signal("go", "anna")
    lab.drain()
    assert run.status.value == "completed"
    run.compensate(reason="to see undos", by="anna")
    lab.drain()
    document = operator.export(run.id)

    assert document is not None
    kinds = {step["kind"] for step in document["steps"]}
    assert kinds >= {kind.value for kind in StepKind} - {"rollback"}
    assert moved(document, elsewhere) == document


@pytest.mark.parametrize("body", [kept, fails, stays, parks], ids=lambda body: body.name)
def test_a_run_that_has_ended_or_is_parked_comes_back_as_it_was(
    lab: Lab, operator: CelerySaga, elsewhere: SqlStore, body: Any
) -> None:
    run = lab.start(body, "o1")
    lab.drain()
    if run.status.value == "failed":
        run.retry(reason="again", by="anna")  # a second generation
        lab.drain()
    document = operator.export(run.id)

    assert document is not None
    assert moved(document, elsewhere) == document
    assert elsewhere.pick_due(limit=10, hold_s=1) == []


def test_parents_and_children_are_imported_each_by_itself(lab: Lab, operator: CelerySaga, elsewhere: SqlStore) -> None:
    lab.start(parent, "o1", 1)
    lab.drain()
    documents = [operator.export(run.id) for run in operator.runs()]

    assert [moved(document, elsewhere) for document in documents if document] == documents
    assert len(documents) == 3


def test_an_imported_run_that_is_parked_does_nothing_until_it_is_resumed(lab: Lab, operator: CelerySaga) -> None:
    run = lab.start(waits, "o1")
    lab.drain()
    run.suspend(reason="to look at", by="anna")
    document = operator.export(run.id)
    _forget(operator.store, run.id)

    imported = operator.import_run(document or {})
    lab.advance(100 * 86400)

    assert (imported.id, imported.created, imported.status.value) == (run.id, True, "suspended")
    assert operator.export(run.id) == document
    imported.resume()
    imported.signal("go", 5)
    lab.drain()
    assert imported.refresh().result == 5


def test_an_imported_run_of_a_lane_is_let_in_when_it_is_resumed(lab: Lab, operator: CelerySaga) -> None:
    run = lab.start(waits.options(lane="slow"), "o1")
    lab.drain()
    run.suspend()
    lab.drain()
    document = operator.export(run.id) or {}
    _forget(operator.store, run.id)

    imported = operator.import_run(document)
    imported.resume()
    imported.signal("go", 5)
    lab.drain()

    assert operator.export(run.id) != document
    assert imported.refresh().result == 5


def test_what_is_there_or_was_purged_but_for_its_key_is_left_alone(lab: Lab, operator: CelerySaga) -> None:
    run = lab.start(kept, "o1")
    lab.drain()
    lab.advance(10)
    document = operator.export(run.id) or {}

    with pytest.raises(RunExists):
        operator.import_run(document)
    assert operator.export(run.id) == document

    operator.purge(older_than=1)
    with pytest.raises(RunExists, match="nothing was written"):
        operator.import_run(document)
    assert [found.id for found in operator.runs(purged=True)] == [run.id]


# -- refused --------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def exported() -> dict[str, Any]:
    """A document with steps, history and signals of a run that is not there."""
    with Lab(shop.app) as lab:
        run = lab.start(fails, "o1")
        run.signal("other", 1)
        lab.drain()
        return run.export()


@pytest.fixture
def good(exported: dict[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(exported)


def _forget(store: SqlStore, run_id: str) -> None:
    with store.sessions.engine.begin() as connection:
        for table, column in (*((name, "run_id") for name in ("history", "signal", "step", "slot")), ("run", "id")):
            connection.exec_driver_sql(f"DELETE FROM saga_{table} WHERE {column} = '{run_id}'")  # noqa: S608


WRONG: dict[str, tuple[str, Any]] = {
    "format": ("format", "celery_saga/2"),
    "run": ("run", []),
    "run.id": ("run.id", ""),
    "run.id too long": ("run.id", "x" * 65),
    "run.saga": ("run.saga", 5),
    "run.saga NUL": ("run.saga", "a\0b"),
    "run.status live": ("run.status", "waiting"),
    "run.status": ("run.status", "over"),
    "run.version": ("run.version", 0),
    "run.priority": ("run.priority", True),
    "run.created_at": ("run.created_at", "2026-01-01T00:00:00"),
    "run.ended_at": ("run.ended_at", None),
    "run.wake_at": ("run.wake_at", "2026-01-01T00:00:00+00:00"),
    "run.purged_at": ("run.purged_at", "2026-01-01T00:00:00+00:00"),
    "run.input": ("run.input", [1]),
    "run.input tag": ("run.input", {"a": {"$unknown": 1}}),
    "run.input surrogate": ("run.input", {"a": "\ud800"}),
    "run.input nan": ("run.input", {"a": float("nan")}),
    "run.spec": ("run.spec", {"on_failure": 5}),
    "run.spec unknown": ("run.spec", {"on_sunday": "rest"}),
    "run.tags": ("run.tags", [""]),
    "run.error": ("run.error", {"type": "x"}),
    "run.history_seq": ("run.history_seq", 99),
    "run.admission": ("run.admission", "perhaps"),
    "run.admission queued": ("run.admission", "asked"),
    "run.admission let in": ("run.admission", "held"),
    "run.admission beside its lane": ("run.lane", "bank"),
    "run.outcome": ("run.outcome", "waiting"),
    "steps": ("steps", {}),
    "steps[0].run_id": ("steps[0].run_id", "other"),
    "steps[0].key": ("steps[0].key", ""),
    "steps[0].status": ("steps[0].status", "running"),
    "steps[1].status": ("steps[1].status", "scheduled"),
    "steps[0].wake_at": ("steps[0].wake_at", "2026-01-01T00:00:00+00:00"),
    "steps[0].generation": ("steps[0].generation", 7),
    "steps[0].seq": ("steps[0].seq", 1000),
    "steps[0].args": ("steps[0].args", [[]]),
    "steps[0].spec": ("steps[0].spec", {"undo": {"call": {"task": 5}}}),
    "history[1].seq": ("history[1].seq", 7),
    "history[0].action": ("history[0].action", "dance"),
    "signals[0].id": ("signals[0].id", 2),
    "signals[0].name": ("signals[0].name", "!cancel"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_document_is_refused_with_the_path(good: dict[str, Any], name: str) -> None:
    path, value = WRONG[name]
    _set(good, path, value)

    with pytest.raises(InvalidPayload, match="nothing was written") as caught:
        importing.read(good)

    assert caught.value.path == ("run.admission" if path == "run.lane" else path)


@pytest.mark.parametrize("document", [None, [], "x", {}, {"run": {}}], ids=repr)
def test_what_is_no_document_is_refused(document: Any) -> None:
    with pytest.raises(InvalidPayload, match="nothing was written"):
        importing.read(document)


def test_a_part_twice_is_refused_and_nothing_is_written(operator: CelerySaga, good: dict[str, Any]) -> None:
    for name in ("steps", "history", "signals"):
        twice = copy.deepcopy(good)
        twice[name].append(twice[name][0])
        with pytest.raises(InvalidPayload):
            operator.import_run(twice)
    assert len(operator.runs()) == 0
    assert operator.import_run(good).status.value == "failed"


SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_whatever_is_done_to_a_document_it_is_taken_or_refused(exported: dict[str, Any], data: st.DataObject) -> None:
    document = copy.deepcopy(exported)
    for _ in range(data.draw(st.integers(1, 3))):
        _mutate(document, data)

    try:
        found = importing.read(document)
    except InvalidPayload as error:
        assert "nothing was written" in str(error)
        return
    store = open_store("sqlite://")
    try:
        migrate(store)
        assert store.import_run(found.run, found.steps, found.history, found.signals)
        assert export.exported(store, found.run.id) == export.document(
            found.run, found.steps, found.history, found.signals
        )
        assert store.pick_due(limit=10, hold_s=1) == [] or found.signals
    finally:
        store.close()


def _mutate(document: Any, data: st.DataObject) -> None:
    """Change, take out or add one part, at any depth."""
    at: Any = document
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        if isinstance(at[key], dict | list) and at[key] and data.draw(st.integers(0, 4)):
            at = at[key]
            continue
        what = data.draw(st.sampled_from(["set", "set", "delete", "add"]))
        if what == "delete":
            del at[key]
        elif what == "add" and isinstance(at, dict):
            at[data.draw(st.text(max_size=3))] = data.draw(VALUES)
        else:
            at[key] = data.draw(VALUES)
        return


def _set(document: Any, path: str, value: Any) -> None:
    *way, last = path.replace("[", ".[").split(".")
    for name in way:
        document = document[int(name[1:-1])] if name.startswith("[") else document[name]
    document[last] = value
