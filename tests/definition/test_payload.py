"""Arguments of a body: bound as given, refused where they are given, restored for the body."""

from __future__ import annotations

import sys
import typing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Unpack

import pydantic
import pytest
from typing_extensions import TypedDict

from celery_saga.definition.payload import Payload, decode_as
from celery_saga.errors import DefinitionError, InvalidPayload, PayloadTooLarge

if typing.TYPE_CHECKING:
    from shop.nowhere import Missing, Run


class Color(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Item:
    name: str
    price: Decimal


@dataclass(frozen=True)
class Refund:
    id: str
    reason: str = "returned"


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


class Options(TypedDict, total=False):
    gift: bool
    color: Color


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


def mixed(run, first, /, order: Order, *rest: Color, limit: int = 3, **more: Decimal) -> Approval:
    raise NotImplementedError


def test_every_kind_of_parameter_is_bound_by_name_and_comes_back():
    payload = Payload(mixed)
    bound = payload.bind((1, ORDER, Color.RED, "blue"), {"limit": 2, "tip": Decimal(1)})

    assert bound == {
        "first": 1,
        "order": ORDER,
        "rest": [Color.RED, "blue"],
        "limit": 2,
        "more": {"tip": Decimal(1)},
    }
    text, _ = payload.encode(bound)
    assert payload.decode(text) == (
        (1, ORDER, Color.RED, Color.BLUE),
        {"limit": 2, "tip": Decimal(1)},
    )


def test_defaults_are_not_added():
    assert Payload(mixed).bind((1, ORDER), {}) == {"first": 1, "order": ORDER}


def test_positional_and_keyword_are_the_same_call():
    payload = Payload(mixed)

    one = payload.encode(payload.bind((1, ORDER), {}))
    other = payload.encode(payload.bind((1,), {"order": ORDER}))

    assert one == other


def test_an_argument_behind_a_default_comes_back_by_keyword():
    def body(run, a=1, b=2):
        pass

    assert through(Payload(body), b=5) == ((), {"b": 5})


def test_a_wrong_member_of_args_and_kwargs_is_named():
    payload = Payload(mixed)

    with pytest.raises(InvalidPayload, match=r"^rest\[1\]: "):
        payload.bind((1, ORDER, "red", "green"), {})
    with pytest.raises(InvalidPayload, match=r"^tip: "):
        payload.bind((1, ORDER), {"tip": "much"})


def test_kwargs_of_a_typed_dict_are_checked_as_one():
    def body(run, **options: Unpack[Options]):
        pass

    payload = Payload(body)

    assert through(payload, gift=True, color="red") == ((), {"gift": True, "color": Color.RED})
    with pytest.raises(InvalidPayload, match=r"options\.gift"):
        payload.bind((), {"gift": "perhaps"})


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((), {}, r"mixed\(\) missing a required argument: 'first'"),
        ((1,), {}, r"mixed\(\) missing a required argument: 'order'"),
        ((1, ORDER), {"order": 2}, r"mixed\(\) multiple values for argument 'order'"),
    ],
)
def test_a_wrong_call_is_worded_like_pythons_own(args, kwargs, text):
    with pytest.raises(InvalidPayload, match=text):
        Payload(mixed).bind(args, kwargs)


def test_the_saga_is_called_by_its_own_name():
    with pytest.raises(InvalidPayload, match=r"^checkout\(\) missing"):
        Payload(mixed, saga="checkout").bind((), {})


def test_a_limit_names_the_saga_and_both_sizes():
    payload = of(str)
    with pytest.raises(PayloadTooLarge, match=r"'body'.* 5000012 bytes.* 1048576 bytes") as caught:
        payload.encode(payload.bind(("x" * 5_000_000,), {}), 1_048_576)

    assert caught.value.limit_bytes == 1_048_576


def test_digests_tell_values_apart_and_not_the_order_of_keys():
    payload = of(Any)

    def digest(value: object) -> str:
        return payload.encode({"value": value})[1]

    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest(1) != digest(True)


def test_bound_values_of_the_caller_are_not_changed():
    value = {"id": "o1", "items": []}
    of(Order).bind((value,), {})

    assert value == {"id": "o1", "items": []}


# Changed code


def test_stored_arguments_of_a_removed_parameter_are_refused():
    with pytest.raises(InvalidPayload, match=r"'gone'.*new version"):
        of(int).decode('{"value":1,"gone":2}')


def test_stored_arguments_without_a_new_required_parameter_are_refused():
    with pytest.raises(InvalidPayload, match=r"missing a required argument: 'value'"):
        of(int).decode("{}")


def test_stored_arguments_of_another_type_are_refused():
    with pytest.raises(InvalidPayload, match=r"value: .*left as they are"):
        of(int).decode('{"value":"abc"}')


def test_a_stored_text_that_is_no_mapping_is_refused():
    with pytest.raises(InvalidPayload):
        of(int).decode("[1]")


# Definitions


def test_the_annotation_of_the_run_may_be_unresolvable():
    def body(run: Run, value: int):
        pass

    assert through(Payload(body), 1) == ((1,), {})


def test_an_unresolvable_annotation_is_named():
    def body(run, value: Missing):
        pass

    with pytest.raises(DefinitionError, match=r"saga 'body'.*Missing.*'value'"):
        Payload(body)


def test_an_unresolvable_result_is_named():
    def body(run) -> Missing:
        pass

    with pytest.raises(DefinitionError, match=r"Missing.*'return'"):
        Payload(body)


def test_local_classes_are_found():
    @dataclass
    class Local:
        size: Color

    def body(run, value: Local, more: list[Local]) -> Local:
        raise NotImplementedError

    def wrapped_once_more() -> Payload:
        return Payload(body)

    payload = wrapped_once_more()
    value = Local(Color.RED)

    assert through(payload, value, [value]) == ((value, [value]), {})
    assert payload.result_type is Local


@pytest.mark.skipif(not hasattr(pydantic.TypeAdapter, "rebuild"), reason="pydantic can from 2.10 on")
def test_a_local_class_that_names_a_local_class_is_found():
    @dataclass
    class Part:
        size: Color

    @dataclass
    class Local:
        part: Part

    def body(run, value: Local):
        pass

    assert through(Payload(body), Local(Part(Color.RED))) == ((Local(Part(Color.RED)),), {})


def test_local_models_are_found():
    class Part(pydantic.BaseModel):
        size: Color

    class Local(pydantic.BaseModel):
        parts: list[Part]

    def body(run, value: Local):
        pass

    value = Local(parts=[Part(size="red")])

    assert through(Payload(body), value) == ((value,), {})


def test_a_local_class_that_names_what_is_nowhere_is_refused():
    @dataclass
    class Local:
        part: Nowhere  # noqa: F821

    with pytest.raises(DefinitionError, match=r"'value'.*Local.*Nowhere"):
        of(Local)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic takes typing.TypedDict from 3.12 on")
def test_a_typed_dict_that_pydantic_does_not_take_is_refused_with_the_remedy():
    with pytest.raises(DefinitionError, match=r"typing_extensions\.TypedDict"):
        of(typing.TypedDict("Old", {"a": int}))


@pytest.mark.parametrize("annotation", [Opaque, list[Opaque], Opaque | None], ids=str)
def test_a_type_that_no_stored_value_can_become_is_refused_at_definition(annotation):
    with pytest.raises(DefinitionError, match=r"'value'.*Opaque"):
        of(annotation)


def test_a_body_without_a_run_is_refused():
    def nothing():
        pass

    def keyword(*, run):
        pass

    def keywords(**run):
        pass

    for body in (nothing, keyword, keywords):
        with pytest.raises(DefinitionError, match=rf"def {body.__name__}\(run: Run"):
            Payload(body)


def test_the_result_type_is_the_return_annotation():
    def plain(run):
        pass

    def nothing(run) -> None:
        pass

    assert Payload(mixed).result_type is Approval
    assert Payload(plain).result_type is Any
    assert decode_as(Payload(nothing).result_type, None) is None


def test_a_mapping_without_a_default_is_the_same_input_as_the_instance_made_from_it() -> None:
    payload = of(Refund)

    _, of_mapping = payload.encode(payload.bind(({"id": "o1"},), {}))
    _, of_instance = payload.encode(payload.bind((Refund("o1"),), {}))

    assert of_mapping == of_instance
