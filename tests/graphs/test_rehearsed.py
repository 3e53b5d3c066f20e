"""A graph with everything is rehearsed: each step fails, each commit is a crash, and the books are right each time."""

from __future__ import annotations

from collections import Counter

import pytest
from celery import Celery

from celery_saga import CelerySaga, Saga
from celery_saga.testing import rehearse
from tests.graphs.corpus import END, graph

app = Celery("graphs-rehearsed", set_as_current=False)
app.conf.update(broker_url="memory://", saga_database_url="sqlite://")
CelerySaga(app)

books: Counter[str] = Counter()


@app.task(name="gr.take", shared=False)
def take(what: str) -> str:
    books[what] = 1
    return what


@app.task(name="gr.give_back", shared=False)
def give_back(what: str) -> None:
    books.pop(what, None)


@pytest.fixture(autouse=True)
def empty_books() -> None:
    books.clear()


def taking(what: str, **others: object) -> dict[str, object]:
    return {"step": "gr.take", "args": [what], "undo": {"step": "gr.give_back", "args": [what]}, **others}


def test_everything_that_was_taken_is_given_back_whatever_goes_wrong() -> None:
    chain = {
        "start": "b1",
        "states": {
            "b1": taking("b1", on={"ok": "b2"}),
            "b2": {"wait": 60, "on": {"ok": "b3"}},
            "b3": {"end": True},
        },
    }
    states = {
        "first": taking("$.input.id", on={"ok": "fork"}),
        "fork": {"choice": [{"path": "$.input.dear", "eq": True, "to": "ask"}, {"else": "both"}]},
        "ask": {"signal": "approval", "timeout_s": 100, "on": {"signal": "both", "timeout": "lost"}},
        "both": {"parallel": {"branches": {"a": taking("a"), "b": chain}}, "on": {"ok": "all", "fail": "lost"}},
        "all": {
            "map": {"task": "gr.take", "items": "$.input.lines", "concurrency": 2},
            "undo": "gr.give_back",
            "on": {"ok": "done"},
        },
        "done": {**END, "output": "$.all"},
        "lost": {"end": "failed"},
    }
    sold = Saga.from_graph({**graph(states), "name": "gr-sold"}, key="{input.id}")

    report = rehearse(
        sold,
        {"id": "o1", "dear": True, "lines": ["x", "y"]},
        signals={"approval": {"by": "boss"}},
        ledger=lambda: dict(books),
        reset=books.clear,
        app=app,
    )

    assert report.ok, str(report)
