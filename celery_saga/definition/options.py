"""The options of a saga and of a start, each checked where it is given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from celery_saga.core.admission import LaneSpec
from celery_saga.core.orders import RunSpec
from celery_saga.core.retry import Retry, seconds
from celery_saga.definition.asking import aware
from celery_saga.definition.lane import LaneChoice
from celery_saga.definition.names import (
    MAX_PRIORITY,
    MAX_VERSION,
    check_dispatch,
    check_flag,
    check_int,
    check_name,
    check_word,
)
from celery_saga.definition.signal import Signal
from celery_saga.definition.step import positive_s
from celery_saga.errors import DefinitionError

__all__ = ["UNSET", "SagaOptions", "StartOptions", "Unset", "saga_options", "start_options"]

_IF_EXISTS = ("return", "raise", "restart_failed")


class Unset:
    """Tells that an option was not given, where None says something."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset()


@dataclass(frozen=True, slots=True)
class SagaOptions:
    """What a definition says, checked."""

    name: str
    version: int = 1
    errors: tuple[type[BaseException], ...] = ()
    signals: Mapping[str, Signal[Any]] = field(default_factory=dict)
    retry: Retry | None = None
    deadline_s: float | None = None
    on_failure: str = "compensate"
    on_bug: str = "suspend"
    on_undo_failure: str = "continue"
    undo_retry: Retry | None = None
    dispatch: str | None = None
    queue: str | None = None
    priority: int | None = None
    """None: 0, or the parent's."""
    lane: Any = None
    """As given; `lane.lane_choice` reads it beside the body."""
    max_active: int | None = None
    tags: tuple[str, ...] = ()

    def spec_text(self, lane: LaneSpec | None = None) -> str:
        """What is stored with each run, so that any worker can undo it; with what is said of its lane."""
        return RunSpec(
            on_failure=self.on_failure,
            on_bug=self.on_bug,
            on_undo_failure=self.on_undo_failure,
            undo_retry=None if self.undo_retry is None else self.undo_retry.to_plain(),
            retry=None if self.retry is None else self.retry.to_plain(),
            signals=tuple(self.signals) or None,
            dispatch=self.dispatch,
            lane=None if lane is None else asdict(lane),
        ).to_text()


def saga_options(
    *,
    name: str,
    version: int,
    errors: Iterable[type[BaseException]],
    signals: Iterable[Signal[Any] | str] = (),
    retry: Retry | None = None,
    deadline: float | timedelta | None = None,
    on_failure: str = "compensate",
    on_bug: str = "suspend",
    on_undo_failure: str = "continue",
    undo_retry: Retry | None = None,
    dispatch: str | None = None,
    queue: str | None = None,
    priority: int | None = None,
    lane: object = None,
    max_active: int | None = None,
    tags: Iterable[str] = (),
) -> SagaOptions:
    """The options of `saga`, each checked.

    Raises:
        DefinitionError: naming the option, its value and what is allowed; nothing was registered.
    """
    check_name(name, "saga(name=)")
    where = f"saga {name!r}:"
    return SagaOptions(
        name=name,
        version=check_int(version, f"{where} version=", 1, MAX_VERSION),
        errors=_classes(errors, where),
        signals=_signals(signals, where),
        retry=_policy(retry, f"{where} retry="),
        deadline_s=None if deadline is None else positive_s(deadline, f"{where} deadline="),
        on_failure=_word(on_failure, f"{where} on_failure=", ("compensate", "suspend")),
        on_bug=_word(on_bug, f"{where} on_bug=", ("suspend", "compensate")),
        on_undo_failure=_word(on_undo_failure, f"{where} on_undo_failure=", ("continue", "hold")),
        undo_retry=_policy(undo_retry, f"{where} undo_retry="),
        dispatch=check_dispatch(dispatch, f"{where} dispatch="),
        queue=None if queue is None else check_name(queue, f"{where} queue="),
        priority=None if priority is None else check_int(priority, f"{where} priority=", 0, MAX_PRIORITY),
        lane=lane,
        max_active=None if max_active is None else check_int(max_active, f"{where} max_active=", 1, MAX_VERSION),
        tags=_tags(tags, where),
    )


@dataclass(frozen=True, slots=True)
class StartOptions:
    """What one start says, checked; None: not given."""

    key: str | None = None
    run_id: str | None = None
    """Of a run without a key; not for users."""
    countdown_s: float | None = None
    eta: datetime | None = None
    deadline_s: float | None = None
    priority: int | None = None
    lane: LaneChoice | None = None
    if_exists: str | None = None
    tags: tuple[str, ...] | None = None
    detached: bool | None = None
    connection: Any = None
    """Of the caller, in whose transaction it is done."""


def start_options(
    saga: str,
    *,
    countdown: float | timedelta | None,
    eta: datetime | None,
    deadline: float | timedelta | None,
    priority: int | None,
    lane: LaneChoice | None,
    if_exists: str | None,
    tags: Iterable[str] | None,
    detached: bool | None = None,
    connection: object,
) -> StartOptions:
    """The options of one start but its key, each checked.

    Raises:
        DefinitionError: naming the option, its value and what is allowed; nothing was written.
    """
    where = f"saga {saga!r}, options():"
    if countdown is not None and eta is not None:
        raise DefinitionError(f"{where} give countdown= or eta=, not both; nothing was written.")
    return StartOptions(
        countdown_s=None
        if countdown is None
        else seconds(countdown, f"{where} countdown=", left="nothing was written"),
        eta=None if eta is None else aware(eta, f"{where} eta="),
        deadline_s=None if deadline is None else positive_s(deadline, f"{where} deadline="),
        priority=None if priority is None else check_int(priority, f"{where} priority=", 0, MAX_PRIORITY),
        lane=lane,
        if_exists=check_word(if_exists, f"{where} if_exists=", _IF_EXISTS),
        tags=None if tags is None else _tags(tags, where),
        detached=None if detached is None else check_flag(detached, f"{where} detached="),
        connection=None if connection is None else _connection(connection, f"{where} connection="),
    )


def _connection(connection: object, what: str) -> object:
    # Not by class: this must not import SQLAlchemy or Django.
    is_async = hasattr(connection, "sync_session") or hasattr(connection, "sync_connection")
    is_sqlalchemys = hasattr(connection, "get_bind") or hasattr(connection, "in_nested_transaction")
    is_djangos = hasattr(connection, "on_commit") and hasattr(connection, "in_atomic_block")
    if is_async or not (is_sqlalchemys or is_djangos):
        advice = " In async code write `await connection.run_sync(lambda c: ...)` and give c." if is_async else ""
        raise DefinitionError(
            f"{what} takes a SQLAlchemy connection or session, or Django's connection, got {connection!r}; nothing was "
            f"written.{advice}"
        )
    return connection


def _word(word: str, what: str, allowed: tuple[str, ...]) -> str:
    checked = check_word(word, what, allowed)
    if checked is None:
        raise DefinitionError(
            f"{what} must be one of {', '.join(map(repr, allowed))}, got None; nothing was registered."
        )
    return checked


def _policy(policy: object, what: str) -> Retry | None:
    if policy is None or isinstance(policy, Retry):
        return policy
    raise DefinitionError(f"{what} takes a Retry, got {policy!r}; nothing was registered.")


def _classes(errors: object, where: str) -> tuple[type[BaseException], ...]:
    given = (errors,) if isinstance(errors, type) else _items(errors, f"{where} errors=")
    for each in given:
        if not (isinstance(each, type) and issubclass(each, Exception)):
            raise DefinitionError(f"{where} errors= takes classes of exceptions, got {each!r}; nothing was registered.")
    return tuple(given)


def _signals(signals: object, where: str) -> dict[str, Signal[Any]]:
    declared: dict[str, Signal[Any]] = {}
    for each in _items(signals, f"{where} signals="):
        if not isinstance(each, Signal | str):
            raise DefinitionError(
                f"{where} signals= takes signals or their names, got {each!r}; nothing was registered."
            )
        signal: Signal[Any] = Signal(each) if isinstance(each, str) else each
        if signal.name in declared:
            raise DefinitionError(f"{where} signals= has {signal.name!r} twice; nothing was registered.")
        declared[signal.name] = signal
    return declared


def _tags(tags: object, where: str) -> tuple[str, ...]:
    return tuple(check_name(tag, f"{where} a tag") for tag in _items(tags, f"{where} tags="))


def _items(values: object, what: str) -> tuple[Any, ...]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise DefinitionError(f"{what} takes a list, got {values!r}; nothing was registered.")
    return tuple(values)
