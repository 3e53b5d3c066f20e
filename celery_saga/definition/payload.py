"""Typed input, results and signal values: checked where they are given, typed where they are read."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from celery_saga.core import codec
from celery_saga.definition.annotations import is_data
from celery_saga.errors import DefinitionError, InvalidPayload, PayloadTooLarge

_SHOWN_ERRORS = 3
_KEYWORDS = inspect.Parameter.VAR_KEYWORD
_POSITIONALS = inspect.Parameter.VAR_POSITIONAL

# Fields of models are written under the names that the model takes; before pydantic 2.11,
# a model takes either the alias or the name, as its own configuration says.
_BY_NAME: dict[str, Any] = (
    {"by_alias": True, "by_name": True}
    if "by_name" in inspect.signature(TypeAdapter.validate_python).parameters
    else {}
)


class Payload:
    """What one body takes, besides the run, and how it is stored.

    Args:
        function: the body; its first parameter is the run.
        saga: the saga's name, for errors; the function's when None.
        has_run: its first parameter is the run; False: of a stub that leaves it out.
    Raises:
        DefinitionError: the first parameter cannot take the run, or an annotation cannot be
            resolved or is of a type that no stored value can become.
    """

    def __init__(self, function: Callable[..., object], *, saga: str | None = None, has_run: bool = True) -> None:
        self._saga = saga if saga is not None else getattr(function, "__name__", repr(function))
        self._signature = self._without_run(function, has_run=has_run)
        resolve = _Resolver(function, f"saga {self._saga!r}")
        self._adapters: dict[str, TypeAdapter[Any]] = {}
        self._types: dict[str, Any] = {}
        self._whole: set[str] = set()  # names of parameters with `**kwargs: Unpack[...]`
        for name, parameter in self._signature.parameters.items():
            annotation = self._types[name] = resolve(name, parameter.annotation)
            if parameter.kind is _KEYWORDS and typing.get_origin(annotation) is typing.Unpack:
                (annotation,) = typing.get_args(annotation)
                self._whole.add(name)
            if not _is_any(annotation):
                self._adapters[name] = _defined(annotation, f"saga {self._saga!r}, parameter {name!r}")
        self.result_type = resolve("return", self._signature.return_annotation)
        """The body's return annotation, resolved; `Any` without one. For `decode_as`."""
        if not _takes_as_is(self.result_type):
            _defined(self.result_type, f"saga {self._saga!r}, the result")

    @property
    def signature(self) -> inspect.Signature:
        """The body's signature without the run."""
        return self._signature

    def type_of(self, name: str) -> Any:
        """The annotation of a parameter, resolved; `Any` without one."""
        return self._types[name]

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, object]:
        """The arguments by parameter name, as given: no defaults are added, nothing is converted.

        Those of `*args` are one list under its name, those of `**kwargs` one mapping.

        Raises:
            InvalidPayload: the call does not fit the signature, a value does not fit its
                annotation or cannot be stored; nothing was written.
        """
        try:
            given = self._signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise InvalidPayload(
                f"{self._saga}() {error}; nothing was written. It takes {self._saga}{self._signature}."
            ) from None
        bound: dict[str, object] = {
            name: list(value) if self._kind(name) is _POSITIONALS else value for name, value in given.items()
        }
        stored = codec.as_stored(bound, what="")
        for name, value in stored.items():
            self._typed(name, value, "nothing was written")
        return bound

    def encode(self, bound: Mapping[str, object], limit_bytes: int | None = None) -> tuple[str, str]:
        """The text of bound arguments, and the digest that tells equal arguments.

        Args:
            bound: what `bind` returned.
            limit_bytes: largest size of the text in bytes of UTF-8; None for no limit.
        Raises:
            InvalidPayload, PayloadTooLarge: as `codec.encode`; nothing was written.
        """
        values = dict(bound)
        try:
            text = codec.encode(values, limit_bytes=limit_bytes, what="")
        except PayloadTooLarge as error:
            raise PayloadTooLarge(
                f"saga {self._saga!r}: {error}".replace("the value is", "its arguments are", 1),
                size_bytes=error.size_bytes,
                limit_bytes=error.limit_bytes,
            ) from None
        # Of the typed values: a mapping that leaves a default out is the same input as the instance made from it.
        return text, codec.digest(self.decode(text))

    def decode(self, text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments for the body, of the annotated types.

        Raises:
            InvalidPayload: the text is damaged, or does not fit the signature any more.
        """
        stored = codec.decode(text)
        if not isinstance(stored, dict):
            raise InvalidPayload(
                f"saga {self._saga!r}: the stored arguments are no mapping; they were left as they are."
            )
        parameters = self._signature.parameters
        unknown = [name for name in stored if name not in parameters]
        if unknown:
            raise InvalidPayload(
                f"saga {self._saga!r}: the stored arguments have {unknown[0]!r}, which the body does not "
                f"take: {self._saga}{self._signature}; they were left as they are. "
                "Give the changed body a new version.",
                path=unknown[0],
            )
        values: OrderedDict[str, Any] = OrderedDict()
        for name in parameters:
            if name in stored:
                value = self._typed(name, stored[name], "they were left as they are")
                values[name] = tuple(value) if self._kind(name) is _POSITIONALS else value
        call = inspect.BoundArguments(self._signature, values)
        try:
            self._signature.bind(*call.args, **call.kwargs)
        except TypeError as error:
            raise InvalidPayload(
                f"saga {self._saga!r}: the stored arguments do not fit the body: {error}; they were "
                "left as they are. Give the changed body a new version."
            ) from None
        return call.args, call.kwargs

    def _kind(self, name: str) -> object:
        return self._signature.parameters[name].kind

    def _typed(self, name: str, value: Any, left: str) -> Any:
        adapter = self._adapters.get(name)
        if adapter is None:
            return value
        kind = self._kind(name)
        if kind is _POSITIONALS:
            return [_validate(adapter, item, f"{name}[{index}]", left) for index, item in enumerate(value)]
        if kind is _KEYWORDS and name not in self._whole:
            return {key: _validate(adapter, item, key, left) for key, item in value.items()}
        return _validate(adapter, value, name, left)

    def _without_run(self, function: Callable[..., object], *, has_run: bool) -> inspect.Signature:
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError, NameError) as error:
            raise DefinitionError(f"saga {self._saga!r}: its signature cannot be read: {error}") from error
        if not has_run:
            return signature
        parameters = list(signature.parameters.values())
        kind = parameters[0].kind if parameters else None
        if kind is _POSITIONALS:
            return signature
        if kind not in {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}:
            raise self._takes_no_run(f"and takes {self._saga}{signature}")
        if is_data(function, parameters[0].name):
            raise self._takes_no_run("which is " + str(parameters[0]).replace("'", ""))
        return signature.replace(parameters=parameters[1:])

    def _takes_no_run(self, but: str) -> DefinitionError:
        return DefinitionError(
            f"saga {self._saga!r}: the body must take the run as its first parameter, {but}; "
            f"nothing was registered. Write def {self._saga}(run: Run, ...)."
        )


def decode_as(type_: Any, value: object) -> Any:
    """A decoded value as an instance of `type_`: a dataclass, model, Enum, list[Order], ...

    Args:
        type_: the type; None and Any leave the value as it is.
        value: what `codec.decode` returned.
    Raises:
        InvalidPayload: the value does not fit the type.
    """
    if _takes_as_is(type_):
        return value
    return _validate(_adapter(type_), value, "value", "it was left as it is")


def validate_as(type_: Any, value: object, what: str) -> Any:
    """Check a value where it is given; store the value, not the returned one.

    Args:
        type_: the type; None and Any take all that can be stored.
        value: an instance of the type, or what becomes one, as a mapping for a dataclass.
        what: how errors call the value, like `result` or `signal 'approval'`.
    Returns:
        What `decode_as` will return for it.
    Raises:
        InvalidPayload: it does not fit, or cannot be stored; nothing was written.
    """
    stored = codec.as_stored(value, what=what)
    if _takes_as_is(type_):
        return stored
    return _validate(_adapter(type_), stored, what, "nothing was written")


def check_type(type_: Any, what: str) -> None:
    """Refuse a type that no stored value can become; for types given in a definition.

    Raises:
        DefinitionError: naming `what`.
    """
    if not _takes_as_is(type_):
        _defined(type_, what)


class _Resolver:
    """Resolves the annotations of one function, one by one: the run's own may stay unresolved."""

    def __init__(self, function: Callable[..., object], where: str) -> None:
        inner = inspect.unwrap(function)
        self._globals: dict[str, Any] = getattr(inner, "__globals__", {})
        self._where = where

    def __call__(self, name: str, annotation: object) -> Any:
        if annotation is inspect.Signature.empty:
            return Any
        holder = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            try:
                return self._hints(holder, None)[name]
            except NameError:
                # A class that is local to the function in which the body is defined.
                return self._hints(holder, _local_names(self._globals))[name]
        except (NameError, TypeError, SyntaxError, AttributeError) as error:
            raise DefinitionError(
                f"{self._where}: the annotation {annotation!r} of {name!r} cannot be resolved: {error}; "
                "nothing was registered. Import what it names at run time, not under TYPE_CHECKING only, "
                "and define it before the body."
            ) from error

    def _hints(self, holder: object, local: dict[str, Any] | None) -> dict[str, Any]:
        return typing.get_type_hints(holder, self._globals, local, include_extras=True)


def _local_names(of: dict[str, Any] | None = None) -> dict[str, Any]:
    """Local names of the functions that are now running: of one module's, or of all; the nearest win."""
    found: dict[str, Any] = {}
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if of is None or frame.f_globals is of:
            found = {**frame.f_locals, **found}
        frame = frame.f_back
    return found


def _takes_as_is(type_: Any) -> bool:
    return type_ is None or type_ is type(None) or _is_any(type_)


def _is_any(type_: Any) -> bool:
    return type_ is Any or type_ is object


def _defined(type_: Any, where: str) -> TypeAdapter[Any]:
    try:
        adapter = _adapter(type_)
        if not getattr(adapter, "pydantic_complete", True):
            adapter.rebuild(raise_errors=True)
        return adapter
    except (PydanticUserError, NameError, TypeError) as error:
        raise DefinitionError(
            f"{where}: no stored value can become {_shown(type_)}: {str(error).partition(chr(10))[0]}; "
            "nothing was registered. Use plain types, a dataclass, a pydantic model, an Enum or a "
            "TypedDict, or the id of an object that the step loads."
        ) from error


def _adapter(type_: Any) -> TypeAdapter[Any]:
    try:
        return _cached_adapter(type_)
    except TypeError:
        # Not hashable, as an Annotated with a list in it; other reasons show up again.
        return TypeAdapter(type_)


@lru_cache(maxsize=1024)
def _cached_adapter(type_: Any) -> TypeAdapter[Any]:
    adapter = TypeAdapter(type_)
    if not getattr(adapter, "pydantic_complete", True):
        # A class that is local to a function names another one that is.
        adapter.rebuild(raise_errors=False, _types_namespace=_local_names())
    return adapter


def _validate(adapter: TypeAdapter[Any], value: object, what: str, left: str) -> Any:
    try:
        return adapter.validate_python(value, **_BY_NAME)
    except ValidationError as error:
        raise _invalid(error, what, left) from None


def _invalid(error: ValidationError, what: str, left: str) -> InvalidPayload:
    # Not the values themselves: errors are logged, and values may be secret.
    found = error.errors(include_url=False, include_context=False)
    places = [
        (what + "".join(_part(part) for part in one["loc"]), one["msg"], type(one["input"]).__name__)
        for one in found[:_SHOWN_ERRORS]
    ]
    text = "; ".join(f"{path}: {message} (got {kind})" for path, message, kind in places)
    more = len(found) - len(places)
    text += f"; and {more} more" if more > 0 else ""
    return InvalidPayload(f"{text}; {left}.", path=places[0][0])


def _part(part: int | str) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if part.isidentifier() else f"[{part!r}]"


def _shown(type_: Any) -> str:
    return type_.__qualname__ if isinstance(type_, type) else repr(type_)
