"""Sagas whose definition and body live apart: a typed stub to start runs by, a handler where they are executed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from celery_saga.definition.body import check_body
from celery_saga.definition.options import SagaOptions
from celery_saga.definition.payload import Payload
from celery_saga.definition.saga import Saga
from celery_saga.errors import DefinitionError

if TYPE_CHECKING:
    from celery_saga.definition.run import Run

__all__ = ["DeclaredSaga"]

P = ParamSpec("P")
R = TypeVar("R")

_EMPTY = inspect.Parameter.empty


class _Handler:
    """Where the body will be; one for a saga and all its `options()`."""

    function: Callable[..., Any] | None = None


class DeclaredSaga(Saga[P, R]):
    """A saga that was declared over a stub: it is started, found and signalled without its body.

    A process that has not imported its handler does not execute it: it leaves runs to those that have, as it does with
    a version that it does not know.
    """

    def __init__(
        self,
        stub: Callable[..., R],
        options: SagaOptions,
        key: str | Callable[..., str] | None = None,
    ) -> None:
        super().__init__(stub, options, key, payload=Payload(stub, saga=options.name, has_run=_takes_run(stub)))
        self._handler = _Handler()

    @property
    def has_body(self) -> bool:
        """Its handler was imported."""
        return self._handler.function is not None

    @property
    def body(self) -> Callable[Concatenate[Run, P], R]:
        """The handler; the stub while there is none."""
        return self._handler.function or super().body

    def handler(self, body: Callable[Concatenate[Run, P], R]) -> DeclaredSaga[P, R]:
        """Make a function the body: `@that.handler`. It takes the run, and what the stub takes.

        Returns:
            The saga, so that the handler's module has it under the function's name.
        Raises:
            DefinitionError: its signature is not that of the stub, it cannot be a body, or there is another handler;
                nothing was registered.
        """
        if not callable(body):
            raise DefinitionError(
                f"saga {self.name!r}: @{self.name}.handler decorates a function, got {body!r}; nothing was registered."
            )
        check_body(body, self.name)
        there = self._handler.function
        if there is not None and _home(there) != _home(body):
            raise DefinitionError(
                f"saga {self.name!r} version {self.version} has a handler already, {_home(there)}; {_home(body)} was "
                "not registered. Give one of them another saga, or a changed body a new version=."
            )
        difference = _difference(self.payload, Payload(body, saga=self.name))
        if difference is not None:
            raise DefinitionError(
                f"saga {self.name!r}: its handler {_home(body)} does not fit its declaration: {difference}; nothing "
                f"was registered. Declared is {self.name}{self.payload.signature}."
            )
        self._handler.function = body
        return self


def _takes_run(stub: Callable[..., Any]) -> bool:
    """The stub's first parameter stands for the run, by its annotation, or by its name where it has none."""
    try:
        parameters = list(inspect.signature(stub).parameters.values())
    except (TypeError, ValueError, NameError):
        return False  # what is wrong with it is told by the payload
    if not parameters:
        return False
    annotation = parameters[0].annotation
    if annotation is _EMPTY:
        return parameters[0].name == "run"
    if isinstance(annotation, str):
        return annotation.strip("'\"").rpartition(".")[2] == "Run"
    return f"{getattr(annotation, '__module__', '')}.{annotation.__name__}" == "celery_saga.definition.run.Run"


def _difference(declared: Payload, handled: Payload) -> str | None:
    """What is not the same in both; None: nothing. What the handler has no annotation for is as declared."""
    mine, its = declared.signature.parameters, handled.signature.parameters
    for name in [*mine, *(name for name in its if name not in mine)]:
        if name not in its:
            return f"it does not take {name!r}"
        if name not in mine:
            return f"it takes {name!r}, which is not declared"
        if mine[name].kind is not its[name].kind:
            return f"{name!r} is {_kind(its[name])}, declared is {_kind(mine[name])}"
        if not _same_default(mine[name].default, its[name].default):
            return f"{name!r} has {_default(its[name].default)}, declared is {_default(mine[name].default)}"
        if its[name].annotation is not _EMPTY and handled.type_of(name) != declared.type_of(name):
            return f"{name!r} is {_shown(handled.type_of(name))}, declared is {_shown(declared.type_of(name))}"
    if list(mine) != list(its):
        return f"it takes {', '.join(its)} in this order, declared is {', '.join(mine)}"
    is_annotated = handled.signature.return_annotation is not inspect.Signature.empty
    if is_annotated and handled.result_type != declared.result_type:
        return f"it returns {_shown(handled.result_type)}, declared is {_shown(declared.result_type)}"
    return None


def _same_default(mine: Any, its: Any) -> bool:
    return mine is its or (type(mine) is type(its) and bool(mine == its))


def _default(default: Any) -> str:
    return "no default" if default is _EMPTY else f"the default {default!r}"


def _kind(parameter: inspect.Parameter) -> str:
    return parameter.kind.description


def _shown(type_: Any) -> str:
    return type_.__qualname__ if isinstance(type_, type) else repr(type_)


def _home(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"
