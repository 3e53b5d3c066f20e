"""A document that `export` wrote, read back into records: every part of it is checked before anything is written.

Theory of operation. What is imported is looked at, or gone on with by a person: it is never live by accident. So a run
must have ended or be parked, and nothing of it may be due, scheduled or running; a sweeper then finds nothing to do.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import Enum
from typing import Any, NoReturn, TypeVar, cast

from pydantic import TypeAdapter

from celery_saga.client.export import FORMAT, SECRET
from celery_saga.core import codec, failure
from celery_saga.core.orders import RunSpec, StepSpec
from celery_saga.core.records import Action, HistoryRecord, RunRecord, SignalRecord, StepKind, StepRecord
from celery_saga.core.status import Admission, RunStatus, StepStatus
from celery_saga.core.storable import is_storable
from celery_saga.errors import InvalidPayload

__all__ = ["Imported", "read"]

R = TypeVar("R", RunRecord, StepRecord, HistoryRecord, SignalRecord)

_PARTS = ("format", "run", "steps", "history", "signals")
_ENUMS: dict[str, type[Enum]] = {
    each.__name__: each for each in (RunStatus, StepStatus, StepKind, Action) if issubclass(each, Enum)
}
_LEAST = {"ordinal": -1}  # of what has no place among the others
_MOST = {"state_version": 2**63 - 1}
_LONG = {"detail", "by", "reason"}  # for people; everything else that is text is a name
_SHORT = {"id", "run_id", "parent_id"}
_FORWARD_ENDS = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)


@dataclass(frozen=True, slots=True)
class Imported:
    """A run with all that belongs to it, as it is to be stored."""

    run: RunRecord
    steps: Sequence[StepRecord]
    history: Sequence[HistoryRecord]
    signals: Sequence[SignalRecord]


def read(document: object) -> Imported:
    """The records of a document.

    Raises:
        InvalidPayload: it is none that `export` writes, or its run is not at rest; `path` says where.
    """
    whole = _mapping(document, "", _PARTS)
    if whole["format"] != FORMAT:
        _refuse("format", f"must be {FORMAT!r}", whole["format"])
    run = _record(RunRecord, whole["run"], "run")
    found = Imported(
        run,
        [_record(StepRecord, each, path) for path, each in _items(whole["steps"], "steps")],
        [_record(HistoryRecord, each, path) for path, each in _items(whole["history"], "history")],
        [_record(SignalRecord, each, path) for path, each in _items(whole["signals"], "signals")],
    )
    _check_run(run)
    _check_steps(found)
    _check_history(found)
    _check_signals(found)
    return found


# -- one record -----------------------------------------------------------------------------------------------------
def _record(cls: type[R], given: object, path: str) -> R:
    known = {field.name: str(field.type) for field in fields(cls) if field.name not in SECRET}
    values = _mapping(given, path, [_shown(name) for name in known])
    read_: dict[str, Any] = {}
    for name, kind in known.items():
        shown = _shown(name)
        read_[name] = _value(cls, name, kind, values[shown], f"{path}.{shown}")
    return cls(**read_)


def _shown(name: str) -> str:
    return name.removesuffix("_text")


def _value(cls: type, name: str, kind: str, given: object, path: str) -> Any:
    kind, bar, _ = kind.partition(" | None")
    if given is None and bar:
        return None
    if name.endswith("_text"):
        return _payload(cls, name, given, path)
    if kind in _ENUMS:
        return _enum(_ENUMS[kind], given, path)
    return _PLAIN[kind](name, given, path)


def _text(name: str, given: object, path: str) -> str:
    if not isinstance(given, str) or not is_storable(given):
        _refuse(path, "must be text without NUL and lone surrogates", given)
    longest = 64 if name in _SHORT else 255
    if name not in _LONG and len(given) > longest:
        _refuse(path, f"must have at most {longest} characters", given)
    return given


def _int(name: str, given: object, path: str) -> int:
    least, most = _LEAST.get(name, 0), _MOST.get(name, 2**31 - 1)
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= most:
        _refuse(path, f"must be a whole number from {least} to {most}", given)
    return given


def _bool(name: str, given: object, path: str) -> bool:
    if not isinstance(given, bool):
        _refuse(path, "must be true or false", given)
    return given


def _instant(name: str, given: object, path: str) -> datetime:
    rule = "must be an instant in ISO 8601 with its zone, like 2026-01-31T08:00:00+00:00"
    try:
        at = datetime.fromisoformat(given) if isinstance(given, str) else None
        in_utc = None if at is None or at.utcoffset() is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        in_utc = None
    if in_utc is None:
        _refuse(path, rule, given)
    return in_utc


_PLAIN: Mapping[str, Callable[[str, object, str], Any]] = {
    "str": _text,
    "int": _int,
    "bool": _bool,
    "datetime": _instant,
}


def _enum(kind: type[Enum], given: object, path: str) -> Enum:
    known = [each.value for each in kind]
    if not isinstance(given, str) or given not in known:
        _refuse(path, f"must be one of {', '.join(known)}", given)
    return kind(given)


# -- stored texts ---------------------------------------------------------------------------------------------------
def _payload(cls: type, name: str, given: object, path: str) -> str:
    """The text that a part of the document was read from, checked for what it has to hold."""
    check: Callable[[str], object] = _CHECKS.get((cls, name), codec.decode)
    try:
        text = json.dumps(given, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode()
        if json.loads(text) != given:
            raise ValueError("it is no JSON")
        check(text)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError) as error:
        why = "it is nested too deep" if isinstance(error, RecursionError) else str(error).partition("\n")[0]
        raise InvalidPayload(
            f"import: {path} cannot be what was exported: {why}; nothing was written. Give the document as it was.",
            path=path,
        ) from None
    return text


_RUN_SPEC, _STEP_SPEC = TypeAdapter(RunSpec), TypeAdapter(StepSpec)
_TAGS, _TEXTS = TypeAdapter(tuple[str, ...]), TypeAdapter(list[str])
_HEADERS, _INPUT = TypeAdapter(dict[str, Any]), TypeAdapter(dict[str, Any])
_ARGS, _PENDING = TypeAdapter(tuple[list[Any], dict[str, Any]]), TypeAdapter(tuple[str | None, bool])
_PROGRESS = TypeAdapter(tuple[Any, Any, Any])


def _spec_of_run(text: str) -> None:
    RunSpec.from_text(text)  # refuses names that it does not know
    _RUN_SPEC.validate_json(text, strict=True)


def _spec_of_step(text: str) -> None:
    StepSpec.from_text(text)
    _STEP_SPEC.validate_json(text, strict=True)


def _tags(text: str) -> None:
    if any(not is_storable(tag) or not 0 < len(tag) <= 200 for tag in _TAGS.validate_json(text, strict=True)):
        raise ValueError("a tag has 1 to 200 characters")


def _decoded(adapter: TypeAdapter[Any]) -> Callable[[str], object]:
    def check(text: str) -> None:
        codec.decode(text)
        adapter.validate_json(text, strict=True)

    return check


_CHECKS: Mapping[tuple[type, str], Callable[[str], object]] = {
    (RunRecord, "input_text"): _decoded(_INPUT),
    (RunRecord, "spec_text"): _spec_of_run,
    (RunRecord, "headers_text"): _decoded(_HEADERS),
    (RunRecord, "error_text"): failure.from_text,
    (RunRecord, "cut_text"): _decoded(_TEXTS),
    (RunRecord, "tags_text"): _tags,
    (RunRecord, "pending_text"): _decoded(_PENDING),
    (StepRecord, "args_text"): _decoded(_ARGS),
    (StepRecord, "spec_text"): _spec_of_step,
    (StepRecord, "error_text"): failure.from_text,
    (StepRecord, "progress_text"): _decoded(_PROGRESS),
    (SignalRecord, "error_text"): failure.from_text,
}
"""What the texts must hold that are more than a value of the user's."""


# -- the whole ------------------------------------------------------------------------------------------------------
def _check_run(run: RunRecord) -> None:
    for name in ("id", "saga"):
        if not getattr(run, name):
            _refuse(f"run.{name}", "must not be empty", "")
    if not run.status.is_end and run.status is not RunStatus.SUSPENDED:
        _refuse(
            "run.status",
            "must be an end or suspended: a live run goes on where it was exported, and would go on here too. Suspend "
            "it there before it is exported; it is",
            run.status.value,
        )
    if run.status.is_end and run.ended_at is None:
        _refuse("run.ended_at", f"must be there: the run is {run.status.value}", None)
    for name in ("wake_at", "lease_until", "purged_at"):
        if getattr(run, name) is not None:
            _refuse(f"run.{name}", "must be null: the run is not at rest", getattr(run, name).isoformat())
    # Slots are not exported: who went on as if it had one would pass by its lane, who queued would wait for ever.
    # One without a lane asks when something has it queue.
    needs_slot = run.lane is not None and run.parent_id is None
    admissions = [Admission.OUT] if needs_slot else [Admission.NONE, Admission.OUT]
    if run.admission not in admissions:
        _refuse("run.admission", f"must be of {', '.join(repr(each.value) for each in admissions)}", run.admission)
    for name in ("version", "generation", "state_version"):
        if getattr(run, name) < 1:
            _refuse(f"run.{name}", "must be at least 1", getattr(run, name))
    if run.outcome is not None and run.outcome not in _FORWARD_ENDS:
        _refuse("run.outcome", "must be completed, failed, cancelled or null", run.outcome.value)


def _check_steps(found: Imported) -> None:
    seen: set[tuple[int, str]] = set()
    for number, step in enumerate(found.steps):
        path = f"steps[{number}]"
        _check_owner(found.run, step.run_id, path)
        if not 1 <= step.born <= step.generation <= found.run.generation:
            _refuse(f"{path}.generation", f"must be from born={step.born} to the run's", step.generation)
        if step.status in (StepStatus.SCHEDULED, StepStatus.RUNNING):
            rule = "must be at rest: wait where it was exported until its attempt has ended; it is"
            _refuse(f"{path}.status", rule, step.status.value)
        if step.wake_at is not None:
            _refuse(f"{path}.wake_at", "must be null: the step is not at rest", step.wake_at.isoformat())
        if not step.key or (step.generation, step.key) in seen:
            _refuse(f"{path}.key", "must be there once in its generation", step.key)
        seen.add((step.generation, step.key))
        if step.seq is not None and step.seq > found.run.step_seq:
            _refuse(f"{path}.seq", f"must be at most the run's step_seq={found.run.step_seq}", step.seq)


def _check_history(found: Imported) -> None:
    for number, row in enumerate(found.history):
        _check_owner(found.run, row.run_id, f"history[{number}]")
        if row.seq != number + 1:
            _refuse(f"history[{number}].seq", f"must be {number + 1}: rows are counted from 1 without a gap", row.seq)
    if found.run.history_seq != len(found.history):
        _refuse("run.history_seq", f"must be the number of rows, {len(found.history)}", found.run.history_seq)


def _check_signals(found: Imported) -> None:
    seen: set[tuple[str, str]] = set()
    for number, signal in enumerate(found.signals):
        path = f"signals[{number}]"
        _check_owner(found.run, signal.run_id, path)
        if signal.id != number + 1:
            _refuse(f"{path}.id", f"must be {number + 1}: its place in the order of arrival", signal.id)
        if not signal.name or not signal.signal_id or (signal.name, signal.signal_id) in seen:
            _refuse(f"{path}.signal_id", "must be there once for its name", signal.signal_id)
        seen.add((signal.name, signal.signal_id))
        if signal.is_request and signal.taken_by is None:
            _refuse(f"{path}.name", "must be no open request, which would be carried out here too", signal.name)


def _check_owner(run: RunRecord, run_id: str, path: str) -> None:
    if run_id != run.id:
        _refuse(f"{path}.run_id", f"must be the run's id {run.id!r}", run_id)


# -- shapes ---------------------------------------------------------------------------------------------------------
def _mapping(given: object, path: str, names: Iterable[str]) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        _refuse(path, "must be an object", given)
    wanted = list(names)
    for name in wanted:
        if name not in given:
            _refuse(f"{path}.{name}".lstrip("."), "must be there", None)
    for name in given:
        if name not in wanted:
            _refuse(path, f"has a part that is not known, {name!r}, and must have", ", ".join(wanted))
    return cast("Mapping[str, Any]", given)


def _items(given: object, path: str) -> Iterable[tuple[str, object]]:
    if not isinstance(given, list):
        _refuse(path, "must be a list", given)
    return [(f"{path}[{number}]", each) for number, each in enumerate(given)]


def _refuse(path: str, rule: str, given: object) -> NoReturn:
    what = path or "the document"
    raise InvalidPayload(f"import: {what} {rule}, got {reprlib.repr(given)}; nothing was written.", path=path)
