"""Each annotated type: what fits it, what is stored of it, and what comes back."""

from __future__ import annotations

import subprocess
import sys
import typing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from celery_saga.core import codec
from celery_saga.definition import payload as payload_module
from celery_saga.definition.payload import Payload, check_type, decode_as, validate_as
from celery_saga.errors import DefinitionError, InvalidPayload

if typing.TYPE_CHECKING:
    pass


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Size(IntEnum):
    SMALL = 1


@dataclass(frozen=True)
class Item:
    name: str
    price: Decimal


@dataclass
class Order:
    id: str
    items: list[Item] = field(default_factory=list)
    placed_at: datetime | None = None
    total: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.total = len(self.items)


class Approval(pydantic.BaseModel):
    by: str
    cents: int = 0
    callback: pydantic.HttpUrl | None = None
    tags: set[str] = set()


class Camel(pydantic.BaseModel):
    order_id: str = pydantic.Field(alias="orderId")
    inner: Approval | None = None


class OnlyInputName(pydantic.BaseModel):
    order_id: str = pydantic.Field(validation_alias="in", serialization_alias="out")


class Choices(pydantic.BaseModel):
    order_id: str = pydantic.Field(validation_alias=pydantic.AliasChoices("order", "id"))


class Deep(pydantic.BaseModel):
    order_id: str = pydantic.Field(validation_alias=pydantic.AliasPath("order", "id"))


class Numbers(pydantic.RootModel[list[int]]):
    pass


class Options(TypedDict, total=False):
    gift: bool
    color: Color


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Place:
    path: Path


class Opaque:
    pass


ORDER = Order("o1", [Item("cup", Decimal("1.50"))], datetime(2026, 1, 2, tzinfo=UTC))


def through(payload: Payload, *args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    text, _ = payload.encode(payload.bind(args, kwargs))
    return payload.decode(text)


def of(annotation: Any) -> Payload:
    def body(run, value):
        pass

    body.__annotations__["value"] = annotation
    return Payload(body)


def _called(value: object) -> str:
    """Part of a test's name: the same in every process."""
    return str(sorted(value, key=str) if isinstance(value, set | frozenset) else value)[:30]


TYPED = [
    (Order, ORDER),
    (Item, Item("cup", Decimal("1.5"))),
    (Approval, Approval(by="boss", callback="https://a.example/x", tags={"a"})),
    (Camel, Camel(orderId="o1", inner=Approval(by="me"))),
    (Numbers, Numbers([1, 2])),
    (Color, Color.RED),
    (Size, Size.SMALL),
    (list[Order], [ORDER, ORDER]),
    (dict[str, Color], {"a": Color.BLUE}),
    (set[Color], {Color.RED, Color.BLUE}),
    (tuple[Color, int], (Color.RED, 1)),
    (Order | None, None),
    (Order | None, ORDER),
    (Order | Approval, Approval(by="x")),
    (Options, {"gift": True, "color": Color.RED}),
    (Point, Point(1, 2)),
    (Place, Place(Path("/a/b"))),
    (Decimal, Decimal("1.10")),
    (UUID, UUID(int=5)),
    (date, date(2026, 1, 1)),
    (timedelta, timedelta(days=2)),
    (bytes, b"\xff"),
    (frozenset[int], frozenset({1})),
    (Annotated[int, pydantic.Field(gt=0)], 5),
    (Any, {"a": (1, 2)}),
    (object, [1]),
]


@pytest.mark.parametrize(("annotation", "value"), TYPED, ids=_called)
def test_an_annotated_value_comes_back_typed(annotation, value):
    (again,), kwargs = through(of(annotation), value)

    assert again == value
    assert type(again) is type(value)
    assert kwargs == {}


@pytest.mark.parametrize(
    ("model", "stored"),
    [
        (Camel(orderId="o1"), '{"orderId":"o1","inner":null}'),
        (OnlyInputName(**{"in": "o1"}), '{"in":"o1"}'),
        (Choices(id="o1"), '{"order":"o1"}'),
    ],
    ids=lambda x: type(x).__name__,
)
def test_a_model_is_stored_under_the_names_that_it_takes(model, stored):
    assert codec.encode(model) == stored
    assert through(of(type(model)), model) == ((model,), {})


@pytest.mark.skipif(not payload_module._BY_NAME, reason="pydantic takes fields by name from 2.11 on")
def test_a_model_that_takes_a_field_from_deep_inside_comes_back():
    model = Deep(order={"id": "o1"})

    assert through(of(Deep), model) == ((model,), {})


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (Approval, {"by": "boss"}, Approval(by="boss")),
        (Camel, {"orderId": "o1"}, Camel(orderId="o1")),
        (Order, {"id": "o1"}, Order("o1")),
        (Color, "red", Color.RED),
        (Decimal, "1.5", Decimal("1.5")),
    ],
)
def test_what_becomes_the_type_may_be_given_and_is_stored_as_given(annotation, value, expected):
    payload = of(annotation)
    bound = payload.bind((value,), {})
    text, _ = payload.encode(bound)

    assert bound == {"value": value}
    assert codec.decode(text) == {"value": value}
    assert payload.decode(text) == ((expected,), {})


@pytest.mark.parametrize(
    ("annotation", "value", "path"),
    [
        (int, "abc", "value"),
        (str, 3, "value"),
        (int, 1.5, "value"),
        (int, None, "value"),
        (Order, {"id": "x", "items": [{"name": "a"}]}, "value.items[0].price"),
        (Order, Order("x", [Item("a", "no number")]), "value.items[0].price"),  # type: ignore[arg-type]
        (list[Color], ["red", "green"], "value[1]"),
        (Approval, {"cents": 1}, "value.by"),
        (Options, {"gift": "perhaps"}, "value.gift"),
        (Any, {"a": [float("nan")]}, "value.a[0]"),
        (Any, Opaque(), "value"),
        (Any, {1: 2}, "value"),
        (Any, {"__type__": "x"}, "value.__type__"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_path(annotation, value, path):
    with pytest.raises(InvalidPayload) as caught:
        of(annotation).bind((value,), {})

    assert caught.value.path == path
    assert path in str(caught.value)
    assert "nothing was written" in str(caught.value)


def test_the_error_of_a_wrong_value_does_not_repeat_the_value():
    with pytest.raises(InvalidPayload) as caught:
        of(int).bind(("secret-4111",), {})

    assert "secret" not in str(caught.value)
    assert "got str" in str(caught.value)


def test_many_wrong_values_are_counted():
    with pytest.raises(InvalidPayload, match=r"value\[2\].*and 7 more"):
        of(list[int]).bind((["x"] * 10,), {})


@settings(deadline=None)
@given(
    st.builds(
        Order,
        st.text(st.characters(codec="utf-8")),
        st.lists(
            st.builds(
                Item,
                st.text(st.characters(codec="utf-8")),
                st.decimals(allow_nan=False, allow_infinity=False),
            )
        ),
        st.none() | st.datetimes(timezones=st.timezones()),
    )
)
def test_any_order_comes_back(order):
    (again,), _ = through(of(Order), order)

    assert again == order


# Results and signals


@pytest.mark.parametrize(("annotation", "value"), TYPED, ids=_called)
def test_a_result_comes_back_as_its_type(annotation, value):
    assert validate_as(annotation, value, "result") == value

    again = decode_as(annotation, codec.decode(codec.encode(value)))

    assert again == value
    assert type(again) is type(value)


@pytest.mark.parametrize("type_", [None, Any])
def test_without_a_type_a_value_stays_as_it_is(type_):
    assert decode_as(type_, {"a": (1,)}) == {"a": (1,)}
    assert validate_as(type_, {"a": (1,)}, "result") == {"a": (1,)}


def test_a_value_that_cannot_be_stored_is_refused_also_without_a_type():
    with pytest.raises(InvalidPayload, match=r"^result\.a: "):
        validate_as(None, {"a": Opaque()}, "result")


def test_a_wrong_signal_value_is_named():
    with pytest.raises(InvalidPayload, match=r"^signal 'approval'\.by: "):
        validate_as(Approval, {"by": 3}, "signal 'approval'")


def test_a_wrong_stored_value_is_refused():
    with pytest.raises(InvalidPayload, match=r"left as it is"):
        decode_as(int, "abc")


def test_an_annotation_that_cannot_be_hashed_works():
    typed = Annotated[int, pydantic.Field(gt=0), ["a list"]]

    assert decode_as(typed, 3) == 3
    with pytest.raises(InvalidPayload):
        decode_as(typed, -3)


def test_a_signals_type_is_checked_at_definition():
    check_type(Approval, "signal 'approval'")
    check_type(None, "signal 'approval'")
    with pytest.raises(DefinitionError, match=r"signal 'approval'.*Opaque"):
        check_type(Opaque, "signal 'approval'")


def test_the_codec_needs_no_pydantic():
    code = "import sys, celery_saga.core.failure; sys.exit('pydantic' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
