"""The decorator that makes a saga of a body, or of a stub."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, overload

from celery_saga.core.asked import known_as
from celery_saga.core.retry import Retry
from celery_saga.definition import declared
from celery_saga.definition.handler import DeclaredSaga
from celery_saga.definition.lane import LaneOption
from celery_saga.definition.options import saga_options
from celery_saga.definition.saga import Saga
from celery_saga.definition.signal import Signal
from celery_saga.definition.step import Dispatch
from celery_saga.errors import DefinitionError

if TYPE_CHECKING:
    from celery_saga.definition.run import Run

__all__ = ["Decorator", "saga"]

known_as(Saga)

P = ParamSpec("P")
R = TypeVar("R")

Seconds = float | timedelta


class _Declares(Protocol):
    """Makes a saga of a stub, with or without the run."""

    @overload
    def __call__(self, stub: Callable[Concatenate[Run, P], R], /) -> DeclaredSaga[P, R]: ...
    @overload
    def __call__(self, stub: Callable[P, R], /) -> DeclaredSaga[P, R]: ...


class Decorator:
    """`saga`: `@saga` or `@saga(...)` over a body, `@saga.declare(...)` over a stub."""

    @overload
    def __call__(self, body: Callable[Concatenate[Run, P], R], /) -> Saga[P, R]: ...
    @overload
    def __call__(
        self,
        /,
        *,
        name: str | None = None,
        version: int = 1,
        key: str | Callable[..., str] | None = None,
        errors: Iterable[type[BaseException]] = (),
        signals: Iterable[Signal[Any] | str] = (),
        retry: Retry | None = None,
        deadline: Seconds | None = None,
        on_failure: Literal["compensate", "suspend"] = "compensate",
        on_bug: Literal["suspend", "compensate"] = "suspend",
        on_undo_failure: Literal["continue", "hold"] = "continue",
        undo_retry: Retry | None = None,
        dispatch: Dispatch | None = None,
        queue: str | None = None,
        priority: int | None = None,
        lane: LaneOption | None = None,
        max_active: int | None = None,
        tags: Iterable[str] = (),
    ) -> Callable[[Callable[Concatenate[Run, P], R]], Saga[P, R]]: ...

    def __call__(
        self,
        body: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        version: int = 1,
        key: str | Callable[..., str] | None = None,
        errors: Iterable[type[BaseException]] = (),
        signals: Iterable[Signal[Any] | str] = (),
        retry: Retry | None = None,
        deadline: Seconds | None = None,
        on_failure: Literal["compensate", "suspend"] = "compensate",
        on_bug: Literal["suspend", "compensate"] = "suspend",
        on_undo_failure: Literal["continue", "hold"] = "continue",
        undo_retry: Retry | None = None,
        dispatch: Dispatch | None = None,
        queue: str | None = None,
        priority: int | None = None,
        lane: LaneOption | None = None,
        max_active: int | None = None,
        tags: Iterable[str] = (),
    ) -> Any:
        """Make a saga of a body: `@saga`, or `@saga(...)`.

        Args:
            name: 1 to 200 characters; None: the function's. With the version it belongs to one body.
            version: from 1; a changed body gets a new one while runs of the old one are alive.
            key: two starts of one key are one run: a template like `{order.id}`, or a function of the arguments.
            errors: classes that the body sees as themselves, and that undo the run when they leave it.
            signals: the only ones that its runs take, with their types; none: any.
            retry: runs the body again after an error left it, before anything is undone.
            deadline: longest time from the start to the last step, in seconds or as timedelta, above 0.
            on_failure, on_bug: `compensate` or `suspend`, after a declared and after any other error.
            on_undo_failure: when an undo is used up: `continue` with the others, or `hold` for a person.
            undo_retry: policy of undos without one of their own; None: tries over 24 h.
            dispatch: how its steps are executed: `broker` (a message each), `inline` (by the process that coordinates
                the run, where that is possible) or `auto`; None: as `saga_dispatch` says, else `broker`.
            queue, priority, tags: where its messages go, 0 to 2097151 (higher first; None: 0, or its parent's), marks.
            lane: what its runs queue in: a name, a Lane, a template or a function of the arguments; docs/lanes.md.
            max_active: how many of its runs may be active at a time, from 1; None: any number.
        Raises:
            DefinitionError: a value that is not allowed, or a name and version that are taken; nothing was registered.
        """
        said = {"version": version, "errors": errors, "signals": signals, "retry": retry, "deadline": deadline}
        said |= {"on_failure": on_failure, "on_bug": on_bug, "on_undo_failure": on_undo_failure, "tags": tags}
        said |= {"undo_retry": undo_retry, "dispatch": dispatch, "queue": queue, "priority": priority}
        said |= {"lane": lane, "max_active": max_active}
        make = partial(_made, name=name, key=key, said=said)
        return make if body is None else make(body)

    def declare(
        self,
        *,
        name: str | None = None,
        version: int = 1,
        key: str | Callable[..., str] | None = None,
        errors: Iterable[type[BaseException]] = (),
        signals: Iterable[Signal[Any] | str] = (),
        retry: Retry | None = None,
        deadline: Seconds | None = None,
        on_failure: Literal["compensate", "suspend"] = "compensate",
        on_bug: Literal["suspend", "compensate"] = "suspend",
        on_undo_failure: Literal["continue", "hold"] = "continue",
        undo_retry: Retry | None = None,
        dispatch: Dispatch | None = None,
        queue: str | None = None,
        priority: int | None = None,
        lane: LaneOption | None = None,
        max_active: int | None = None,
        tags: Iterable[str] = (),
    ) -> _Declares:
        """Declare a saga over a typed stub, apart from its body: `@saga.declare(...)`.

        Who starts, finds or signals runs imports the declaration alone. The body is given where runs are executed, by
        `@that.handler` over a function that takes the run and what the stub takes. A worker that has not imported the
        handler leaves the runs to those that have. All options are those of `saga`.

        Raises:
            DefinitionError: as `saga`; nothing was registered.
        """
        said = {"version": version, "errors": errors, "signals": signals, "retry": retry, "deadline": deadline}
        said |= {"on_failure": on_failure, "on_bug": on_bug, "on_undo_failure": on_undo_failure, "tags": tags}
        said |= {"undo_retry": undo_retry, "dispatch": dispatch, "queue": queue, "priority": priority}
        said |= {"lane": lane, "max_active": max_active}
        make: Any = partial(_made, name=name, key=key, said=said, kind=DeclaredSaga)
        declares: _Declares = make
        return declares


saga = Decorator()
"""Makes a saga of a body, or of a stub whose body lives elsewhere."""


def _made(
    body: Any, *, name: str | None, key: Any, said: Mapping[str, Any], kind: type[Saga[..., Any]] = Saga
) -> Saga[Any, Any]:
    if not callable(body) or isinstance(body, type):
        raise DefinitionError(f"@saga decorates a function, got {body!r}; nothing was registered.")
    given_name: Any = getattr(body, "__name__", None) if name is None else name
    made: Saga[Any, Any] = kind(body, saga_options(name=given_name, **said), key)
    declared.declare(made)
    return made
