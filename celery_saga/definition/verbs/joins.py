"""Verbs that do several things at once: group, map, race."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, overload

from celery_saga.core import codec, joining
from celery_saga.core.failure import from_text
from celery_saga.core.joining import Asked, Entered, as_task, ask_join, failed_part, result_of
from celery_saga.core.orders import StepSpec
from celery_saga.core.placing import Order
from celery_saga.core.records import StepRecord
from celery_saga.core.retry import Retry
from celery_saga.core.status import StepStatus
from celery_saga.definition.asking import signal_of
from celery_saga.definition.names import check_int, check_word, is_explicit
from celery_saga.definition.parts import Alike, Part, arm, check_name_of_part, digest_items, item_part, part
from celery_saga.definition.payload import decode_as
from celery_saga.definition.results import Collected, Outcome, Results, Winner
from celery_saga.definition.signal import Signal
from celery_saga.definition.step import options
from celery_saga.definition.verbs.base import Pass
from celery_saga.errors import DefinitionError, SagaError

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
R = TypeVar("R")
T = TypeVar("T")

if TYPE_CHECKING:
    from celery_saga.definition.verbs.types_of_joins import Abort, Collect, Given, Undo, Work

__all__ = ["Joins"]

_WIDEST = 100_000


class Joins(Pass):
    """Verbs that do several things at once."""

    # -- group ---------------------------------------------------------------------------------------------------
    @overload
    def group(
        self, *, concurrency: int | None = None, on_failure: Abort = "abort", name: str | None = None
    ) -> tuple[()]: ...
    @overload
    def group(
        self,
        parts: Sequence[Given[R]],
        /,
        *,
        concurrency: int | None = None,
        on_failure: Abort = "abort",
        name: str | None = None,
    ) -> list[R]: ...
    @overload
    def group(
        self,
        a: Given[A],
        /,
        *,
        concurrency: int | None = None,
        on_failure: Abort = "abort",
        name: str | None = None,
    ) -> tuple[A]: ...
    @overload
    def group(
        self,
        parts: Mapping[str, Given[R]],
        /,
        *,
        concurrency: int | None = None,
        on_failure: Abort = "abort",
        name: str | None = None,
    ) -> dict[str, R]: ...
    @overload
    def group(
        self,
        a: Given[A],
        b: Given[B],
        /,
        *,
        concurrency: int | None = None,
        on_failure: Abort = "abort",
        name: str | None = None,
    ) -> tuple[A, B]: ...
    @overload
    def group(
        self,
        a: Given[A],
        b: Given[B],
        c: Given[C],
        /,
        *,
        concurrency: int | None = None,
        on_failure: Abort = "abort",
        name: str | None = None,
    ) -> tuple[A, B, C]: ...
    @overload
    def group(
        self,
        a: Given[A],
        b: Given[B],
        c: Given[C],
        d: Given[D],
        /,
        *,
        concurrency: int | None = None,
        on_failure: Abort = "abort",
        name: str | None = None,
    ) -> tuple[A, B, C, D]: ...
    @overload
    def group(
        self,
        *parts: Given[Any],
        concurrency: int | None = None,
        on_failure: Abort = "abort",
        name: str | None = None,
    ) -> tuple[Any, ...]: ...
    @overload
    def group(
        self,
        parts: Sequence[Given[R]] | Mapping[str, Given[R]],
        /,
        *,
        concurrency: int | None = None,
        on_failure: Collect,
        name: str | None = None,
    ) -> Collected[R]: ...
    @overload
    def group(
        self,
        *parts: Given[R],
        concurrency: int | None = None,
        on_failure: Collect,
        name: str | None = None,
    ) -> Collected[R]: ...

    def group(
        self,
        *parts: Any,
        concurrency: int | None = None,
        on_failure: Abort | Collect = "abort",
        name: str | None = None,
    ) -> Any:
        """Do several things at once and return their results in declared order, whatever order they finish in.

        Args:
            parts: signatures of tasks or sagas, or functions that take this run and may themselves have several steps;
                as arguments (the result is a tuple), as one list (a list) or as one mapping by name (a dict).
            concurrency: how many parts may be in flight, at least 1; None: all.
            on_failure: `abort` raises the error of the first part that fails for good, cancels parts that have not
                started and does not wait for those that run; `collect` waits for all and returns Collected.
            name: the key; else `group`.
        Raises:
            StepFailed, or the part's own error where it is known: a part failed (`abort`).
            DefinitionError, DuplicateStepError, InvalidPayload, PayloadTooLarge: nothing was ordered.
        """
        self._check_outside_record("group")
        where = "run.group()"
        listed = parts[0] if len(parts) == 1 and isinstance(parts[0], list | tuple) else None
        named = parts[0] if len(parts) == 1 and _is_mapping_of_parts(parts[0]) else None
        names = None if named is None else [check_name_of_part(each, where) for each in named]
        given = list(named.values()) if named is not None else list(parts if listed is None else listed)
        made = [part(each, where, self._limit_bytes) for each in given]
        digest = codec.digest([each.digest() for each in made])
        settled = self._join("group", name, made, names, digest, concurrency=concurrency, on_failure=on_failure)
        if on_failure == "collect":
            return self._collected(settled, made, names)
        values = self._values(settled, made)
        if names is not None:
            return dict(zip(names, values, strict=True))
        return values if listed is not None else tuple(values)

    # -- map -----------------------------------------------------------------------------------------------------
    @overload
    def map(  # type: ignore[overload-overlap] # a mapping is an iterable of its keys; it is asked first
        self,
        work: Work[R, T],
        items: Mapping[str, T],
        *,
        concurrency: int | None = None,
        on_failure: Abort = "abort",
        undo: Undo[R] = None,
        retry: Retry | None = None,
        name: str | None = None,
    ) -> dict[str, R]: ...
    @overload
    def map(
        self,
        work: Work[R, T],
        items: Iterable[T],
        *,
        concurrency: int | None = None,
        on_failure: Abort = "abort",
        undo: Undo[R] = None,
        retry: Retry | None = None,
        name: str | None = None,
    ) -> list[R]: ...
    @overload
    def map(
        self,
        work: Work[R, T],
        items: Mapping[str, T] | Iterable[T],
        *,
        concurrency: int | None = None,
        on_failure: Collect,
        undo: Undo[R] = None,
        retry: Retry | None = None,
        name: str | None = None,
    ) -> Collected[R]: ...

    def map(
        self,
        work: Any,
        items: Any,
        *,
        concurrency: int | None = None,
        on_failure: Abort | Collect = "abort",
        undo: Any = None,
        retry: Retry | None = None,
        name: str | None = None,
    ) -> Any:
        """Do one thing for each item and return the results in the order of the items.

        Args:
            work: a task or a signature, which gets the item first, or a function of this run and an item.
            items: any number up to 100,000; a mapping gives a dict of results by its keys.
            concurrency: how many items may be in flight, at least 1; None: all.
            on_failure: as of `group`.
            undo: reverses each item's task; as of `step`. Not with a function: give it to its steps.
            retry: policy of each item's task.
            name: the key; else `map`.
        Returns:
            A list, which is decoded when it is first looked at, or a dict.
        Raises:
            As of `group`.
        """
        self._check_outside_record("map")
        where = "run.map()"
        over = options(where, undo=undo, retry=retry, limit_bytes=self._limit_bytes)
        keys = list(items) if isinstance(items, Mapping) else None
        given = list(items.values()) if isinstance(items, Mapping) else list(islice(items, _WIDEST + 1))
        made = Alike(len(given), lambda number: item_part(work, given[number], where, self._limit_bytes, over))
        digest = digest_items(work, given if keys is None else list(zip(keys, given, strict=True)))
        settled = self._join("map", name, made, None, digest, concurrency=concurrency, on_failure=on_failure)
        labels = None if keys is None else [str(key) for key in keys]
        if on_failure == "collect":
            return self._collected(settled, made, labels)
        if keys is not None:
            return dict(zip(keys, self._values(settled, made), strict=True))
        return Results(len(made), lambda: self._values(settled, made))

    # -- race ----------------------------------------------------------------------------------------------------
    @overload
    def race(self, **arms: Given[R] | Signal[R]) -> Winner[R]: ...
    @overload
    def race(self, **arms: Given[R] | Signal[R] | float | timedelta) -> Winner[R | None]: ...

    def race(self, **arms: Any) -> Winner[Any]:
        """Do several things at once and return the first that succeeds; the others are cancelled and undone.

        Args:
            arms: by name: a signature, a function that takes this run, a Signal, or seconds after which the arm wins
                with None. An arm that fails does not lose the race for the others.
        Returns:
            Name and value of the winner; the same in each replay, whatever came in later.
        Raises:
            The error of the last arm that failed, when all did; else as of `group`.
        """
        self._check_outside_record("race")
        where = "run.race()"
        if not arms:
            raise DefinitionError(f"{where} takes at least one arm; nothing was ordered.")
        names = [check_name_of_part(each, where) for each in arms]
        declared = self._saga.signals
        given = [signal_of(x, None, declared, self.saga) if isinstance(x, Signal) else x for x in arms.values()]
        made = [arm(each, where, self._limit_bytes) for each in given]
        digest = codec.digest([each.digest() for each in made])
        settled = self._join("race", None, made, names, digest, on_failure="race")
        won, plain = codec.decode(settled_text(self, settled))
        return Winner(won, self._as(plain, made[names.index(won)].type_of(), f"race[{won}]"))

    # -- inside --------------------------------------------------------------------------------------------------
    def _join(
        self,
        verb: str,
        name: str | None,
        parts: Sequence[Part],
        names: Sequence[str] | None,
        digest: str,
        *,
        concurrency: int | None = None,
        on_failure: str = "abort",
    ) -> StepRecord | Order:
        """The join that is over; else the pass is suspended, or goes on in the one part that is to be decided."""
        where = f"run.{verb}()"
        if verb != "race":
            check_word(on_failure, f"{where} on_failure=", ("abort", "collect"))
        if concurrency is not None:
            check_int(concurrency, f"{where} concurrency=", 1, _WIDEST)
        check_int(len(parts), f"{where} number of parts", 0, _WIDEST)
        spec = StepSpec(on_failure=on_failure, concurrency=concurrency)
        asked = Asked(
            mode=verb,
            digest=codec.digest([on_failure, len(parts), None if names is None else list(names), digest]),
            width=len(parts),
            spec_text=spec.to_text(),
            args_text=codec.encode([list(names or ()), {}]),
            parts=lambda numbers: [parts[number].make() for number in numbers],
            names=names,
        )
        settled = ask_join(self._replay, name or verb, asked, explicit=is_explicit(name))
        if isinstance(settled, Entered):
            self._enter(settled, parts[settled.number])
        assert not isinstance(settled, Entered)
        if isinstance(settled, StepRecord):
            told = result_of(self._replay, settled)
            if settled.status is not StepStatus.DONE:
                self._classes = (*self._saga.errors, *(each for one in _different(parts) for each in one.classes))
                raise self._replay.failed(settled, failed_part(settled, told))
        return settled

    def _enter(self, entered: Entered, one: Part) -> None:
        """Call the function of the part that is to be decided; the pass is over with it.

        Raises:
            Suspended: always.
        """
        replay = self._replay
        if one.function is None:
            replay.miss_part()
            replay.suspend()
        with replay.inside(entered.prefix):
            try:
                value = one.function(self)  # type: ignore[arg-type]
                replay.check_bug()
                text = self._encode(None if replay.suspended else value, f"the result of part {entered.prefix[:-1]!r}")
            except Exception as error:  # noqa: BLE001 - recorded: it decides how the part ends
                if replay.suspended:
                    replay.suspend()
                joining.raised(replay, error, self._saga.errors)
            if replay.suspended:
                joining.swallowed(
                    replay, SagaError(f"run {self.id!r}: part {entered.prefix[:-1]!r} swallowed its suspension")
                )
            joining.returned(replay, text)

    def _values(self, settled: StepRecord | Order, parts: Sequence[Part]) -> list[Any]:
        plain = codec.decode(settled_text(self, settled))
        types = [one.type_of() for one in _different(parts)]
        return [self._as(value, types[min(n, len(types) - 1)], f"part {n}") for n, value in enumerate(plain)]

    def _collected(
        self, settled: StepRecord | Order, parts: Sequence[Part], names: Sequence[str] | None
    ) -> Collected[Any]:
        plain = codec.decode(settled_text(self, settled))
        outcomes: list[Outcome[Any]] = []
        for number, (how, value, *attempts) in enumerate(plain):
            name = str(number) if names is None else names[number]
            if how == "ok":
                outcomes.append(Outcome(name, output=self._as(value, parts[number].type_of(), f"part {name}")))
            else:
                outcomes.append(Outcome(name, error=self._error(settled, name, value, parts[number], *attempts)))
        return Collected(tuple(outcomes))

    def _error(
        self, settled: StepRecord | Order, name: str, text: str | None, one: Part, attempts: int = 0
    ) -> BaseException:
        assert isinstance(settled, StepRecord)
        failed = as_task(settled, f"{settled.key}[{name}]", attempts)
        error = from_text(text) if text is not None else None
        self._classes = (*self._saga.errors, *one.classes)
        return SagaError(f"part {failed.key!r} was cancelled") if error is None else self.rebuild(error, failed)

    def _as(self, value: Any, type_: Any, what: str) -> Any:
        return value if type_ is None else decode_as(type_, value)


def settled_text(verbs: Pass, settled: StepRecord | Order) -> str:
    """JSON of what a join that is over gave, as `joining.result_of`."""
    return "[]" if isinstance(settled, Order) else result_of(verbs.replay, settled)


def _different(parts: Sequence[Part]) -> Sequence[Part]:
    """The parts, or one that stands for all where they differ in their item alone."""
    return parts[:1] if isinstance(parts, Alike) else parts


def _is_mapping_of_parts(value: object) -> bool:
    # A signature is a mapping too.
    return isinstance(value, Mapping) and not ("task" in value and callable(getattr(value, "clone", None)))
