"""A canvas can be drawn: what follows what, what is side by side, what is undone by what."""

from __future__ import annotations

from typing import Any

from celery import Celery, chain, chord, group

from celery_saga import Saga, step


def _tasks() -> Any:
    app = Celery("drawn", set_as_current=False)

    @app.task(name="drawn.a", shared=False)
    def a(*args: Any) -> None: ...

    @app.task(name="drawn.b", shared=False)
    def b(*args: Any) -> None: ...

    return a, b


def test_a_canvas_is_drawn_with_its_forks_and_undos() -> None:
    a, b = _tasks()
    canvas = chain(step(a.s(), undo=b), chord(group(a.s(), chain(a.s(), b.s())), b.s()))

    text = Saga.from_canvas("drawn", canvas).diagram()

    assert text.startswith("flowchart TD\n")
    assert text.count('"drawn.a"') == 3
    assert text.count('"drawn.b"') == 2
    assert '"undo: drawn.b"' in text
    assert '"2 at once"' in text
    assert "-.->" in text


def test_of_many_parts_the_first_are_drawn_and_the_others_counted() -> None:
    a, _ = _tasks()

    text = Saga.from_canvas("drawn-wide", group(a.s(n) for n in range(500))).diagram()

    assert text.count('"drawn.a"') == 12
    assert '"488 more"' in text
