"""Definitions: what they accept, what makes two starts one run, what they refuse."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import pytest

from celery_saga import Retry, Run, Saga, Signal, saga
from celery_saga.definition.keys import new_run_id
from celery_saga.definition.registry import Registry
from celery_saga.errors import DefinitionError, InvalidPayload


@dataclass(frozen=True)
class Order:
    id: str | None
    cents: int = 0
    lines: tuple[str, ...] = ()
    day: date | None = None


def keyed(key: Any) -> Saga[[Order, str], None]:
    @saga(key=key)
    def checkout(run: Run, order: Order, region: str = "eu") -> None: ...

    return checkout


# -- keys ---------------------------------------------------------------------------------------------------------
def test_the_run_id_follows_from_name_and_key_alone() -> None:
    checkout = keyed("{order.id}")

    ids = {checkout.run_id(Order("o1", cents=cents)) for cents in (1, 2)}

    assert ids == {checkout.run_id(order={"id": "o1"})}  # type: ignore[call-arg, arg-type]
    assert uuid.UUID(ids.pop()).version == 5
    assert checkout.run_id(Order("o2")) != checkout.run_id(Order("o1"))


def test_ids_of_runs_without_a_key_are_in_the_order_of_time_and_differ() -> None:
    begun_ms = time.time_ns() // 1_000_000
    many = [new_run_id() for _ in range(2000)]
    ended_ms = time.time_ns() // 1_000_000

    ids = [uuid.UUID(each) for each in many]

    assert {(each.version, each.variant) for each in ids} == {(7, uuid.RFC_4122)}
    assert len({each.int & (1 << 62) - 1 for each in ids}) == len(ids)  # drawn at random
    times = [each.int >> 80 for each in ids]
    assert times == sorted(times) and begun_ms <= times[0] and times[-1] <= ended_ms


@pytest.mark.parametrize(
    ("key", "same_as"),
    [
        ("{order.id}", "o1"),
        ("{region}-{order.id}", "eu-o1"),
        ("{order.lines[0]}", "a"),
        ("{order.day}", "2026-01-02"),
        ("a{{b}}{order.cents}", "a{b}7"),
        (lambda order, region: f"{region}/{order.id}", "eu/o1"),
    ],
)
def test_a_template_or_a_function_gives_the_key(key: Any, same_as: str) -> None:
    order = Order("o1", 7, ("a", "b"), date(2026, 1, 2))

    assert keyed(key).run_id(order) == keyed(None).options(key=same_as).run_id(order)


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("{order.__class__}", "private name"),
        ("{order._id}", "private name"),
        ("{order.id.upper()}", "not a parameter with attributes"),
        ("{customer.id}", "'customer' is no parameter"),
        ("{order.id!r}", "format or conversion"),
        ("{order.cents:05d}", "format or conversion"),
        ("{}", "not a parameter"),
        ("{order.id", "nothing was registered"),
        ("constant", "names no parameter"),
        ("", "names no parameter"),
        (7, "takes a template"),
    ],
)
def test_a_bad_template_is_refused_when_it_is_defined(key: Any, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        keyed(key)


@pytest.mark.parametrize(
    ("key", "order"),
    [
        ("{order.id}", Order(None)),
        ("x-{order.id}", Order(None)),
        ("{order.id}", Order("")),
        ("{order.lines[3]}", Order("o1")),
        ("{order.lines}", Order("o1")),
        ("{order.id}", Order("x" * 256)),
        ("{order.id}", Order("a\nb")),
        (lambda order, region: None, Order("o1")),
        (lambda order, region: "", Order("o1")),
        (lambda order, region: 7, Order("o1")),
    ],
)
def test_a_key_that_would_merge_different_runs_is_refused(key: Any, order: Order) -> None:
    with pytest.raises(InvalidPayload, match="nothing was written") as caught:
        keyed(key).run_id(order)

    assert caught.value.path == "key"


@pytest.mark.parametrize("key", [None, "", "  ", 7, "x" * 256, "a\x00b"])
def test_a_key_given_to_options_or_find_must_be_one(key: Any) -> None:
    with pytest.raises(InvalidPayload):
        keyed(None).options(key=key)
    with pytest.raises(InvalidPayload):
        keyed(None).find(key=key)


def test_without_a_key_there_is_no_id_before_the_start() -> None:
    with pytest.raises(DefinitionError, match="has no key="):
        keyed(None).run_id(Order("o1"))


# -- bodies -------------------------------------------------------------------------------------------------------
async def coroutine(run: Run) -> None: ...


async def asynchronous_generator(run: Run) -> AsyncIterator[int]:
    yield 1


def generator(run: Run) -> Iterator[int]:
    yield 1


def without_run() -> None: ...


def with_keyword_only(*, run: Run) -> None: ...


def with_its_argument_first(order_id: str) -> None: ...


def with_a_model_first(order: Order, run: Run) -> None: ...


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (coroutine, "the body is async def.*replayed from its top.*plain def"),
        (asynchronous_generator, "the body is async def"),
        (generator, "the body is a generator"),
        (without_run, "must take the run as its first parameter"),
        (with_keyword_only, "must take the run as its first parameter"),
        (with_its_argument_first, "must take the run as its first parameter, which is order_id: str"),
        (with_a_model_first, "must take the run as its first parameter, which is order: Order"),
        (Order, "decorates a function"),
        ("checkout", "decorates a function"),
    ],
)
def test_what_cannot_be_a_body_is_refused_with_the_reason(body: Any, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        saga(body)


def test_a_saga_is_not_called_like_a_function() -> None:
    with pytest.raises(DefinitionError, match=r"checkout\.start\(\.\.\.\)"):
        keyed(None)()


# -- options ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "options",
    [
        {"name": ""},
        {"name": "x" * 201},
        {"name": "a\nb"},
        {"version": 0},
        {"version": "1"},
        {"version": True},
        {"errors": [ValueError("x")]},
        {"errors": ["ValueError"]},
        {"errors": [KeyboardInterrupt]},
        {"errors": 7},
        {"signals": ["a", "a"]},
        {"signals": [Signal("a"), "a"]},
        {"signals": "approval"},
        {"signals": [7]},
        {"retry": 3},
        {"undo_retry": 3},
        {"deadline": 0},
        {"deadline": -1},
        {"deadline": "1 day"},
        {"on_failure": "ignore"},
        {"on_failure": None},
        {"on_bug": "ignore"},
        {"on_undo_failure": "ignore"},
        {"dispatch": "later"},
        {"queue": ""},
        {"priority": -1},
        {"priority": 2_097_152},
        {"priority": 1.5},
        {"priority": "high"},
        {"lane": ""},
        {"tags": "vip"},
        {"tags": [7]},
    ],
)
def test_an_option_that_is_not_allowed_is_refused_and_registers_nothing(options: dict[str, Any]) -> None:
    def refused_options(run: Run) -> None: ...

    with pytest.raises(DefinitionError):
        saga(**options)(refused_options)

    def other(run: Run) -> None: ...

    saga(name="refused_options")(other)


def test_what_was_given_is_there_to_read_and_to_store() -> None:
    approval = Signal("approval", bool)

    @saga(
        name="shop.checkout",
        version=3,
        errors=[LookupError],
        signals=[approval, "note"],
        retry=Retry(2),
        on_bug="compensate",
        deadline=60,
        priority=2_097_151,
        tags=["vip"],
    )
    def checkout(run: Run) -> None:
        """Sells."""

    assert (checkout.name, checkout.version, checkout.errors) == ("shop.checkout", 3, (LookupError,))
    assert dict(checkout.signals) == {"approval": approval, "note": Signal("note")}
    assert checkout.__doc__ == "Sells."
    stored = checkout.settings.spec_text()
    assert '"on_bug":"compensate"' in stored and '"signals":["approval","note"]' in stored
    assert "on_failure" not in stored


@pytest.mark.parametrize(
    "options",
    [
        {"countdown": -1},
        {"countdown": 1, "eta": datetime(2026, 1, 1, tzinfo=UTC)},
        {"eta": datetime(2026, 1, 1)},  # noqa: DTZ001
        {"deadline": 0},
        {"priority": -1},
        {"if_exists": "replace"},
        {"lane": ""},
        {"tags": "vip"},
    ],
)
def test_a_start_option_that_is_not_allowed_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        keyed(None).options(**options)


# -- one definition for each name and version -----------------------------------------------------------------------
def test_two_live_definitions_of_one_name_and_version_are_refused() -> None:
    def first(run: Run) -> None: ...

    def second(run: Run) -> None: ...

    kept = saga(name="twice")(first)

    with pytest.raises(DefinitionError, match=r"defined twice, by .*first and .*second"):
        saga(name="twice")(second)
    assert saga(name="twice", version=2)(second).version == 2
    del kept


def test_the_same_function_again_replaces_itself_as_after_a_reload() -> None:
    def define() -> Saga[[], None]:
        @saga
        def reloaded(run: Run) -> None: ...

        return reloaded

    first, second = define(), define()
    registry = Registry([first])
    registry.add(second)

    assert registry.get("reloaded", 1) is second


def test_a_definition_that_is_gone_is_in_nobodys_way_even_when_a_cycle_held_it() -> None:
    def define() -> None:
        def first(run: Run) -> None: ...

        first.itself = saga(name="gone")(first)  # type: ignore[attr-defined]

    def second(run: Run) -> None: ...

    define()

    assert saga(name="gone")(second).body is second


def test_a_registry_finds_by_version_and_knows_the_latest() -> None:
    def body(run: Run) -> None: ...

    one, two = saga(name="grows")(body), saga(name="grows", version=2)(body)
    registry = Registry([two, one])

    assert registry.get("grows", 1) is one
    assert registry.latest("grows") is two
    assert registry.latest("unknown") is None
    assert sorted(registry.known()) == [("grows", 1), ("grows", 2)]
    assert one in registry and len(registry) == 2


def test_a_registry_refuses_what_is_no_saga() -> None:
    with pytest.raises(DefinitionError, match="Decorate the body with @saga"):
        Registry([without_run])  # type: ignore[list-item]


# -- signals ------------------------------------------------------------------------------------------------------
def test_signals_check_and_read_their_type() -> None:
    signal = Signal("order", Order)

    signal.check(Order("o1"))
    with pytest.raises(InvalidPayload, match=r"signal 'order'\.cents"):
        signal.check({"id": "o1", "cents": "many"})
    assert signal.read({"id": "o1", "cents": 1, "lines": (), "day": None}) == Order("o1", 1)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201, 7])
def test_a_signal_needs_a_name(name: Any) -> None:
    with pytest.raises(DefinitionError, match=r"Signal\(name\)"):
        Signal(name)


def test_a_saga_in_a_function_may_have_the_name_of_one_elsewhere() -> None:
    def one() -> Any:
        @saga(name="namesake")
        def body(run: Run) -> None: ...

        return body

    def two() -> Any:
        @saga(name="namesake")
        def body(run: Run) -> None: ...

        return body

    first, second = one(), two()

    assert first.name == second.name


def test_two_of_one_name_in_one_function_are_refused() -> None:
    @saga(name="twin")
    def first(run: Run) -> None: ...

    with pytest.raises(DefinitionError, match="defined twice"):

        @saga(name="twin")
        def second(run: Run) -> None: ...

    assert first.name == "twin"
