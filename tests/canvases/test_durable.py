"""`app.saga.durable(canvas)`: started as before, answered as before, and a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery, _state, chain, group, signature
from celery.result import AsyncResult

from celery_saga import CelerySaga, DefinitionError, IdempotencyConflict, InvalidPayload, Run, RunFailed, saga, step
from celery_saga.runtime.durable import CanvasHandle, DurableCanvas


class Desk:
    """An app that executes tasks in its caller's process, with sagas and three tasks."""

    def __init__(self, name: str) -> None:
        self.app = Celery(name, set_as_current=False)
        self.app.conf.update(task_always_eager=True, saga_database_url="sqlite://")
        CelerySaga(self.app)
        self.app.saga.migrate()
        self.ledger: list[str] = []

        @self.app.task(name=f"{name}.add", shared=False)
        def add(*numbers: int) -> int:
            return sum(numbers)

        @self.app.task(name=f"{name}.take_back", shared=False)
        def take_back(number: int) -> None:
            self.ledger.append(f"take back {number}")

        @self.app.task(name=f"{name}.refuse", shared=False)
        def refuse(number: int) -> int:
            raise LookupError(number)

        self.add, self.take_back, self.refuse = add, take_back, refuse

    def durable(self, canvas: object, **options: Any) -> DurableCanvas:
        durable: DurableCanvas = self.app.saga.durable(canvas, **options)
        return durable

    def close(self) -> None:
        self.app.saga.services.close()
        self.app.close()


@pytest.fixture(autouse=True)
def same_current_app_afterwards() -> Iterator[None]:
    """A test may make an app the current one."""
    before = _state._tls.current_app
    yield
    _state._tls.current_app = before


@pytest.fixture
def desk() -> Iterator[Desk]:
    built = Desk("durable_desk")
    yield built
    built.close()


def test_a_durable_canvas_is_started_and_answers_as_the_canvas_did(desk: Desk) -> None:
    canvas = chain(desk.add.s(1), desk.add.s(2))

    for start in (desk.durable(canvas).delay, desk.durable(canvas), lambda n: desk.durable(canvas).apply_async((n,))):
        answer = start(10)
        assert answer.get(timeout=1, interval=0.1) == 13
        assert (answer.state, answer.status, answer.run_status) == ("SUCCESS", "SUCCESS", "completed")
        assert (answer.ready(), answer.successful(), answer.failed()) == (True, True, False)
        assert desk.app.saga.get(answer.id).wait(1) == 13
        assert answer.forget() is None


def test_the_answer_has_the_words_of_an_async_result_for_what_the_promise_names() -> None:
    for name in ("id", "get", "ready", "successful", "failed", "state", "status", "revoke", "forget"):
        assert hasattr(AsyncResult, name) or name == "id"
        assert hasattr(CanvasHandle, name)


def test_an_error_undoes_what_the_canvas_did_and_is_the_cause_of_what_the_waiter_sees(desk: Desk) -> None:
    answer = desk.durable(chain(desk.add.s(1), step(desk.add.s(2), undo=desk.take_back), desk.refuse.s())).delay(10)

    with pytest.raises(RunFailed) as failed:
        answer.get(timeout=1)

    assert isinstance(failed.value.cause, LookupError)
    assert isinstance(answer.get(propagate=False), RunFailed)
    assert (answer.state, answer.status, answer.failed()) == ("FAILURE", "FAILURE", True)
    assert desk.ledger == ["take back 13"]


def test_two_starts_with_one_key_are_one_run(desk: Desk) -> None:
    first = desk.durable(chain(desk.add.s(1), desk.add.s(2)), key="order-7").delay(10)
    second = desk.durable(chain(desk.add.s(1), desk.add.s(2)), key="order-7").delay(10)

    assert (first.created, second.created, first.id, first.key) == (True, False, second.id, "order-7")
    for canvas, number in ((chain(desk.add.s(1), desk.add.s(2)), 11), (desk.add.s(1), 10)):
        with pytest.raises(IdempotencyConflict):
            desk.durable(canvas, key="order-7").delay(number)
    assert desk.durable(chain(desk.add.s(1), desk.add.s(2))).delay(10).id != first.id


@pytest.mark.parametrize("key", ["", "x" * 256, 7])
def test_what_cannot_be_a_key_is_refused_before_anything_is_started(desk: Desk, key: Any) -> None:
    with pytest.raises(InvalidPayload, match="key"):
        desk.durable(desk.add.s(1), key=key)


def test_options_that_would_be_lost_are_refused_when_it_is_started(desk: Desk) -> None:
    with pytest.raises(DefinitionError, match=r"does not carry 'link', 'task_id'; nothing was started\. Give options"):
        desk.durable(desk.add.s(1)).apply_async((1,), task_id="x", link=desk.add.s(), queue=None)
    with pytest.raises(DefinitionError, match="takes a list of arguments"):
        desk.durable(desk.add.s(1)).apply_async("12")

    assert list(desk.app.saga.runs()) == []


def test_a_countdown_is_that_of_the_run(desk: Desk) -> None:
    answer = desk.durable(desk.add.s(1)).apply_async((1,), countdown=3600)

    assert (answer.state, answer.ready()) == ("PENDING", False)
    answer.revoke(terminate=True)
    assert answer.state == "REVOKED"


def test_what_is_not_carried_is_refused_all_at_once(desk: Desk) -> None:
    with pytest.raises(DefinitionError) as refused:
        desk.durable(chain(desk.add.s(1).set(expires=1), desk.add.s(2).set(link=desk.add.s())))

    assert [line.partition(" is not")[0] for line in str(refused.value).splitlines()] == [
        "saga.durable() cannot make this canvas durable; nothing was started.",
        "- chain[0] (durable_desk.add): the option 'expires'",
        "- chain[1] (durable_desk.add): the option 'link'",
    ]


def test_it_is_a_run_of_the_app_that_it_was_made_durable_with(desk: Desk) -> None:
    other = Desk("durable_other")
    other.app.set_current()
    try:
        answer = desk.durable(desk.add.s(1)).delay(1)

        assert answer.get(timeout=1) == 2
        assert [run.id for run in desk.app.saga.runs()] == [answer.id]
        assert list(other.app.saga.runs()) == []
    finally:
        other.close()


def test_an_app_that_names_its_sagas_has_this_one_too(desk: Desk) -> None:
    app = Celery("durable_named", set_as_current=False)
    CelerySaga(app, database_url="sqlite://", sagas=[])

    assert app.saga.registry.known() == [("celery_saga.canvas", 1)]
    app.close()


def test_it_is_no_task_of_its_own(desk: Desk) -> None:
    assert [name for name in desk.app.tasks if name.startswith("saga.celery_saga")] == []


def test_a_saga_in_it_is_refused_in_each_of_its_forms(desk: Desk) -> None:
    @saga(name="durable_child")
    def child(run: Run) -> None:
        """Nothing."""

    started = signature(json.loads(json.dumps(signature("saga.durable_child"))))

    with pytest.raises(DefinitionError) as refused:
        desk.durable(chain(child.s(), started))

    assert str(refused.value).count("write a saga that calls run.child() for it") == 2


def test_a_body_cannot_start_one(desk: Desk) -> None:
    @saga(name="durable_in_a_body")
    def body(run: Run) -> None:
        desk.durable(desk.add.s(1)).delay(1)

    desk.app.set_current()
    handle = body.start()

    assert handle.status == "suspended"
    assert "apply_async() of a durable canvas" in str(handle.error)
    assert "start it from a step's task" in str(handle.error)


def test_a_group_answers_with_a_list(desk: Desk) -> None:
    assert desk.durable(group(desk.add.s(n) for n in range(3))).delay(10).get(timeout=1) == [10, 11, 12]
