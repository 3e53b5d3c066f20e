"""What a message of the inbox asks for, as plain JSON from services that are not Python: a signal, or a start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from celery_saga.client.handle import RunHandle
from celery_saga.core.storable import is_storable
from celery_saga.core.strict_json import AmbiguousJson, read_json
from celery_saga.definition.keys import check_key, run_id_of
from celery_saga.definition.saga import Saga, of_message
from celery_saga.errors import InvalidPayload, SignalDuplicate, SignalExpired, UnknownSaga
from celery_saga.runtime.app import CelerySaga

__all__ = ["Done", "take"]

_SIGNAL = frozenset({"run_id", "saga", "key", "signal", "id", "value"})
_START = frozenset({"saga", "version", "args", "input", "key", "id"})
_MAX_ID = 200
_BUILT_IN = "celery_saga."


@dataclass(frozen=True, slots=True)
class Done:
    """What a message did.

    Args:
        run_id: of which run.
        what: started, found (it was there), delivered, kept, or duplicate (the signal was sent before).
    """

    run_id: str
    what: str


def take(saga: CelerySaga, body: bytes | str) -> Done:
    """Do what a message asks for; it is committed when this returns.

    Args:
        saga: of the app.
        body: JSON, in UTF-8.
    Raises:
        InvalidPayload: the body is not what is expected, or a value in it does not fit; nothing was written.
        UnknownSaga, RunNotFound, IdempotencyConflict, PayloadTooLarge, SignalNotExpected, SignalExpired: as of
            `Saga.start` and `RunHandle.signal`; nothing was written.
        StoreUnavailable, SchemaOutdated: the database cannot be used now.
    """
    asked = _read(body)
    if "start" in asked:
        _only(asked, frozenset({"start"}), "a message that starts a run")
        return _start(saga, asked["start"])
    return _signal(saga, asked)


def _read(body: bytes | str) -> Mapping[str, Any]:
    try:
        text = body if isinstance(body, str) else bytes(body).decode()
        found = read_json(text)
    except UnicodeDecodeError as error:
        _refuse("", f"is no UTF-8, at byte {error.start}")
    except AmbiguousJson as error:
        _refuse("", str(error))
    if not isinstance(found, dict):
        _refuse("", f"must be an object, got {_kind(found)}")
    return found


def _start(saga: CelerySaga, asked: Any) -> Done:
    if not isinstance(asked, dict):
        _refuse("start", f"must be an object, got {_kind(asked)}")
    _only(asked, _START, "start")
    definition = _known(saga, _text(asked, "saga", "start.saga"), asked.get("version"))
    args, named = asked.get("args", []), asked.get("input", {})
    if not isinstance(args, list):
        _refuse("start.args", f"must be a list, got {_kind(args)}")
    if not isinstance(named, dict):
        _refuse("start.input", f"must be an object, arguments by name, got {_kind(named)}")
    key, id_ = asked.get("key"), _id(asked, "start.id")
    if key is not None:
        definition = definition.options(key=key)
    elif id_ is not None:
        definition = of_message(definition, f"inbox:{id_}")
    handle = definition.start_at(saga, *args, **named)
    return Done(handle.id, "started" if handle.created else "found")


def _signal(saga: CelerySaga, asked: Mapping[str, Any]) -> Done:
    _only(asked, _SIGNAL, "a message that sends a signal")
    name, id_ = _text(asked, "signal", "signal"), _id(asked, "id")
    handle = _handle(saga, asked)
    try:
        return Done(handle.id, handle.signal(name, asked.get("value"), id=id_))
    except SignalDuplicate:
        return Done(handle.id, "duplicate")
    except SignalExpired:
        if id_ is not None and _was_taken(saga, handle.id, name, id_):
            return Done(handle.id, "duplicate")
        raise


def _was_taken(saga: CelerySaga, run_id: str, name: str, id_: str) -> bool:
    """The same signal came before, and a wait has taken it, whatever has become of the run since."""
    signals = saga.engine.store.signals(run_id)
    return any((x.name, x.signal_id) == (name, id_) and x.taken_by is not None for x in signals)


def _handle(saga: CelerySaga, asked: Mapping[str, Any]) -> RunHandle[Any]:
    if ("run_id" in asked) == ("saga" in asked or "key" in asked):
        _refuse("", "names a run either by run_id, or by saga and key")
    if "run_id" in asked:
        return saga.get(_text(asked, "run_id", "run_id"))
    definition = _known(saga, _text(asked, "saga", "saga"), None)
    key = check_key(asked.get("key"), definition.name)
    # It need not exist yet: the signal waits for it then.
    return RunHandle(
        saga.engine,
        run_id_of(definition.name, key),
        definition,
        False,
        key=key,
        drive=saga.after_start if saga.eager else None,
    )


def _known(saga: CelerySaga, name: str, version: Any) -> Saga[..., Any]:
    if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
        _refuse("start.version", f"must be a whole number, got {_kind(version)}")
    found = None
    if not name.startswith(_BUILT_IN):  # those would execute whatever task a message names
        found = saga.registry.latest(name) if version is None else saga.registry.get(name, version)
    if found is None:
        what = repr(name) if version is None else f"{name!r} version {version}"
        raise UnknownSaga(f"the app knows no saga {what}; nothing was written")
    return found


def _text(asked: Mapping[str, Any], name: str, path: str) -> str:
    value = asked.get(name)
    if not isinstance(value, str) or not value:
        _refuse(path, f"must be text, and not empty, got {_kind(value)}" if name in asked else "is missing")
    return _storable(value, path)


def _id(asked: Mapping[str, Any], path: str) -> str | None:
    value = asked.get("id")
    if value is not None and (not isinstance(value, str) or not 0 < len(value) <= _MAX_ID):
        _refuse(path, f"must be text of 1 to {_MAX_ID} characters, got {_kind(value)}")
    return None if value is None else _storable(value, path)


def _storable(value: str, path: str) -> str:
    """JSON can write what no database takes."""
    if not is_storable(value):
        _refuse(path, "has a NUL or half of a surrogate pair in it")
    return value


def _only(asked: Mapping[str, Any], allowed: frozenset[str], what: str) -> None:
    unknown = sorted(asked.keys() - allowed)
    if unknown:
        _refuse("", f"has {unknown[0][:100]!r}, but {what} has {', '.join(sorted(allowed))}")


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return f"text of {len(value)} characters" if value else "an empty text"
    words = {dict: "an object", list: "a list", bool: "true or false", type(None): "null"}
    return words.get(type(value), "a number")


def _refuse(path: str, why: str) -> NoReturn:
    what = f"the message's {path}" if path else "the message"
    raise InvalidPayload(f"{what} {why}; nothing was written.", path=path)
