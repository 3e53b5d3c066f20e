"""Every saga is the Celery task `saga.<name>`, whenever it was declared, and a repeated message starts one run."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from celery_saga import CelerySaga, Run, Saga, saga

MakeApp = Callable[..., Any]


@pytest.fixture
def name() -> str:
    """Of a saga that no other test has."""
    return f"told_{uuid.uuid4().hex}"


@pytest.fixture
def make_app(tmp_path: Path) -> Iterator[MakeApp]:
    made: list[Celery] = []

    def make(*, extended: bool = True, **more: object) -> Celery:
        app = Celery("told", set_as_current=True)
        made.append(app)
        app.conf.update(
            broker_url="memory://", task_always_eager=True, saga_database_url=f"sqlite:///{tmp_path}/x.db", **more
        )
        if extended:
            CelerySaga(app).migrate()
        return app

    yield make
    for app in made:
        if hasattr(app, "saga"):
            CelerySaga.of(app).services.close()
        app.close()


def declared(name: str, version: int = 1, *, key: str | None = None) -> Saga[[str], str]:
    @saga(name=name, version=version, key=key)
    def body(run: Run, word: str = "x") -> str:
        return f"{word} {run.version}"

    return body


def test_a_saga_that_is_declared_after_the_app_was_finalized_is_a_task(make_app: MakeApp, name: str) -> None:
    app = make_app()
    assert app.tasks

    late = declared(name)

    assert f"saga.{name}" in app.tasks
    assert late.get(app.signature(f"saga.{name}", args=("a",)).apply().result).result == "a 1"


def test_a_saga_that_was_declared_before_sagas_were_added_to_a_finalized_app_is_a_task(
    make_app: MakeApp, name: str
) -> None:
    app = make_app(extended=False)
    assert app.tasks
    early = declared(name)

    CelerySaga(app)

    assert f"saga.{early.name}" in app.tasks


def test_declaring_a_saga_neither_finalizes_nor_configures_an_app(name: str) -> None:
    app: Any = Celery("told", set_as_current=False)
    CelerySaga(app, database_url="sqlite://")

    body = declared(name)

    assert not app.finalized
    assert not app.configured
    assert f"saga.{body.name}" in app.tasks


def test_an_app_that_names_its_sagas_does_not_get_others(make_app: MakeApp, name: str) -> None:
    app = make_app(saga_sagas=[])
    assert app.tasks

    declared(name)

    assert f"saga.{name}" not in app.tasks


def test_the_task_starts_the_highest_version_also_when_that_was_declared_later(make_app: MakeApp, name: str) -> None:
    app = make_app()
    first = declared(name, 1)
    assert f"saga.{name}" in app.tasks
    second = declared(name, 2)

    run_id = app.tasks[f"saga.{name}"].apply(("a",)).result

    assert (second.get(run_id).result, first.version) == ("a 2", 1)


def test_a_message_that_is_delivered_twice_starts_one_run(make_app: MakeApp, name: str) -> None:
    app = make_app()
    body = declared(name)
    task = app.tasks[f"saga.{name}"]

    ids = [task.apply(("a",), task_id="one").result for _ in range(2)]
    other = task.apply(("a",), task_id="two").result

    assert ids[0] == ids[1] != other
    assert len(CelerySaga.of(app).runs(saga=body.name)) == 2


def test_the_message_of_a_saga_with_a_key_finds_the_run_of_the_key(make_app: MakeApp, name: str) -> None:
    app = make_app()
    body = declared(name, key="{word}")

    ids = {app.tasks[f"saga.{name}"].apply(("a",), task_id=task_id).result for task_id in ("one", "two")}

    assert ids == {body.run_id("a")}


def test_a_key_that_equals_a_task_id_is_another_run(make_app: MakeApp, name: str) -> None:
    app = make_app()
    body = declared(name)

    by_key = body.options(key="one").start("a").id

    assert app.tasks[f"saga.{name}"].apply(("a",), task_id="one").result != by_key


def test_the_task_called_like_a_function_starts_a_run_each_time(make_app: MakeApp, name: str) -> None:
    app = make_app()
    body = declared(name)

    assert len({app.tasks[f"saga.{name}"]("a") for _ in range(2)}) == 2
    assert body.version == 1


def test_an_argument_may_have_any_name(make_app: MakeApp, name: str) -> None:
    @saga(name=name)
    def body(run: Run, task_id: str, self: str) -> str:
        return task_id + self

    app = make_app()

    run_id = app.tasks[f"saga.{name}"].apply(kwargs={"task_id": "a", "self": "b"}).result

    assert body.get(run_id).result == "ab"


@pytest.mark.parametrize("shape", ["shop.{}", "{} of a shop", "1{}", "class"])
def test_a_saga_of_any_name_is_a_task(make_app: MakeApp, name: str, shape: str) -> None:
    app = make_app()
    body = declared(shape.format(name))

    assert body.get(app.tasks[f"saga.{body.name}"].apply(("a",)).result).result == "a 1"
