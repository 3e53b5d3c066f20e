"""Celery signatures and tasks, told by what they have, and turned into what is stored of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from celery_saga.core import codec
from celery_saga.core.orders import Call
from celery_saga.errors import DefinitionError, InvalidPayload, PayloadTooLarge

__all__ = ["OPTION", "args_of", "call_of", "is_signature", "is_task", "task_of"]

OPTION = "celery_saga"
"""The option of a signature under which its step options travel."""

_ALLOWED = (
    *("queue", "exchange", "routing_key", "priority", "time_limit", "soft_time_limit"),
    *("serializer", "compression", "headers"),
)
_SIMPLE, _SHORT = frozenset({str, int, bool, type(None)}), 200
_WHY = {
    "countdown": "sleep before the step: run.sleep(...)",
    "eta": "sleep before the step: run.sleep_until(...)",
    "expires": "give the step a timeout=",
    "link": "write the next step after it",
    "link_error": "catch its error in the body",
    "chord": "write the next step after it",
    "retry": "give the step a retry=Retry(...)",
    "retry_policy": "give the step a retry=Retry(...)",
    "max_retries": "give the step a retry=Retry(...)",
    "task_id": "celery_saga gives each step one id",
}


def is_task(value: object) -> bool:
    """Whether it is a Celery task: it has a name and can be sent."""
    return (
        not isinstance(value, type | dict)
        and isinstance(getattr(value, "name", None), str)
        and callable(getattr(value, "apply_async", None))
    )


def is_signature(value: object) -> bool:
    """Whether it is a Celery signature, of a task or of a canvas."""
    return isinstance(value, dict) and "task" in value and callable(getattr(value, "clone", None))


def require_signature(value: object, where: str) -> Mapping[str, Any]:
    """The signature of one task.

    Args:
        where: the call that it was given to, like `run.step()`.
    Raises:
        DefinitionError: something else, saying what to write; nothing was ordered.
    """
    if not is_signature(value):
        raise DefinitionError(f"{where} takes a signature, {_instead(value)}; nothing was ordered.")
    assert isinstance(value, dict)
    kind = value.get("subtask_type")
    if kind is not None:
        raise DefinitionError(
            f"{where} takes the signature of one task, got a {kind}; nothing was ordered. "
            "Write one run.step() for each of its tasks."
        )
    return value


def task_of(sig: Mapping[str, Any]) -> object | None:
    """The task of a signature where this process has it registered; else None."""
    known: object | None = getattr(sig, "_type", None)  # what `type` looks for first
    if known is not None:
        return known
    try:
        task: object = sig.type  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 - not registered, or no app: then nothing is known of it
        return None
    return task


def args_of(sig: Mapping[str, Any]) -> list[Any]:
    """Positional and keyword arguments, as they are digested and stored."""
    return [list(sig.get("args") or ()), dict(sig.get("kwargs") or {})]


def call_of(sig: Mapping[str, Any], where: str, limit_bytes: int | None = None) -> Call:
    """What is stored of a signature.

    Raises:
        InvalidPayload: an argument cannot be stored; its path starts with `args` or `kwargs`.
        PayloadTooLarge: they are longer than the limit.
        DefinitionError: it has an option that makes no sense for a step.
    """
    name = str(sig["task"])
    return Call(
        task=name,
        args_text=encode_args(args_of(sig), name, limit_bytes),
        immutable=bool(sig.get("immutable")),
        options=options_of(sig, where),
    )


def encode_args(args: list[Any], name: str, limit_bytes: int | None) -> str:
    """Codec text of `[args, kwargs]`; errors name the task and the path, and say that nothing was ordered."""
    try:
        return codec.encode(args, limit_bytes=limit_bytes, what="arguments")
    except PayloadTooLarge as error:
        text = f"{name}: {error}".replace("nothing was written", "nothing was ordered")
        raise PayloadTooLarge(text, size_bytes=error.size_bytes, limit_bytes=error.limit_bytes) from None
    except InvalidPayload as error:
        path = _argument_path(error.path)
        text = _argument_path(str(error)).replace("nothing was written", "nothing was ordered")
        raise InvalidPayload(f"{name}: {text}", path=path) from None


def digest_args(args: list[Any], name: str) -> str:
    """Digest of `[args, kwargs]`; errors as of `encode_args`."""
    simple = _simple(*args)
    if simple is not None:
        try:
            return _digest_of(*simple)
        except InvalidPayload:
            encode_args(args, name, None)
            raise
    try:
        return codec.digest(args)
    except InvalidPayload:
        encode_args(args, name, None)
        raise


def _simple(positional: list[Any], named: dict[str, Any]) -> tuple[tuple[Any, ...], ...] | None:
    """What tells arguments apart that are plain and short; None: they are not."""
    values = (*positional, *named.values())
    kinds = tuple(map(type, values))
    if not _SIMPLE.issuperset(kinds):
        return None
    for value in values:
        if type(value) is str and len(value) > _SHORT:
            return None
    return kinds, tuple(positional), tuple(named.items())


@lru_cache(maxsize=4096)
def _digest_of(kinds: tuple[type, ...], positional: tuple[Any, ...], named: tuple[tuple[str, Any], ...]) -> str:
    """Each pass of a body asks for the same ones again. `kinds`: 1 and True are equal, and their digests are not."""
    return codec.digest([list(positional), dict(named)])


def options_of(sig: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The options of a signature that go with its message, without ours.

    Raises:
        DefinitionError: one that makes no sense there, by its name; nothing was ordered.
    """
    given = sig.get("options")
    if not given:
        return {}
    options = {name: value for name, value in given.items() if name != OPTION and value is not None}
    for name, value in options.items():
        if name not in _ALLOWED:
            remedy = _WHY.get(name, f"allowed are {', '.join(_ALLOWED)}")
            raise DefinitionError(
                f"{where}: the option {name!r} of {sig['task']} makes no sense here ({remedy}); nothing was ordered."
            )
        _check_option(name, value, where)
    hard_s, soft_s = options.get("time_limit"), options.get("soft_time_limit")
    if hard_s is not None and soft_s is not None and soft_s >= hard_s:
        raise DefinitionError(
            f"{where}: soft_time_limit={soft_s:g} s of {sig['task']} must be less than time_limit={hard_s:g} s; "
            "nothing was ordered."
        )
    return options


def _check_option(name: str, value: object, where: str) -> None:
    wrong = None
    if name in {"queue", "exchange", "routing_key", "serializer", "compression"} and not isinstance(value, str):
        wrong = "its name, as text"
    elif name in {"time_limit", "soft_time_limit"} and (
        isinstance(value, bool) or not isinstance(value, int | float) or not value > 0
    ):
        wrong = "seconds above 0"
    elif name == "priority" and (isinstance(value, bool) or not isinstance(value, int)):
        wrong = "a whole number"
    elif name == "headers":
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            wrong = "values that JSON can write"
    if wrong is not None:
        raise DefinitionError(f"{where}: the option {name!r} must be {wrong}, got {value!r}; nothing was ordered.")


def _argument_path(text: str) -> str:
    return text.replace("arguments[0]", "args", 1).replace("arguments[1]", "kwargs", 1)


def _instead(value: object) -> str:
    if is_task(value):
        name = str(value.name).rpartition(".")[2]  # type: ignore[attr-defined]
        return f"got the task {value.name!r}: write {name}.si(...)"  # type: ignore[attr-defined]
    if hasattr(value, "id") and hasattr(value, "ready") and hasattr(value, "get"):
        return "got a result, so the task was sent already: write .si(...) instead of .delay(...)"
    if callable(value):
        name = getattr(value, "__name__", "function")
        return f"got the function {name}: make it a Celery task and write {name}.si(...)"
    return f"got {type(value).__name__}: write task.si(...)"
