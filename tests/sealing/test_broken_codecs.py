"""Codecs that raise, or give no text: a named error without a word of SQL, and what can be read is not touched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from celery_saga import (
    DefinitionError,
    InvalidPayload,
    PayloadUnreadable,
    Run,
    SagaError,
    StoreUnavailable,
    saga,
    step,
)
from celery_saga.engine.ports import StepMessage
from celery_saga.runtime.remote import RemoteSender
from celery_saga.runtime.revoked import give_new_id
from celery_saga.testing import Lab
from tests.sealing.keys import lab_with, store_of
from tests.workers import wait_until


class Broken:
    """Seals by turning the text around, until it is told to do otherwise."""

    def __init__(self) -> None:
        self.encodes: Any = None
        self.decodes: Any = None

    def encode(self, text: str) -> Any:
        return text[::-1] if self.encodes is None else self.encodes(text)

    def decode(self, text: str) -> Any:
        return text[::-1] if self.decodes is None else self.decodes(text)


class Works:
    """A laboratory with that codec, and a saga."""

    def __init__(self, lab: Lab, codec: Broken) -> None:
        self.lab, self.codec = lab, codec

        @lab.app.task(name="broken.double", shared=False)
        def double(number: int) -> int:
            return 2 * number

        @saga(name="broken_waits", key="{name}")
        def waits(run: Run, name: str, number: int) -> int:
            return run.step(step(double.si(number), timeout=5)) + run.wait_signal("go", type=int)

        self.waits = waits

    def start(self, name: str = "a") -> Any:
        return self.lab.start(self.waits, name, 7)


@pytest.fixture
def works() -> Iterator[Works]:
    codec = Broken()
    with lab_with(codec=codec) as lab:
        yield Works(lab, codec)


def raises(error: Exception) -> Any:
    def raising(_: str) -> str:
        raise error

    return raising


def refused(call: Any, kind: type[SagaError], *words: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    assert all(word in text for word in words), text
    assert "INSERT" not in text and "UPDATE" not in text and "SQL" not in text and "7" not in text
    assert "nothing" in text


NO_TEXT = [None, 5, b"sealed", "with\0NUL", "lone\ud800"]


@pytest.mark.parametrize("given", NO_TEXT, ids=repr)
def test_an_encode_that_gives_no_text_is_refused_by_name(works: Works, given: Any) -> None:
    works.codec.encodes = lambda _: given

    refused(works.start, DefinitionError, "saga_codec", "encode()", "text")

    works.codec.encodes = None
    assert works.start().created is True


def test_an_encode_that_raises_is_refused_by_name(works: Works) -> None:
    works.codec.encodes = raises(ZeroDivisionError("7"))
    refused(works.start, InvalidPayload, "saga_codec", "encode()", "ZeroDivisionError")

    works.codec.encodes = raises(StoreUnavailable("the key service does not answer, nothing was asked"))
    refused(works.start, StoreUnavailable, "key service")

    works.codec.encodes = raises(PayloadUnreadable("no key, nothing was sealed"))
    refused(works.start, PayloadUnreadable, "no key")

    works.codec.encodes = None
    assert works.start().created is True


def test_an_encode_that_raises_says_so_on_a_signal_and_keeps_the_run(works: Works) -> None:
    run = works.start()
    works.lab.drain()
    works.codec.encodes = raises(KeyError("7"))
    refused(lambda: run.signal("go", 7), InvalidPayload, "saga_codec", "KeyError")

    works.codec.encodes = None
    run.signal("go", 1)
    works.lab.drain()
    assert run.refresh().wait(0) == 15


@pytest.mark.parametrize("given", [None, 5, b"x"], ids=repr)
def test_a_decode_that_gives_no_text_parks_the_run(works: Works, given: Any) -> None:
    run = works.start()
    works.lab.drain()
    works.codec.decodes = lambda _: given
    with pytest.raises(PayloadUnreadable, match=r"decode\(\) gave .*, no text"):
        run.signal("go", 1)
    assert run.refresh().status == "waiting"
    works.lab.engine.coordinate(run.id)

    assert run.refresh().status == "suspended"
    with pytest.raises(PayloadUnreadable, match=r"decode\(\) gave .*, no text"):
        run.resume()
    works.codec.decodes = None
    run.signal("go", 1)
    run.resume()
    works.lab.drain()
    assert run.refresh().wait(0) == 15


def test_on_a_callers_connection_it_is_the_same_error(works: Works) -> None:
    engine = store_of(works.lab).own_sessions.engine
    with engine.connect() as connection:
        works.codec.encodes = raises(ZeroDivisionError("7"))
        refused(
            lambda: works.waits.options(connection=connection).start("a", 7), InvalidPayload, "saga_codec", "encode()"
        )
        works.codec.encodes = lambda _: None
        refused(
            lambda: works.waits.options(connection=connection).start("a", 7), DefinitionError, "saga_codec", "encode()"
        )
        connection.rollback()


def _scheduled(works: Works) -> Any:
    run = works.start()
    works.lab.engine.coordinate(run.id)
    loaded = store_of(works.lab).load(run.id)
    [placed] = loaded.snapshot.steps.values()
    return run, loaded.snapshot.run, placed


def test_a_revoked_step_of_an_unreadable_run_gets_its_new_id(works: Works) -> None:
    run, _, placed = _scheduled(works)
    works.codec.decodes = raises(KeyError("gone"))

    give_new_id(works.lab.engine, placed)

    works.codec.decodes = None
    assert run.steps()[0].task_id not in (None, placed.task_id)
    works.lab.drain()
    works.lab.advance(2)
    assert run.steps()[0].status == "done"


class Refuses:
    """A broker that takes nothing; `at` is called with its refusal."""

    def __init__(self, at: Any = lambda: None) -> None:
        self.at = at

    @property
    def connection(self) -> Any:
        self.at()
        raise ConnectionError("the broker is away")


def test_a_remote_step_of_a_run_that_becomes_unreadable_is_given_back_uncounted(works: Works) -> None:
    run, record, placed = _scheduled(works)
    sender = RemoteSender(works.lab._services)

    def lose() -> None:
        works.codec.decodes = raises(KeyError("gone"))

    with pytest.raises(ConnectionError):
        sender(None, Refuses(lose), StepMessage(record, placed))

    works.codec.decodes = None
    [back] = run.steps()
    assert (back.status, back.attempt, back.stalls, back.claim_token) == ("scheduled", 0, 0, None)


def test_a_remote_step_of_an_unreadable_run_is_not_sent_and_parks_it(works: Works) -> None:
    run, record, placed = _scheduled(works)
    works.codec.decodes = raises(KeyError("gone"))

    assert RemoteSender(works.lab._services)(None, Refuses(), StepMessage(record, placed)) is True

    wait_until(lambda: run.refresh().status == "suspended", what="parked")


def test_a_text_that_cannot_be_sealed_keeps_nobody_else_from_being_woken(works: Works) -> None:
    @saga(name="broken_naps")
    def naps(run: Run) -> str:
        run.sleep(7)
        return "rested"

    run = works.start()
    works.lab.engine.coordinate(run.id)
    [mine] = run.steps()
    assert works.lab.engine.claim(mine.run_id, mine.generation, mine.key, owner="gone:1", timeout_s=5) is not None
    works.codec.encodes = lambda text: raises(ValueError("7"))(text) if "StepTimeout" in text else text[::-1]
    nap = works.lab.start(naps)

    works.lab.advance(60)

    assert nap.refresh().wait(0) == "rested"
    assert run.steps()[0].status == "running"
    works.codec.encodes = None
    works.lab.advance(60)
    assert run.steps()[0].status == "failed"


def _refuses(part: str) -> Any:
    return lambda text: raises(ValueError("7"))(text) if part in text else text[::-1]


def _with_undo(works: Works, name: str) -> tuple[Any, list[str]]:
    """A saga of a step with an undo, and a second step; what was called."""
    called: list[str] = []

    @works.lab.app.task(name=f"{name}.take", shared=False)
    def take() -> str:
        called.append("take")
        return "TAKEN"

    @works.lab.app.task(name=f"{name}.give_back", shared=False)
    def give_back(taken: str | None = None) -> None:
        called.append(f"give back {taken}")

    @works.lab.app.task(name=f"{name}.then", shared=False)
    def then(word: str) -> str:
        called.append(f"then {word}")
        return word

    @saga(name=name)
    def body(run: Run) -> str:
        run.step(take.si(), undo=give_back.si())
        return run.step(then.si("NEXT"))

    return body, called


def test_a_result_that_cannot_be_sealed_is_undone_as_one_that_may_have_happened_and_not_taken_again(
    works: Works,
) -> None:
    body, called = _with_undo(works, "broken_result")
    run = works.lab.start(body)
    works.codec.encodes = _refuses("TAKEN")

    works.lab.drain()
    works.lab.advance(3600)

    assert called == ["take", "give back None"]
    [taken, undo] = run.steps()
    assert (taken.status, taken.maybe, taken.stalls, undo.status) == ("failed", True, 0, "done")
    assert run.refresh().status == "failed"
    assert "saga_codec.encode() failed" in str(run.error)


def test_a_step_of_which_nothing_can_be_sealed_ends_unseen_and_may_have_happened(works: Works) -> None:
    body, called = _with_undo(works, "broken_whole")
    run = works.lab.start(body)
    works.lab.engine.coordinate(run.id)
    works.codec.encodes = raises(ValueError("7"))
    works.lab.drain()
    assert (called, run.steps()[0].status) == (["take"], "running")

    works.codec.encodes = None
    works.lab.advance(60)

    assert called == ["take", "take", "then NEXT"]
    assert (run.steps()[0].stalls, run.refresh().wait(0)) == (1, "NEXT")


def test_an_order_that_cannot_be_sealed_loses_no_checkpoint(works: Works) -> None:
    body, called = _with_undo(works, "broken_order")
    run = works.lab.start(body)
    works.lab.engine.coordinate(run.id)
    works.codec.encodes = _refuses("NEXT")
    with pytest.raises(InvalidPayload):  # of the coordinator, which tries it again
        works.lab.drain()
    assert (called, [step.status for step in run.steps()]) == (["take"], ["done"])

    works.codec.encodes = None
    works.lab.advance(3600)

    assert called == ["take", "then NEXT"]
    assert run.refresh().wait(0) == "NEXT"
