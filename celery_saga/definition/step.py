"""Gives a Celery signature the policies of a step: its undo, retry, time-out and the like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from celery_saga.core.asked import shown
from celery_saga.core.orders import Call, StepSpec, UndoSpec
from celery_saga.core.retry import Retry, seconds
from celery_saga.definition.annotations import first_takes_none
from celery_saga.definition.calls import OPTION, call_of, is_signature, is_task, options_of, require_signature, task_of
from celery_saga.definition.names import check_dispatch, check_flag, check_name, check_word
from celery_saga.definition.payload import check_type
from celery_saga.errors import DefinitionError

if TYPE_CHECKING:
    from celery.canvas import Signature

__all__ = ["Dispatch", "StepOptions", "UndoUnknown", "options", "spec_of", "split", "step", "undo_call"]

R = TypeVar("R")

Dispatch = Literal["broker", "inline", "auto"]
UndoUnknown = Literal["call", "park", "skip"]

_NOT_GIVEN = (None,) * 8
_UNKNOWNS = ("call", "park", "skip")


@dataclass(frozen=True, slots=True)
class StepOptions:
    """Policies of a step as they travel in its signature; None: not given.

    `undo_takes_none`: the undo can be called without the step's result. `saga`: it is no task, but a run of this saga.
    """

    name: str | None = None
    saga: Any = None
    type: Any = None
    undo: Call | None = None
    undo_takes_none: bool = False
    undo_retry: Retry | None = None
    undo_unknown: str | None = None
    retry: Retry | None = None
    timeout_s: float | None = None
    dispatch: str | None = None
    transactional: bool = False
    remote: bool = False
    pivot: bool = False

    def over(self, under: StepOptions) -> StepOptions:
        """These options, with those of `under` where they were not given."""
        if under is NOTHING:
            return self
        if self.undo is not None:
            under = replace(under, undo=None, undo_takes_none=False)
        given = {f.name: value for f in fields(self) if (value := getattr(self, f.name)) not in (None, False)}
        return replace(under, **given)

    def __deepcopy__(self, memo: object) -> StepOptions:
        # Celery copies a signature's options with each clone; these are never changed.
        return self

    def __json__(self) -> None:
        # A canvas that is sent outside a saga carries nothing of ours: kombu's JSON asks here.
        return None


NOTHING = StepOptions()
"""What a signature without options of ours carries."""


def step(
    sig: Signature[R],
    *,
    name: str | None = None,
    type: Any = None,
    undo: Callable[[R], object] | Signature[Any] | None = None,
    undo_retry: Retry | None = None,
    undo_unknown: UndoUnknown | None = None,
    retry: Retry | None = None,
    timeout: float | timedelta | None = None,
    dispatch: Dispatch | None = None,
    transactional: bool = False,
    pivot: bool = False,
    remote: bool = False,
) -> Signature[R]:
    """A copy of a task's signature that carries policies of a step; valid wherever a signature is.

    Args:
        sig: `task.si(...)` or `task.s(...)` of one task.
        name: the step's key in its scope, 1 to 200 characters without `! # / [ ]`; else the task's last name part.
        type: the result becomes an instance of it; else the task's return annotation says.
        undo: reverses the step: a task or `task.s(...)`, which gets the step's result first, or `task.si(...)`,
            which does not.
        undo_retry: policy of the undo; else the saga's, else tries over 24 h.
        undo_unknown: what to do when the step's effect is unknown: `call` the undo (with None for the result), `park`
            the run, or `skip` it. Default: call for `.si()` and undos whose first parameter takes None, else park.
        retry: replaces the task's own retry policy.
        timeout: longest time of one attempt, in seconds or as timedelta, above 0.
        dispatch: how it is executed: `broker`, `inline` (where that is possible) or `auto`; else as the saga says.
        transactional: what the task, or its undo, writes through `current_step.connection` commits with the
            checkpoint or not at all. After a deadlock the whole task is executed again. Not with `remote`.
        pivot: once it has succeeded the run only goes forward, as after `run.pivot()`; at the top of the body alone.
        remote: it runs on workers without celery_saga; needs a timeout.
    Raises:
        DefinitionError: a value or an option of the signature (as `countdown`) makes no sense; nothing was ordered.
        InvalidPayload: an argument of the undo cannot be stored; nothing was ordered.
    """
    policies = {what: value for what, value in locals().items() if what != "sig"}
    require_signature(sig, "step()")
    options_of(sig, "step()")
    given = options("step()", **policies)
    clone: Signature[R] = sig.clone()
    # Replaced, not changed: a clone may share the options of what it was made from.
    clone["options"] = _carrying(clone, given)
    return clone


def _carrying(sig: Mapping[str, Any], given: StepOptions) -> dict[str, Any]:
    message_options = dict(sig.get("options") or {})
    under = message_options.get(OPTION)
    merged = given.over(under) if isinstance(under, StepOptions) else given
    check_complete(merged, "step()")
    return {**message_options, OPTION: merged}


def options(
    where: str,
    *,
    name: str | None = None,
    type: Any = None,
    undo: object = None,
    undo_retry: Retry | None = None,
    undo_unknown: str | None = None,
    retry: Retry | None = None,
    timeout: float | timedelta | None = None,
    dispatch: str | None = None,
    transactional: bool = False,
    pivot: bool = False,
    remote: bool = False,
    limit_bytes: int | None = None,
) -> StepOptions:
    """The options as given, each checked on its own; parameters and errors as of `step`.

    Args:
        where: the call that they were given to, for errors.
        limit_bytes: longest text of the undo's arguments, in bytes of UTF-8; None: any.
    """
    if (name, type, undo, undo_retry, undo_unknown, retry, timeout, dispatch) == _NOT_GIVEN and (
        transactional is pivot is remote is False
    ):
        return NOTHING
    if name is not None:
        check_name(name, f"{where} name=")
    if type is not None:
        check_type(type, f"{where} type=")
    for what, policy in (("retry", retry), ("undo_retry", undo_retry)):
        if policy is not None and not isinstance(policy, Retry):
            raise DefinitionError(f"{where} {what}= takes a Retry, got {policy!r}; nothing was ordered.")
    call, takes_none = (None, False) if undo is None else undo_call(undo, f"{where} undo=", limit_bytes)
    return StepOptions(
        name=name,
        type=type,
        undo=call,
        undo_takes_none=takes_none,
        undo_retry=undo_retry,
        undo_unknown=check_word(undo_unknown, f"{where} undo_unknown=", _UNKNOWNS),
        retry=retry,
        timeout_s=None if timeout is None else positive_s(timeout, f"{where} timeout="),
        dispatch=check_dispatch(dispatch, f"{where} dispatch="),
        transactional=check_flag(transactional, f"{where} transactional="),
        pivot=check_flag(pivot, f"{where} pivot="),
        remote=check_flag(remote, f"{where} remote="),
    )


def positive_s(value: float | timedelta, what: str) -> float:
    """A duration in seconds above 0.

    Raises:
        DefinitionError: it is not; nothing was written.
    """
    duration_s = seconds(value, what, left="nothing was written")
    if duration_s <= 0:
        raise DefinitionError(f"{what} must be longer than 0 s, got {shown(value)}; nothing was written")
    return duration_s


def undo_call(undo: object, where: str, limit_bytes: int | None = None) -> tuple[Call, bool]:
    """What is stored of an undo, and whether it can be called without a result.

    Raises:
        DefinitionError: it is neither a Celery task nor the signature of one; nothing was ordered.
    """
    if is_task(undo):
        task_name = str(undo.name)  # type: ignore[attr-defined]
        return Call(task=task_name, immutable=False), first_takes_none(undo)
    if not is_signature(undo):
        shown = f"the function {undo.__name__}" if callable(undo) and hasattr(undo, "__name__") else repr(undo)
        raise DefinitionError(
            f"{where} takes a Celery task or its signature, got {shown}; nothing was ordered. "
            "Only a task can be executed on a worker: decorate it with @app.task or @shared_task."
        )
    sig = require_signature(undo, where)
    if (sig.get("options") or {}).get(OPTION) is not None:
        raise DefinitionError(
            f"{where} takes a plain signature, without step(); nothing was ordered. "
            "Write undo_retry= and undo_unknown=."
        )
    call = call_of(sig, where, limit_bytes)
    return call, call.immutable or first_takes_none(task_of(sig))


def check_complete(given: StepOptions, where: str) -> None:
    """Refuse options that need others which are missing.

    Raises:
        DefinitionError: a policy of an undo without undo, `remote` without time-out, or with `transactional`; nothing
            was ordered.
    """
    if given.undo is None:
        for what in ("undo_retry", "undo_unknown"):
            if getattr(given, what) is not None:
                raise DefinitionError(f"{where}: {what}= without undo= has nothing to act on; nothing was ordered.")
    if given.remote and given.timeout_s is None:
        raise DefinitionError(
            f"{where}: remote=True needs timeout=, because nobody renews the lease of a step on a worker without "
            "celery_saga; nothing was ordered."
        )
    if given.remote and given.transactional:
        raise DefinitionError(
            f"{where}: transactional=True cannot go with remote=True, because a worker without celery_saga has no part "
            "in the transaction of the checkpoint; nothing was ordered. Leave one of them out."
        )


def spec_of(given: StepOptions, message_options: Mapping[str, Any]) -> StepSpec:
    """The policies of a step as they are stored.

    Args:
        message_options: those of its signature that go with the message.
    """
    undo = None
    if given.undo is not None:
        unknown = given.undo_unknown or ("call" if given.undo_takes_none else "park")
        undo = UndoSpec(given.undo, None if given.undo_retry is None else given.undo_retry.to_plain(), unknown)
    return StepSpec(
        options=message_options,
        undo=undo,
        retry=None if given.retry is None else given.retry.to_plain(),
        timeout_s=given.timeout_s,
        dispatch=given.dispatch,
        transactional=given.transactional,
        is_pivot=given.pivot,
        remote=given.remote,
    )


def split(sig: Mapping[str, Any]) -> tuple[dict[str, Any], StepOptions]:
    """A signature as a plain mapping without our option, and the step options that it carried."""
    plain = dict(sig)
    if plain.get("options") == {}:
        return plain, NOTHING
    message_options = dict(plain.get("options") or {})
    carried = message_options.pop(OPTION, None)
    plain["options"] = message_options
    return plain, carried if isinstance(carried, StepOptions) else NOTHING
