"""What can be a part of a join: a signature, or a function of the body; and how it is ordered and read."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, overload

from celery_saga.core import codec
from celery_saga.core.placing import Order
from celery_saga.core.records import StepKind
from celery_saga.definition.annotations import result_type, returned_by
from celery_saga.definition.asking import order, throws_of
from celery_saga.definition.calls import (
    OPTION,
    args_of,
    digest_args,
    encode_args,
    is_signature,
    is_task,
    options_of,
    require_signature,
    task_of,
)
from celery_saga.definition.kin import classes_of, is_saga, order_of
from celery_saga.definition.names import key_base
from celery_saga.definition.signal import Signal
from celery_saga.definition.step import StepOptions, check_complete, positive_s, spec_of, split
from celery_saga.errors import DefinitionError, InvalidPayload

if TYPE_CHECKING:
    from celery_saga.definition.run import Run
    from celery_saga.definition.saga import Saga

__all__ = ["Alike", "Part", "arm", "check_name_of_part", "digest_items", "item_part", "part"]

_ALL_DIGESTED = 64
"""Up to so many items of a map each one is compared in a replay; of more, so many of them."""


def _as_stored() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Part:
    """One part, as the body gave it.

    Args:
        kind: a step of its own, another run, a wait for a signal, or a function of the body.
        make: its order, without key and place.
        digest: tells whether a replay gives the same; of its task and arguments.
        function: what is called when the part is decided; None where it is no function.
        type_of: gives what its result is decoded as; None: as the codec brings it back.
        classes: of errors that the body may see as themselves.
    """

    kind: StepKind
    make: Callable[[], Order]
    digest: Callable[[], str]
    function: Callable[[Run], Any] | None = None
    type_of: Callable[[], Any] = _as_stored
    classes: tuple[type[BaseException], ...] = ()


class Alike(Sequence[Part]):
    """Parts that differ in their item alone, made when they are asked for: a pass after a map of thousands makes few.

    Args:
        width: how many there are.
        make: gives one, by its number.
    """

    def __init__(self, width: int, make: Callable[[int], Part]) -> None:
        self._width = width
        self._make = make

    def __len__(self) -> int:
        return self._width

    @overload
    def __getitem__(self, number: int, /) -> Part: ...
    @overload
    def __getitem__(self, number: slice, /) -> list[Part]: ...
    def __getitem__(self, number: int | slice, /) -> Part | list[Part]:
        if isinstance(number, slice):
            return [self._make(each) for each in range(*number.indices(self._width))]
        if not 0 <= number < self._width:
            raise IndexError(number)
        return self._make(number)


def part(given: object, where: str, limit_bytes: int, over: StepOptions | None = None) -> Part:
    """A part of a group.

    Args:
        given: a signature of a task or a saga, or a function that takes the run.
        where: the call that it was given to, for errors.
        over: options that go over those that the signature carries.
    Raises:
        DefinitionError: neither, or options that make no sense there; nothing was ordered.
    """
    if is_saga(given):
        raise DefinitionError(
            f"{where} got the saga {given.name!r}: write {given.name}.s(...) with its arguments; nothing was ordered."  # type: ignore[attr-defined]
        )
    if is_signature(given):
        sig: Any = require_signature(given, where)
        made = _of_signature(sig, where, limit_bytes, over or StepOptions())
        if split(sig)[1].name is None or made.kind is not StepKind.STEP:
            return made
        # The part is numbered or named by the join; a step with a name of its own lies within it.
        return replace(made, kind=StepKind.PART, make=_ordered_function, function=lambda run: run.step(sig))
    if is_task(given) or not callable(given):
        require_signature(given, where)
    if over is not None and over != StepOptions():
        raise DefinitionError(
            f"{where}: undo= and retry= go with tasks; nothing was ordered. In a function give them to its steps."
        )
    return _of_function(typing.cast("Callable[[Run], Any]", given))


def item_part(work: object, item: object, where: str, limit_bytes: int, over: StepOptions) -> Part:
    """The part of a map for one item: the task or signature with the item first, or the function with the run first."""
    if is_saga(work):
        whole = {"task": work.name, "args": (item,), "options": {OPTION: StepOptions(saga=work)}}  # type: ignore[attr-defined]
        return _of_signature(whole, where, limit_bytes, over)
    if is_task(work):
        sig: dict[str, Any] = {"task": work.name, "args": (item,), "kwargs": {}, "options": {}, "immutable": True}  # type: ignore[attr-defined]
        return _of_signature(sig, where, limit_bytes, over, known=work)
    if is_signature(work):
        plain = dict(require_signature(work, where))
        plain["args"] = (item, *(plain.get("args") or ()))
        return _of_signature(plain, where, limit_bytes, over, known=task_of(typing.cast("Mapping[str, Any]", work)))
    if not callable(work):
        raise DefinitionError(
            f"{where} takes a task, a signature or a function of the run and an item, got {work!r}; nothing was "
            "ordered."
        )
    function = typing.cast("Callable[[Run, Any], Any]", work)
    made = part(lambda run: function(run, item), where, limit_bytes, over)
    return replace(made, type_of=lambda: returned_by(function))


def arm(given: object, where: str, limit_bytes: int) -> Part:
    """An arm of a race: as of a group, a signal, or so many seconds.

    Raises:
        DefinitionError: none of these; nothing was ordered.
    """
    if isinstance(given, Signal):
        waited: Signal[Any] = given
        return Part(
            StepKind.SIGNAL,
            lambda: replace(order(StepKind.SIGNAL), task=waited.name),
            lambda: f"signal:{waited.name}",
            lambda run: run.wait_signal(waited),  # of runs from before such arms were waits themselves
            type_of=lambda: waited.type,
        )
    if isinstance(given, timedelta | int | float) and not isinstance(given, bool):
        delay_s = positive_s(given, where)
        return replace(_of_function(lambda run: run.sleep(delay_s)), digest=lambda: "seconds")
    return part(given, where, limit_bytes)


def check_name_of_part(name: object, where: str) -> str:
    """A name that can stand in a key.

    Raises:
        DefinitionError: no text, or one with characters that keys reserve; nothing was ordered.
    """
    if not isinstance(name, str) or not name or name != key_base(name) or len(name) > 100:  # noqa: PLR2004
        raise DefinitionError(
            f"{where}: the name of a part must be text of 1 to 100 characters without ! # / [ ] or dots, got {name!r}; "
            "nothing was ordered."
        )
    return name


def digest_items(work: object, items: Sequence[object]) -> str:
    """What tells whether a replay maps the same over the same: over all items, or over some where they are many."""
    width = len(items)
    numbers = range(width) if width <= _ALL_DIGESTED else [i * width // _ALL_DIGESTED for i in range(_ALL_DIGESTED)]
    return codec.digest([_digest_work(work), [_digest_item(items[number]) for number in numbers]])


def _digest_work(work: object) -> str:
    if is_signature(work):
        plain = typing.cast("Mapping[str, Any]", work)
        return f"{plain['task']}:{digest_args(args_of(plain), str(plain['task']))}"
    return str(work.name) if is_task(work) or is_saga(work) else "function"  # type: ignore[attr-defined]


def _of_signature(
    sig: Mapping[str, Any], where: str, limit_bytes: int, over: StepOptions, *, known: object = None
) -> Part:
    plain, carried = split(sig)
    if carried.saga is not None:
        return _of_saga(carried.saga, plain, where, limit_bytes, over.over(replace(carried, saga=None)))
    given = over.over(carried)
    check_complete(given, where)
    if given.pivot:
        raise DefinitionError(
            f"{where}: a part cannot be the pivot; nothing was ordered. Write run.pivot() after it, in the body itself."
        )
    message_options = options_of(plain, where)
    task, args = str(plain["task"]), args_of(plain)
    known = task_of(sig) if known is None else known

    def make() -> Order:
        args_text = encode_args(args, task, limit_bytes)
        made = order(StepKind.STEP, args_text=args_text, spec=spec_of(given, message_options))
        return replace(made, task=task, args_digest=digest_args(args, task))

    classes = () if given.retry is None else given.retry.classes
    return Part(
        StepKind.STEP,
        make,
        lambda: f"{task}:{digest_args(args, task)}",
        type_of=lambda: result_type(known) if given.type is None else given.type,
        classes=(*classes, *throws_of(known)),
    )


def _of_saga(saga: Saga[Any, Any], sig: Mapping[str, Any], where: str, limit_bytes: int, given: StepOptions) -> Part:
    """A part that is another run: a child."""
    if saga.start_options.detached:
        raise DefinitionError(
            f"{where}, saga {saga.name!r}: nothing waits for a detached run, so it is no part; nothing was ordered. "
            "Start it with run.child()."
        )
    if given != StepOptions(type=given.type):
        raise DefinitionError(
            f"{where}, saga {saga.name!r}: undo=, retry= and the like go with tasks; nothing was ordered. A run has "
            "those of its own steps, and is undone by them."
        )
    args, kwargs = tuple(sig.get("args") or ()), dict(sig.get("kwargs") or {})

    def make() -> Order:
        return replace(ordered()[0], task=saga.name, args_digest=ordered()[1])

    @cache
    def ordered() -> tuple[Order, str]:
        return order_of(saga, args, kwargs, where, limit_bytes)

    return Part(
        StepKind.CHILD,
        make,
        lambda: f"{saga.name}:{ordered()[1]}",
        type_of=lambda: saga.payload.result_type if given.type is None else given.type,
        classes=classes_of(saga),
    )


def _of_function(function: Callable[[Run], Any]) -> Part:
    return Part(StepKind.PART, _ordered_function, _function, function, lambda: returned_by(function))


def _ordered_function() -> Order:
    return order(StepKind.PART)


def _function() -> str:
    return "function"


def _digest_item(item: object) -> str:
    try:
        return codec.digest(item)
    except InvalidPayload:
        return "function"  # it is never stored, so it may be anything
