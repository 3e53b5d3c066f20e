"""What is drawn of runs: the timeline, however long and however large; the diagram; run by test_admin.py."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest

from celery_saga.definition.mermaid import Area, Arrow, Node, Shape, flowchart
from contrib_django.admin.flow import MOST, flow
from contrib_django.admin.gantt import legend, svg
from contrib_django.admin.scale import elastic, span_text
from contrib_django.admin.timeline import CELLS, ROWS, Look, Mark, Stroke, Timeline, timeline
from contrib_django.admin.words import due

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def stroke(key: str, begin: float, end: float | None, *, kind: str = "step", status: str = "done") -> Stroke:
    is_worked = kind in ("step", "undo")
    return Stroke(
        key, 1, kind, status, 1, 0, 0, at(begin), at(begin) if is_worked else None, None if end is None else at(end)
    )


def drawn(strokes: list[Stroke], end: float | None = 10.0, marks: tuple[Mark, ...] = ()) -> Timeline:
    return timeline(strokes, marks, begin=BEGIN, end=None if end is None else at(end), now=at(end or 10.0))


def looks(picture: Timeline) -> list[set[Look]]:
    return [{bar.look for bar in row.bars} - {Look.QUEUED} for row in picture.rows]


# -- what is told ----------------------------------------------------------------------------------------------------
def test_each_kind_of_step_has_a_look_of_its_own() -> None:
    strokes = [
        stroke("a", 0, 1),
        stroke("b", 1, 2, status="failed"),
        stroke("c", 2, 3, status="lost"),
        stroke("d", 3, 4, kind="signal"),
        stroke("e", 4, 5, status="cancelled"),
        stroke("a!undo", 5, 6, kind="undo"),
        stroke("c!undo", 6, 7, kind="undo", status="failed"),
        stroke("f", 7, None, status="running"),
    ]

    wanted = [Look.DONE, Look.FAILED, Look.LOST, Look.WAIT, Look.CANCELLED, Look.UNDO, Look.UNDO_FAILED, Look.RUNNING]
    assert looks(drawn(strokes)) == [{look} for look in wanted]


def test_looks_differ_in_more_than_colour() -> None:
    without_colours = {re.sub(r"saga-b-\w+", "", swatch) for swatch, _ in legend(frozenset(Look))}

    told_by_stroke_or_arrow = {Look.DONE, Look.RUNNING, Look.CANCELLED}  # by their borders: see admin.css
    assert len(without_colours) >= len(Look) - len(told_by_stroke_or_arrow) + 1


def test_every_row_says_in_words_what_it_shows() -> None:
    picture = drawn([stroke("charge", 0, 1), stroke("ship", 1, 2, status="failed")], 2.0)

    told = [
        "".join(each.itertext()) for each in ElementTree.fromstring(svg(picture)).iter() if each.tag.endswith("title")
    ]
    assert told == ["charge: done", "ship: failed"]


def test_attempts_that_failed_are_marked_where_they_ended() -> None:
    picture = drawn(
        [stroke("charge", 0, 10)], marks=(Mark("charge", 1, at(2.5), "fail", 1), Mark("gone", 1, at(3), "fail"))
    )

    assert picture.rows[0].marks == [(0.25, "fail")]


# -- the scale -------------------------------------------------------------------------------------------------------
def test_work_of_seconds_is_seen_beside_a_wait_of_days() -> None:
    picture = drawn(
        [stroke("a", 0, 1), stroke("wait", 1, 172_801, kind="signal"), stroke("b", 172_801, 172_803)], 172_803
    )

    first, wait, last = (row.bars[-1] for row in picture.rows)
    assert first.end - first.begin > 0.1 and last.end - last.begin > 0.2
    assert wait.end - wait.begin < 0.5
    assert "2 d" in svg(picture)


def test_a_scale_goes_one_way_and_comes_back() -> None:
    numbers = random.Random(7)
    for _ in range(200):
        edges = sorted(numbers.uniform(0, 10 ** numbers.uniform(0, 6)) for _ in range(8))
        scale = elastic(at(0), at(edges[-1]), [(at(a), at(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)])
        places = [scale.place(at(edge)) for edge in edges]

        assert places == sorted(places) and places[0] >= 0 and places[-1] == 1
        for edge, place in zip(edges, places, strict=True):
            assert abs((scale.instant(place) - at(edge)).total_seconds()) < 1e-3 + edge * 1e-6


def test_no_time_at_all_is_a_picture_too() -> None:
    for strokes in ([], [stroke("a", 0, 0)], [stroke("a", 0, None, kind="record")]):
        ElementTree.fromstring(svg(drawn(strokes, 0.0)))


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.04, "40 ms"),
        (1.25, "1.25 s"),
        (59, "59 s"),
        (90, "1 min 30 s"),
        (7200, "2 h"),
        (183_600, "2 d 3 h"),
        (-5, "-5 s"),
    ],
)
def test_durations_are_told_by_two_units(seconds: float, told: str) -> None:
    assert span_text(timedelta(seconds=seconds)) == told


@pytest.mark.parametrize(
    ("kind", "status", "in_s", "told"),
    [
        ("signal", "waiting", 172_800, "times out in 2 d"),
        ("timer", "waiting", 60, "ends in 1 min"),
        ("step", "scheduled", 5, "due in 5 s"),
        ("signal", "waiting", -5, "due 5 s ago"),
        ("step", "running", 5, ""),
    ],
)
def test_what_is_due_is_told_by_what_happens_then(kind: str, status: str, in_s: float, told: str) -> None:
    now = datetime(2026, 5, 4, tzinfo=UTC)

    assert due(kind, status, now + timedelta(seconds=in_s), now) == told


# -- many steps ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["label[{}]", "charge#{}", "step{}", "a{}/b[{}]"])
def test_ten_thousand_steps_are_few_rows_and_few_bytes(name: str) -> None:
    strokes = [
        stroke(name.replace("{}", str(n)), n * 0.01, n * 0.01 + 0.3, status="failed" if n % 50 == 0 else "done")
        for n in range(10_000)
    ]

    picture = drawn(strokes, 101.0, tuple(Mark(each.key, 1, each.ended_at, "fail") for each in strokes[:500]))
    text = svg(picture)

    assert len(picture.rows) <= ROWS and picture.is_shared
    assert sum(row.steps for row in picture.rows) == 10_000
    assert max(len(row.bars) for row in picture.rows) <= CELLS
    assert len(text.encode()) < 400_000
    ElementTree.fromstring(text)


def test_one_failure_among_ten_thousand_is_seen() -> None:
    strokes = [
        stroke(f"m[{n}]", n * 0.01, n * 0.01 + 0.3, status="lost" if n == 7_777 else "done") for n in range(10_000)
    ]

    assert Look.LOST in looks(drawn(strokes, 101.0))[0]
    assert "1 lost" in drawn(strokes, 101.0).rows[0].told


def test_up_to_forty_steps_have_a_row_each() -> None:
    assert [row.label for row in drawn([stroke(f"m[{n}]", n, n + 1) for n in range(ROWS)], 41.0).rows] == [
        f"m[{n}]" for n in range(ROWS)
    ]


def test_names_are_escaped() -> None:
    key = "<script>alert('x')</script>&\""
    text = svg(drawn([stroke(key, 0, 1)]), lambda key, generation: f'?"><script>{key}')

    assert "<script>" not in text
    ElementTree.fromstring(text)


# -- the diagram -----------------------------------------------------------------------------------------------------
def test_a_chart_is_drawn_with_all_its_nodes_and_arrows() -> None:
    nodes = [
        Node("a", 'first\nline <2> & "quoted"', Shape.PILL),
        Node("b", "b", Shape.TWIN),
        Node("c", "c", Shape.FLAG),
    ]
    mermaid = flowchart(
        nodes, [Arrow("a", "b", "on error"), Arrow("a", "c", is_dotted=True)], [Area("inside", [Node("d", "d")])]
    )

    text = flow(mermaid)

    assert text is not None
    found = ElementTree.fromstring(text)
    told = ["".join(each.itertext()) for each in found.iter() if each.tag.endswith("text")]
    assert {"first", 'line <2> & "quoted"', "b", "c", "d", "on error"} <= set(told)
    assert text.count("marker-end") == 2


def test_a_chart_with_a_circle_is_drawn_and_one_that_is_too_large_is_not() -> None:
    nodes = [Node("a", "a"), Node("b", "b")]
    assert flow(flowchart(nodes, [Arrow("a", "b"), Arrow("b", "a")])) is not None
    assert flow(flowchart([Node(str(n), str(n)) for n in range(MOST + 1)], [])) is None
    assert flow(flowchart([], [])) is None
