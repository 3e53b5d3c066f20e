"""Stored texts, tokens, graphs and canvases that somebody has damaged: read, or refused by a named error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from celery import Celery
from hypothesis import assume
from hypothesis import strategies as st

from celery_saga import DefinitionError, InvalidPayload, Saga, SignalDuplicate, SignalExpired
from celery_saga.core import codec
from celery_saga.definition.canvas import from_plain, read_canvas, to_plain
from celery_saga.definition.graph.check import all_faults
from celery_saga.engine import tokens
from celery_saga.errors import InvalidToken
from tests.canvases.shapes import shapes, with_tasks
from tests.fuzz.nonsense import damaged, fuzz, texts, values
from tests.graphs.corpus import GOOD
from tests.scenarios.house import House

EXAMPLES = pytest.mark.parametrize("examples", [60, pytest.param(1000, marks=pytest.mark.heavy)])
TAGS = ("tuple", "set", "frozenset", "bytes", "date", "time", "datetime", "timedelta", "decimal", "uuid", "int", "map")
KEYS = ["a key of sixteen characters and more"]


@EXAMPLES
def test_a_stored_text_is_read_or_refused(examples: int) -> None:
    tagged = st.recursive(
        values,
        lambda inner: st.one_of(
            st.lists(inner, max_size=2), st.dictionaries(st.sampled_from([f"${tag}" for tag in TAGS] + ["a"]), inner)
        ),
        max_leaves=8,
    )

    def check(text: str) -> None:
        with suppress(InvalidPayload):
            value = codec.decode(text)
            assert codec.decode(codec.encode(value)) == value

    fuzz(examples, st.one_of(texts, tagged.map(json.dumps)), check)


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with House("sqlite://") as built:
        with_tasks(built.app)
        yield built


@EXAMPLES
def test_a_token_is_refused_by_its_name(examples: int, house: House) -> None:
    signer = tokens._serializer(KEYS, "a test")
    four = st.tuples(texts, values, texts, texts).map(list)

    def sign(said: Any) -> str:
        try:
            return tokens.PREFIX + str(signer.dumps(said))
        except UnicodeEncodeError:
            assume(False)
            raise

    def check(text: Any) -> None:
        with pytest.raises((InvalidToken, SignalDuplicate, SignalExpired)):
            tokens.redeemable(house.engine.world, KEYS, text, "a test")

    unsigned = texts.map(lambda text: tokens.PREFIX + text)
    fuzz(examples, st.one_of(values, unsigned, four.map(sign), values.map(sign)), check)


@EXAMPLES
def test_a_graph_is_taken_or_refused(examples: int) -> None:
    def check(graph: Any) -> None:
        faults = all_faults(graph)
        try:
            Saga.from_graph(graph)
        except (DefinitionError, InvalidPayload):
            return
        assert not faults

    fuzz(examples, st.one_of(damaged(st.sampled_from(list(GOOD.values()))), values), check)


@EXAMPLES
def test_a_canvas_is_taken_or_refused(examples: int, house: House) -> None:
    def check(plain: Any) -> None:
        with suppress(DefinitionError, InvalidPayload):
            node = read_canvas(plain, "durable()", "nothing was started")
            assert from_plain(to_plain(node)) == node

    fuzz(examples, st.one_of(damaged(shapes.map(lambda shape: _json(shape, house.app))), values), check)


@EXAMPLES
def test_a_stored_canvas_is_read_or_refused(examples: int, house: House) -> None:
    def stored(shape: Any) -> Any:
        try:
            return to_plain(read_canvas(_json(shape, house.app), "durable()", "nothing was started"))
        except (DefinitionError, InvalidPayload):
            assume(False)

    def check(plain: Any) -> None:
        with suppress(DefinitionError, InvalidPayload):
            from_plain(plain)

    fuzz(examples, st.one_of(damaged(shapes.map(stored)), values), check)


def _json(shape: Any, app: Celery) -> Any:
    try:
        return json.loads(json.dumps(shape.build(app)))
    except (AttributeError, TypeError):  # Celery itself cannot build or write it
        assume(False)
