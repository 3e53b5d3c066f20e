"""With a codec nothing of a user's values stands in any table in clear."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from celery import Celery, chain, current_app

from celery_saga import Retry, Run, Saga, Signal, current_step, saga, step
from celery_saga.core import codec
from celery_saga.testing import Lab
from tests.sealing.keys import FIRST, Keys, Shelf, at_rest, lab_with, store_of, where

MARKER = "4929-" + "7713"  # in two pieces: a traceback quotes lines of code


class Declined(Exception):
    pass


def build(app: Celery) -> dict[str, Any]:
    """Sagas that hand the marker through everything that is stored."""

    @app.task(name="rich.keep", shared=False)
    def keep(value: str) -> str:
        current_step.progress(1, 2, f"keeps {value}")
        return value

    @app.task(name="rich.drop", shared=False)
    def drop(value: str) -> None:
        pass

    @app.task(name="rich.fail", shared=False)
    def fail(value: str) -> None:
        raise Declined(f"declined {value}")

    @saga(name="rich_child")
    def child(run: Run, value: str) -> str:
        return run.step(keep.si(value), undo=drop)

    @saga(name="rich", signals=[Signal("paid", str), Signal("noted", str)], errors=[Declined])
    def rich(run: Run, value: str) -> str:
        run.step(step(keep.si(value), undo=drop.si(value)))
        run.record("noted", lambda: value)
        run.on_undo(drop.si(value))
        paid = run.wait_signal("paid", type=str)
        run.wait_signal("noted", timeout=1, type=str, default=value)
        parts = run.group({"a": keep.si(paid), "b": child.s(paid)})
        mapped = run.map(keep, [value, paid], undo=drop.s())
        run.child(child, value)
        run.race(first=keep.si(value), slow=60)
        with run.scope("tried"):
            run.step(keep.si(value), name="in_scope", undo=drop)
        try:
            run.step(fail.si(value), retry=Retry(max_attempts=2, delay=1))
        except Declined as error:
            raise Declined(f"{error} {parts} {mapped}") from error
        return value

    @saga(name="renewed")
    def renewed(run: Run, value: str, turns: int) -> str:
        run.step(keep.si(value))
        if turns:
            run.continue_as_new(f"{value}+{turns}", turns - 1)
        return value

    @saga(name="broken")
    def broken(run: Run, value: str) -> None:
        run.step(keep.si(value))
        raise KeyError(value)

    graph = Saga.from_graph(
        {
            "name": "drawn",
            "version": 1,
            "start": "keep",
            "states": {
                "keep": {"step": "rich.keep", "args": ["$.input.value"], "undo": "rich.drop", "on": {"ok": "done"}},
                "done": {"end": True, "output": {"kept": "$.keep"}},
            },
        }
    )
    return {"rich": rich, "renewed": renewed, "broken": broken, "graph": graph, "keep": keep, "drop": drop}


def play(lab: Lab) -> None:
    """A run of each kind, with the marker in all that a user can give."""
    sagas = build(lab.app)
    lost = lab.start(sagas["rich"], MARKER)
    lab.drain()
    lost.signal("paid", MARKER)
    lab.advance(120)
    assert lost.refresh().status == "failed"
    assert {"drop"} <= {call.name for call in lab.calls}
    renewed = lab.start(sagas["renewed"], MARKER, 2)
    lab.drain()
    assert renewed.refresh().status == "completed"
    broken = lab.start(sagas["broken"], MARKER)
    lab.drain()
    assert broken.refresh().status == "suspended"
    broken.cancel(reason=f"because of {MARKER}")
    lab.drain()
    waiting = lab.start(sagas["rich"], MARKER)
    lab.drain()
    waiting.signal("paid", error=Declined(MARKER))
    lab.drain()
    assert waiting.refresh().status == "failed"
    canvas = Saga.from_canvas("canvas", chain(sagas["keep"].si(MARKER), sagas["keep"].s()))
    drawn = lab.start(canvas)
    lab.drain()
    assert drawn.refresh().wait(0) == MARKER
    graphed = lab.start(sagas["graph"], {"value": MARKER})
    lab.drain()
    assert graphed.refresh().wait(0) == {"kept": MARKER}


def test_nothing_of_a_users_values_is_in_clear() -> None:
    with lab_with(codec=Keys(FIRST)) as lab:
        play(lab)

        assert where(store_of(lab), MARKER) == set()


def test_nothing_is_in_clear_in_the_other_store_either() -> None:
    shelf = Shelf()
    with lab_with(codec=Keys(FIRST), offload=shelf, offload_above=1024) as lab:
        sagas = build(lab.app)
        lab.start(sagas["renewed"], MARKER * 200, 1).wait(0)

        assert where(store_of(lab), MARKER) == set()
        assert shelf.texts
        assert not any(MARKER in text for text in shelf.texts.values())


def test_without_a_codec_the_same_runs_show_it_everywhere() -> None:
    """The test above could not fail otherwise: these are the columns that it looks into."""
    with lab_with() as lab:
        play(lab)

        seen = {column.partition("saga_")[2] for column in where(store_of(lab), MARKER)}
    assert seen == {
        "run.input_text",
        "run.error_text",
        "run.result_text",
        "step.args_text",
        "step.spec_text",
        "step.result_text",
        "step.error_text",
        "step.progress_text",
        "signal.value_text",
        "signal.error_text",
        "history.detail",
        "history.reason",
    }


def test_a_digest_tells_nothing_of_a_small_input() -> None:
    """Who can read the table must not find out a four-digit code by trying them all."""
    with lab_with(codec=Keys(FIRST)) as lab:
        sagas = build(lab.app)
        lab.start(sagas["broken"], "0417")
        lab.drain()
        stored = {value for values in at_rest(store_of(lab)).values() for value in values}

    guesses = {codec.digest([[], {"value": "0417"}]), codec.digest({"value": "0417"}), codec.digest([["0417"], {}])}
    guesses |= {hashlib.sha256(text.encode()).hexdigest() for text in ("0417", '"0417"', '["0417"]')}
    assert not guesses & stored


@pytest.fixture(autouse=True)
def _current() -> Any:
    before = current_app._get_current_object()
    yield
    before.set_current()
