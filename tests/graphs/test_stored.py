"""A graph is stored with its first run: workers that never saw it follow it, and no other takes its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from celery_saga import DefinitionError, Run, RunFailed, Saga, StoreUnavailable, saga
from celery_saga.core.ports import RunFilter
from celery_saga.definition import declared
from celery_saga.definition.registry import Registry
from celery_saga.engine.versions import versions
from tests.scenarios.conftest import _database
from tests.scenarios.house import House, Place


@pytest.fixture(scope="module", params=["sqlite-memory", "postgresql", "mariadb"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A database of each family with our tables."""
    with _database(request.param, tmp_path_factory.mktemp("stored")) as url:
        built = Place(url)
        yield built
        built.store.close()


@pytest.fixture
def house(place: Place) -> Iterator[House]:
    """A house on each store, empty; every message is delivered twice."""
    place.empty()
    with House(place, duplicate=True) as built:
        yield built


class OutOfStock(Exception):
    """There is none left."""


def asking(name: str, task: str, **others: Any) -> dict[str, Any]:
    """A graph that waits for a signal and then executes a task."""
    states = {
        "ask": {"signal": "go", "on": {"signal": "work"}},
        "work": {"step": task, "args": ["$.ask"], "on": {"ok": "done"}},
        "done": {"end": True},
    }
    return {"name": name, "version": 1, "start": "ask", "states": states, **others}


def serves(house: House, task: str) -> list[object]:
    """A task of the house; what it is called with."""
    calls: list[object] = []

    @house.task(task)
    def work(value: object) -> str:
        calls.append(value)
        return task

    return calls


def forget_everything(house: House) -> None:
    """From now on the house is a worker that knows no saga."""
    fresh = Registry(())
    fresh.stored, fresh.keep = house.store.definition, house.store.put_definition
    house.registry = fresh
    object.__setattr__(house.engine.world, "definitions", fresh)


def test_a_worker_that_never_saw_the_graph_follows_the_stored_one(house: House) -> None:
    calls = serves(house, "s-work")
    handle = Saga.from_graph(asking("s-unseen", "s-work")).start()
    forget_everything(house)
    house.drain()

    handle.signal("go", 5)
    house.drain()

    assert handle.wait(1) == "s-work"
    assert calls == [5]
    assert house.registry.known() == []


def test_a_stored_graph_is_read_once_by_a_worker(house: House) -> None:
    serves(house, "s-once")
    handle = Saga.from_graph(asking("s-once", "s-once")).start()
    forget_everything(house)
    asked: list[str] = []
    stored = house.registry.stored

    def counted(name: str, version: int) -> Any:
        asked.append(name)
        return stored(name, version)

    house.registry.stored = counted
    house.drain()
    handle.signal("go", 5)
    house.drain()

    assert handle.wait(1) == "s-once"
    assert asked == ["s-once"]


def test_a_run_stays_with_the_graph_that_it_started_with(house: House) -> None:
    old_calls, new_calls = serves(house, "s-old"), serves(house, "s-new")
    first = Saga.from_graph(asking("s-changed", "s-old")).start()
    second = Saga.from_graph(asking("s-changed", "s-new", version=2)).start()
    forget_everything(house)
    house.drain()

    for handle in (first, second):
        handle.signal("go", handle is second)
    house.drain()

    assert (first.wait(1), second.wait(1)) == ("s-old", "s-new")
    assert (old_calls, new_calls) == ([False], [True])


def test_another_graph_under_a_stored_name_and_version_is_refused(house: House) -> None:
    first = Saga.from_graph(asking("s-taken", "s-first"))
    first.start()
    stored = house.store.definition("s-taken", 1)
    house.drain()

    def elsewhere() -> Saga[..., Any]:
        return Saga.from_graph(asking("s-taken", "s-second"))

    with pytest.raises(DefinitionError, match="higher version") as caught:
        elsewhere().start()

    assert "left unchanged" in str(caught.value)
    assert house.store.definition("s-taken", 1) == stored
    assert stored is not None and "s-first" in stored.graph_text
    assert len(house.store.runs(RunFilter())) == 1


def test_the_same_graph_is_taken_again_and_stored_once(house: House) -> None:
    serves(house, "s-again")
    graph = asking("s-again", "s-again")

    handles = [Saga.from_graph({name: graph[name] for name in order}).start() for order in (graph, reversed(graph))]

    assert [handle.created for handle in handles] == [True, True]


def test_two_graphs_of_one_name_and_version_are_refused_when_they_are_defined() -> None:
    first = Saga.from_graph(asking("s-twice", "s-first"))

    with pytest.raises(DefinitionError, match="defined twice"):
        Saga.from_graph(asking("s-twice", "s-second"))

    assert first in declared.declared()


def test_a_function_takes_no_name_of_a_graph() -> None:
    kept = Saga.from_graph(asking("s-function", "s-first"))

    with pytest.raises(DefinitionError, match="defined twice"):

        @saga(name="s-function")
        def function(run: Any) -> None: ...

    assert kept.name == "s-function"


def test_a_graph_of_a_newer_celery_saga_is_handed_back(house: House) -> None:
    serves(house, "s-newer")
    handle = Saga.from_graph(asking("s-newer", "s-newer")).start()
    forget_everything(house)
    stored = house.registry.stored

    def newer(name: str, version: int) -> Any:
        found = stored(name, version)
        assert found is not None
        return type(found)(name, version, "d", found.graph_text.replace('"start"', '"begin"'), found.created_at)

    house.registry.stored = newer
    house.drain()
    before = handle.status
    house.registry.stored = stored
    house.advance(60)
    handle.signal("go", 5)
    house.drain()

    assert before == "queued"
    assert handle.wait(1) == "s-newer"


def test_a_worker_that_knows_the_graph_knows_its_errors(house: House) -> None:
    @house.task("s-raises")
    def raises(value: object) -> None:
        raise OutOfStock("none left")

    sold = Saga.from_graph(asking("s-errors", "s-raises"), errors=[OutOfStock])
    house.add(sold)
    handle = sold.start()
    handle.signal("go", 1)
    house.drain()

    with pytest.raises(RunFailed) as caught:
        handle.wait(1)

    assert isinstance(caught.value.cause, OutOfStock)


def test_no_stored_graph_is_orphaned_while_a_worker_lives(house: House) -> None:
    handle = Saga.from_graph(asking("s-orphan", "s-orphan")).start()
    without = versions(house.store, (), alive_s=60)
    house.store.beat("h:1", host="h", pid=1, sagas=[], ttl_s=60)

    found = versions(house.store, (), alive_s=60)
    house.store.leave("h:1")

    assert handle.created
    assert [each.is_orphaned for each in without] == [True]
    assert [(each.saga, each.workers, each.is_orphaned) for each in found] == [("s-orphan", ("h:1",), False)]


@pytest.mark.parametrize("way", ["child", "detached", "group"])
def test_a_graph_is_stored_with_a_run_that_a_body_starts(house: House, way: str) -> None:
    serves(house, f"s-{way}")
    inner = Saga.from_graph(asking(f"s-inner-{way}", f"s-{way}"))
    ids: list[str] = []

    @saga(name=f"s-outer-{way}")
    def outer(run: Run) -> object:
        if way == "child":
            return run.child(inner)
        if way == "group":
            return run.group([lambda inside: inside.child(inner)])
        ids.append(run.child(inner.options(detached=True)).id)
        return None

    house.add(outer, inner)
    handle = outer.start()
    while not house.store.definition(f"s-inner-{way}", 1):
        house.deliver(house.messages.pop(0))
    forget_everything(house)
    house.add(outer)
    house.drain()
    (child,) = (each for each in house.store.runs(RunFilter()) if each.saga == f"s-inner-{way}")

    house.engine.signal(child.id, "go", value_text="5")
    house.drain()

    assert house.engine.run_of(child.id).result == f"s-{way}"
    assert handle.refresh().status == "completed"


def test_a_body_that_starts_another_graph_than_the_stored_one_is_parked(house: House) -> None:
    def elsewhere() -> Saga[..., Any]:
        return Saga.from_graph(asking("s-inner", "s-first"))

    elsewhere().start()
    other = Saga.from_graph(asking("s-inner", "s-second"))

    @saga(name="s-outer")
    def outer(run: Run) -> object:
        return run.child(other)

    house.add(outer, other)
    handle = outer.start()
    house.drain()

    assert handle.status == "suspended"
    assert "higher version" in str(handle.error)


def test_a_checkpoint_lands_although_the_graph_cannot_be_read(house: House) -> None:
    calls = serves(house, "s-checkpoint")
    states = {
        "one": {"step": "s-checkpoint", "on": {"ok": "two"}},
        "two": {"step": "s-checkpoint", "on": {"ok": "done"}},
        "done": {"end": True},
    }
    handle = Saga.from_graph({"name": "s-checkpoint", "version": 1, "start": "one", "states": states}).start(1)
    claimed = house.claim_next()
    forget_everything(house)

    def broken(label: str) -> None:
        if label == "before:load definition":
            raise StoreUnavailable

    house.store.trace = broken
    landed = house.finish(claimed)
    house.store.trace = None
    house.advance(40)

    assert landed
    assert handle.wait(1) == "s-checkpoint"
    assert calls == [1, "s-checkpoint"]


def test_a_start_that_breaks_off_anywhere_can_be_made_again() -> None:
    points: list[str] = []
    with House("sqlite://") as house:
        serves(house, "s-broken")
        house.store.trace = points.append
        Saga.from_graph(asking("s-whole", "s-broken")).start()
        house.store.trace = None
        assert any("insert definition" in point for point in points)

        for at in range(len(points)):
            assert _broken_off(house, at) == "s-broken", points[at]


def _broken_off(house: House, at: int) -> str:
    """The result of a run whose start died at a contact with the database and was made again."""
    sold = Saga.from_graph(asking(f"s-broken-at-{at}", "s-broken"), key=lambda _: "once")
    left = iter(range(at, -1, -1))

    def die(_: str) -> None:
        if next(left, None) == 0:
            raise KeyboardInterrupt

    house.store.trace = die
    with pytest.raises(KeyboardInterrupt):
        sold.start()
    house.store.trace = None
    handle = sold.start()
    forget_everything(house)
    house.advance(40)
    handle.signal("go", 5)
    house.drain()
    return str(handle.wait(1))


def test_a_worker_that_has_a_changed_graph_under_an_old_version_follows_the_stored_one(house: House) -> None:
    old_calls, new_calls = serves(house, "s-kept"), serves(house, "s-altered")

    def elsewhere() -> Saga[..., Any]:
        return Saga.from_graph(asking("s-altered", "s-kept"))

    handle = elsewhere().start()
    forget_everything(house)
    house.add(Saga.from_graph(asking("s-altered", "s-altered")))
    house.drain()
    handle.signal("go", 5)
    house.drain()

    assert handle.wait(1) == "s-kept"
    assert (old_calls, new_calls) == ([5], [])


def test_a_worker_that_has_the_graph_asks_the_database_for_it_once(house: House) -> None:
    serves(house, "s-asked")
    sold = Saga.from_graph(asking("s-asked", "s-asked"))
    handles = [sold.start(), sold.start()]
    forget_everything(house)
    house.add(sold)
    asked: list[str] = []
    house.store.trace = lambda label: asked.append(label) if label == "before:load definition" else None
    house.drain()
    for handle in handles:
        handle.signal("go", 5)
    house.drain()
    house.store.trace = None

    assert [handle.wait(1) for handle in handles] == ["s-asked", "s-asked"]
    assert len(asked) == 1
