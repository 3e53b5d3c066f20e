"""Where runs are in traces, as their headers say."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from celery_saga.core.records import RunRecord
from celery_saga.core.status import RunStatus
from celery_saga.core.trace_context import (
    LINK,
    PARENT,
    Place,
    from_text,
    headers_of,
    of_child,
    place_of,
    renewed,
    sent_headers,
)

_AT = datetime(2026, 1, 1, tzinfo=UTC)
_TEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
_RUN = RunRecord("run-1", "order", 1, None, RunStatus.RUNNING, _AT, _AT)
_TRACED = replace(_RUN, headers_text=json.dumps({PARENT: _TEXT, "tracestate": "v=1", "tenant": "t"}))


def _place(run: RunRecord) -> Place:
    found = place_of(run, headers_of(run))
    assert found is not None
    return found


@pytest.mark.parametrize(
    "text",
    ["", "00", None, 3, _TEXT.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32), _TEXT.upper(), _TEXT + "-x"],
)
def test_what_is_no_traceparent_is_no_place(text: object) -> None:
    assert from_text(text) is None


def test_a_place_comes_back_with_its_flag() -> None:
    there, unsampled = from_text(_TEXT), from_text(_TEXT[:-2] + "00")

    assert there is not None and there.to_text() == _TEXT
    assert unsampled is not None and not unsampled.sampled


def test_messages_name_the_runs_own_span_and_keep_what_else_was_captured() -> None:
    sent = sent_headers(_TRACED)

    assert from_text(sent.pop(PARENT)) == _place(_TRACED)
    assert sent == {"tracestate": "v=1", "tenant": "t"}
    assert _place(_TRACED).to_text() != _TEXT
    assert sent_headers(_RUN) == {}


def test_each_generation_has_a_span_of_its_own_in_the_same_trace() -> None:
    places = [_place(replace(_TRACED, generation=number)) for number in (1, 2)]

    assert len({each.span_id for each in places}) == 2
    assert len({each.trace_id for each in places}) == 1


def test_a_child_is_in_its_parents_span_and_a_detached_one_is_linked_to_it() -> None:
    child, detached = (json.loads(of_child(_TRACED, is_detached=each)) for each in (False, True))

    assert child == {PARENT: _place(_TRACED).to_text(), "tracestate": "v=1", "tenant": "t"}
    assert detached == {LINK: _place(_TRACED).to_text(), "tenant": "t"}


def test_what_begins_again_is_linked_to_the_generation_before_each_time() -> None:
    second = replace(_TRACED, generation=2, headers_text=renewed(_TRACED))
    third = replace(second, generation=3, headers_text=renewed(second))

    assert headers_of(second) == {LINK: _place(_TRACED).to_text(), "tenant": "t"}
    linked = from_text(headers_of(third)[LINK])
    assert linked is not None and linked.trace_id != _place(_TRACED).trace_id
    assert sent_headers(third) == {"tenant": "t"}


def test_what_nobody_traced_keeps_its_headers_as_they_are() -> None:
    run = replace(_RUN, headers_text='{"tenant":  "t"}')

    assert {of_child(run, is_detached=False), of_child(run, is_detached=True), renewed(run)} == {run.headers_text}
