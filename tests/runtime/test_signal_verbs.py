"""`app.saga.chord` and `app.saga.redeem` on an app, in a laboratory, and the keys that sign tokens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from celery_saga import CelerySaga, DefinitionError, InvalidPayload, Retry, Run, SignalExpired, saga, step
from celery_saga.client import binding
from celery_saga.testing import Lab
from tests.runtime.places import place_with

KEY, NEXT = "k" * 32, "n" * 32
SHORT = "too-short"


@pytest.fixture
def app() -> Iterator[Celery]:
    made = Celery("signal-verbs", set_as_current=False)
    made.conf.update(task_always_eager=True, saga_database_url="sqlite://")
    CelerySaga(made, secret_keys=[KEY])
    before = binding.set_resolver(lambda _saga: made.saga)
    yield made
    binding.set_resolver(before)
    made.close()


@pytest.fixture
def calls(app: Celery) -> list[Any]:
    found: list[Any] = []

    @app.task(name="signal_verbs.note", shared=False)
    def note(*given: Any) -> None:
        found.append(given)
        if given[-1] == "fails" and sum(each == given for each in found) == 1:
            raise ValueError("not yet")

    return found


@saga(name="signal-verbs")
def asks(run: Run) -> Any:
    token = run.token("answer", expires=60)
    return [token, run.wait_signals(["answer", "paid"])]


def test_an_eager_app_executes_a_chord_and_redeems_a_token(app: Celery, calls: list[Any]) -> None:
    app.saga.migrate()
    run = asks.start()
    token = _token(run)
    key = app.saga.chord(run.id, ["paid"])(app.tasks["signal_verbs.note"].s("x"))

    run.signal("paid", 5)
    answered = app.saga.redeem(token, "yes")

    assert key == "!chord/1"
    assert calls == [([5], "x")]
    assert answered.id == run.id
    assert run.refresh().result[1] == {"answer": "yes", "paid": 5}


def test_a_laboratory_has_both(app: Celery, calls: list[Any]) -> None:
    with Lab(app) as lab:
        run = lab.start(asks)
        lab.drain()
        sig = step(app.tasks["signal_verbs.note"].s("fails"), retry=Retry(delay=10, jitter=False))
        app.saga.chord(run.id, ["paid"])(sig)
        run.signal("paid", 5)
        lab.drain()
        first = len(calls)
        app.saga.redeem(_token(run), "yes")
        lab.advance(20)
        done = run.refresh().status

    assert first == 1
    assert calls == [([5], "fails")] * 2
    assert done == "completed"


def test_a_token_expires_by_the_clock_of_the_database(app: Celery, calls: list[Any]) -> None:
    with Lab(app) as lab:
        run = lab.start(asks)
        lab.drain()
        lab.advance(61)

        with pytest.raises(SignalExpired, match="expired"):
            app.saga.redeem(_token(run), "yes")


@pytest.mark.parametrize("wrong", [[SHORT], SHORT, [KEY, SHORT], 5, [None], {KEY: KEY}])
def test_a_wrong_key_is_refused_and_not_shown(wrong: Any) -> None:
    with pytest.raises(DefinitionError, match="at least 16 characters") as caught:
        CelerySaga(secret_keys=wrong)

    assert SHORT not in str(caught.value) and KEY not in str(caught.value)


def test_keys_may_be_one_text_with_commas_and_are_in_no_repr(app: Celery) -> None:
    app.conf.saga_secret_keys = f"{NEXT}, {KEY}"

    settings = app.saga.services.settings

    assert settings.secret_keys == (NEXT, KEY)
    assert KEY not in repr(settings)


def test_a_chord_of_no_run_id_is_refused(app: Celery) -> None:
    with pytest.raises(InvalidPayload):
        app.saga.chord(None, ["a"])


def _token(run: Any) -> str:
    return str(next(x for x in run.steps() if x.key == "token").args[0])


@pytest.mark.servers
def test_a_worker_executes_a_chord_while_the_run_ends(tmp_path: Path) -> None:
    with place_with("redis", tmp_path) as place, place.worker():
        shop = place.shop
        run = shop.approval.start()
        shop.app.saga.chord(run.id, ["go"])(shop.dispatch.s())
        run.signal("go", "x")

        assert run.wait(15) == "x"
        assert {"dispatch ['x']", "dispatch x"} < set(place.calls())
        assert {step.key: step.status.value for step in run.steps()}["!chord/1"] == "done"
