"""What messages of the inbox do, and how each that does nothing is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from celery_saga import Run, SagaError, saga
from celery_saga.runtime.inbox import Done, take
from tests.announcing.house import House, house_with


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with house_with(f"sqlite:///{tmp_path}/sagas.db") as found:
        yield found


def tell(house: House, message: Any) -> Done:
    return take(house.saga, json.dumps(message).encode())


def test_a_run_is_started_by_position_and_by_name(house: House) -> None:
    by_name = tell(house, {"start": {"saga": "order", "input": {"number": "o1"}}})
    by_place = tell(house, {"start": {"saga": "order", "args": ["o2"], "version": 1}})

    assert (by_name.what, by_place.what) == ("started", "started")
    assert [house.saga.get(each.run_id).result for each in (by_name, by_place)] == ["s-o1", "s-o2"]


@pytest.mark.parametrize("what", [{"key": "order-1"}, {"id": "message-1"}])
def test_a_start_with_a_key_or_an_id_that_comes_again_finds_its_run(house: House, what: dict[str, str]) -> None:
    message = {"start": {"saga": "order", "args": ["o1"], **what}}

    first, second = tell(house, message), tell(house, message)

    assert (first.what, second.what) == ("started", "found")
    assert first.run_id == second.run_id
    assert house.calls == ["reserve o1", "ship o1"]


def test_a_signal_goes_to_a_run_by_its_id_or_its_key_and_counts_once(house: House) -> None:
    run = house.approval.options(key="k").start()
    other = house.approval.start()
    message = {"saga": "house-approval", "key": "k", "signal": "go", "id": "1", "value": "yes"}

    assert tell(house, message) == Done(run.id, "delivered")
    assert tell(house, {"run_id": other.id, "signal": "go", "value": "no"}).what == "delivered"
    assert [each.refresh().result for each in (run, other)] == ["yes", "no"]


def test_a_signal_that_comes_again_while_its_run_lives_is_done(house: House) -> None:
    @saga(name="twice")
    def twice(run: Run) -> list[Any]:
        return [run.wait_signal("a"), run.wait_signal("b")]

    run = twice.start()
    message = {"run_id": run.id, "signal": "a", "id": "1", "value": 1}

    assert [tell(house, message).what for _ in range(2)] == ["delivered", "duplicate"]


def test_a_signal_that_comes_again_after_the_end_is_done_if_it_was_taken(house: House) -> None:
    run = house.approval.start()
    message = {"run_id": run.id, "signal": "go", "id": "1", "value": "yes"}

    assert [tell(house, message).what for _ in range(2)] == ["delivered", "duplicate"]
    with pytest.raises(SagaError) as refused:
        tell(house, {**message, "id": "2"})
    assert refused.value.code == "SIGNAL_EXPIRED"


def test_a_signal_before_its_run_waits_for_it(house: House) -> None:
    before = tell(house, {"saga": "house-approval", "key": "later", "signal": "go", "value": "early"})
    run = house.approval.options(key="later").start()

    assert before == Done(run.id, "kept")
    assert run.refresh().result == "early"


NOBODY = "11111111-1111-4111-8111-111111111111"


@pytest.mark.parametrize(
    ("message", "code", "says"),
    [
        (b"\xff\xfe", "INVALID_ARGUMENT", "is no UTF-8, at byte 0"),
        (b"", "INVALID_ARGUMENT", "is no JSON"),
        (b"[" * 100_000, "INVALID_ARGUMENT", "nests too deep"),
        (b'{"start": {"saga": "rich", "args": [NaN]}}', "INVALID_ARGUMENT", "holds NaN, which is no number of JSON"),
        (b"9" * 5000, "INVALID_ARGUMENT", "a number that cannot be read"),
        (
            b'{"start": {"saga": "order", "args": ["o1"], "args": ["o2"]}}',
            *("INVALID_ARGUMENT", "names a member twice"),
        ),
        (b'{"start": {"saga": "rich", "args": [{"a": 1, "a": 2}]}}', "INVALID_ARGUMENT", "names a member twice"),
        ({"signal": "", "run_id": NOBODY}, "INVALID_ARGUMENT", "signal must be text, and not empty, got an empty text"),
        ({"signal": "go", "run_id": 5}, "INVALID_ARGUMENT", "run_id must be text, and not empty, got a number"),
        (
            {"signal": "go", "run_id": NOBODY, "id": "x" * 201},
            *("INVALID_ARGUMENT", "id must be text of 1 to 200 characters, got text of 201 characters"),
        ),
        ([1], "INVALID_ARGUMENT", "must be an object, got a list"),
        ({}, "INVALID_ARGUMENT", "signal is missing"),
        ({"signal": "go"}, "INVALID_ARGUMENT", "names a run either by run_id, or by saga and key"),
        ({"signal": "go", "run_id": NOBODY, "key": "k"}, "INVALID_ARGUMENT", "names a run either by"),
        ({"signal": "go", "run_id": NOBODY}, "RUN_NOT_FOUND", "there is no such run"),
        ({"signal": "go", "run_id": "x" * 500}, "INVALID_ARGUMENT", "at most 64"),
        ({"signal": "go", "saga": "none", "key": "k"}, "UNKNOWN_SAGA", "knows no saga 'none'"),
        ({"signal": "go", "saga": "house-approval", "key": ""}, "INVALID_ARGUMENT", "key"),
        (
            {"signal": "go", "saga": "house-approval", "key": {"a" * 100_000: 1}},
            "INVALID_ARGUMENT",
            "(100007 characters)",
        ),
        ({"signal": "go", "saga": "house-approval", "key": "k", "value": 5}, "INVALID_ARGUMENT", "go"),
        ({"signal": "stop", "saga": "house-approval", "key": "k"}, "SIGNAL_NOT_EXPECTED", "declare"),
        ({"signal": "!cancel", "saga": "house-approval", "key": "k"}, "INVALID_ARGUMENT", "'!'"),
        ({"signal": "go", "saga": "house-approval", "key": "k", "id": 5}, "INVALID_ARGUMENT", "id must be text"),
        ({"signal": "go", "saga": "house-approval", "key": "k", "id": "\ud800"}, "INVALID_ARGUMENT", "surrogate"),
        ({"signal": "go", "saga": "house-approval", "key": "k", "vale": 5}, "INVALID_ARGUMENT", "has 'vale', but"),
        ({"start": 5}, "INVALID_ARGUMENT", "start must be an object"),
        ({"start": {}}, "INVALID_ARGUMENT", "start.saga is missing"),
        ({"start": {"saga": "none"}}, "UNKNOWN_SAGA", "knows no saga 'none'"),
        ({"start": {"saga": "celery_saga.canvas"}}, "UNKNOWN_SAGA", "knows no saga"),
        ({"start": {"saga": "order", "version": 9}}, "UNKNOWN_SAGA", "version 9"),
        ({"start": {"saga": "order"}}, "INVALID_ARGUMENT", "missing a required argument"),
        ({"start": {"saga": "order", "args": [1]}}, "INVALID_ARGUMENT", "number"),
        ({"start": {"saga": "order", "args": "o1"}}, "INVALID_ARGUMENT", "start.args must be a list"),
        ({"start": {"saga": "order", "input": ["o1"]}}, "INVALID_ARGUMENT", "start.input must be an object"),
        ({"start": {"saga": "rich", "args": ["x" * 2_000_000]}}, "PAYLOAD_TOO_LARGE", ""),
        ({"start": {"saga": "rich", "args": ["\ud800"]}}, "INVALID_ARGUMENT", "surrogate"),
        ({"start": {"saga": "order", "args": ["o1"]}, "signal": "go"}, "INVALID_ARGUMENT", "has 'signal', but"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_code(house: House, message: Any, code: str, says: str) -> None:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()

    with pytest.raises(SagaError) as refused:
        take(house.saga, body)

    assert refused.value.code == code
    assert says in str(refused.value)
    assert len(str(refused.value)) < 2_000
    assert list(house.saga.runs()) == []


def test_another_input_under_a_key_is_refused(house: House) -> None:
    tell(house, {"start": {"saga": "order", "args": ["o1"], "key": "k"}})

    with pytest.raises(SagaError) as refused:
        tell(house, {"start": {"saga": "order", "args": ["o2"], "key": "k"}})

    assert refused.value.code == "IDEMPOTENCY_CONFLICT"
    assert "key 'k'" in str(refused.value)


def test_another_input_under_an_id_is_refused_and_no_key_is_spoken_of(house: House) -> None:
    tell(house, {"start": {"saga": "order", "args": ["o1"], "id": "m1"}})

    with pytest.raises(SagaError) as refused:
        tell(house, {"start": {"saga": "order", "args": ["o2"], "id": "m1"}})

    assert refused.value.code == "IDEMPOTENCY_CONFLICT"
    assert "under this id" in str(refused.value)
    assert "key" not in str(refused.value)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["order", "go", "k", NOBODY]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_FIELDS = st.sampled_from(["start", "saga", "key", "signal", "id", "value", "run_id", "version", "args", "input", "x"])
_LIKELY = st.dictionaries(_FIELDS, _VALUES | st.dictionaries(_FIELDS, _VALUES, max_size=4), max_size=5)
_BODIES = st.binary(max_size=200) | (_VALUES | _LIKELY).map(lambda value: json.dumps(value).encode())


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_BODIES)
def test_whatever_a_body_is_it_is_done_or_refused_by_name(house: House, body: bytes) -> None:
    try:
        done = take(house.saga, body)
    except SagaError as error:
        assert error.code in {
            *("INVALID_ARGUMENT", "UNKNOWN_SAGA", "RUN_NOT_FOUND", "SIGNAL_NOT_EXPECTED", "SIGNAL_EXPIRED"),
            *("IDEMPOTENCY_CONFLICT", "PAYLOAD_TOO_LARGE"),
        }
    else:
        assert done.what in {"started", "found", "delivered", "kept", "duplicate"}
