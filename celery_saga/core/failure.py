"""An exception as a value: what is stored of it, and how its class gets it back."""

from __future__ import annotations

import builtins
import traceback
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from celery_saga.core import codec
from celery_saga.core.unreadable import Unreadable
from celery_saga.errors import InvalidPayload, NonRetryable, PayloadTooLarge, PayloadUnreadable, SagaError

MESSAGE_LIMIT = 2_000
"""Longest stored message, in characters."""
TRACEBACK_LIMIT = 16_000
"""Longest stored traceback, in characters; its end, where the error was raised, is kept."""
CAUSES_LIMIT = 5
"""Most causes stored behind a failure."""
_FRAMES_LIMIT = 50
_DETAIL_LIMIT_BYTES = 65_536


@dataclass(frozen=True)
class Failure:
    """What is known of an exception after its process is gone.

    Args:
        type_name: module and qualified name of its class, like `shop.errors.CardDeclined`.
        type_names: the same of the class and its bases, nearest first, without `object`.
        message: its text, at most 2,000 characters.
        args_text: codec text of its `args`; None when they would not come back the same.
        state_text: codec text of those of its attributes that come back the same; None
            when there are none.
        traceback: its formatted traceback, without its causes; may be empty.
        cause: the exception that it was raised from or while handling.
        code: the stable code, when it is an error of celery_saga.
    """

    type_name: str
    type_names: tuple[str, ...]
    message: str
    args_text: str | None = None
    state_text: str | None = None
    traceback: str = ""
    cause: Failure | None = None
    code: str | None = None


def capture(exc: BaseException) -> Failure:
    """What to store of an exception. Never raises, whatever the exception does."""
    seen: set[int] = set()
    chain: list[BaseException] = []
    link: BaseException | None = exc
    while link is not None and id(link) not in seen and len(chain) <= CAUSES_LIMIT:
        seen.add(id(link))
        chain.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    cause: Failure | None = None
    for link in reversed(chain[1:]):
        cause = _capture_one(link, cause)
    return _capture_one(exc, cause)


def matches(failure: Failure, classes: Iterable[type[BaseException]]) -> bool:
    """Whether it was of one of the classes or of a subclass, by the stored names."""
    return any(_name(cls) in failure.type_names for cls in classes)


def to_text(failure: Failure) -> str:
    """JSON text of a failure, for `from_text`."""
    return codec.encode(asdict(failure))


def from_text(text: str) -> Failure:
    """The failure that `to_text` wrote; where its text cannot be read now, a failure that says so.

    Raises:
        InvalidPayload: the text is damaged.
    """
    if isinstance(text, Unreadable):
        return capture(PayloadUnreadable(f"the stored error cannot be read: {text.why}; it was left as it is"))
    stored = codec.decode(text)
    try:
        return _from_stored(stored)
    except (TypeError, KeyError) as error:
        raise InvalidPayload(f"a stored failure cannot be read: {error!r}; it was left as it is.") from error


def rebuild(failure: Failure, classes: Iterable[type[BaseException]]) -> BaseException | None:
    """The exception again, with its args, attributes and causes as far as they were stored.

    Only a class that is given here, or a builtin `Exception`, is used, and its constructor
    is not called: nothing that the data names is imported or run. Where the args could not
    be stored, the message is the only one.

    Args:
        classes: the classes that may be made, and those of their subclasses that this process has loaded. The one
            whose qualified name is the stored one; else, of a subclass that is not loaded, the nearest of its bases.
    Returns:
        None when no class has that name, or its instance cannot be made this way, as with
        exception groups.
    """
    known = tuple(classes)
    cls = _nearest(failure, known) or _builtin(failure)
    if cls is None:
        return None
    try:
        args = (failure.message,) if failure.args_text is None else codec.decode(failure.args_text)
        state = {} if failure.state_text is None else codec.decode(failure.state_text)
    except InvalidPayload:
        args, state = (failure.message,), {}
    error = _make(cls, args, state)
    if error is not None and failure.cause is not None:
        error.__cause__ = rebuild(failure.cause, known)
    return error


def _nearest(failure: Failure, known: tuple[type[BaseException], ...]) -> type[BaseException] | None:
    named = {_name(cls): cls for cls in known}
    if failure.type_name in named:
        return named[failure.type_name]
    base = next((named[name] for name in failure.type_names if name in named), None)
    return None if base is None else _loaded(base, failure.type_name) or base


def _loaded(base: type[BaseException], name: str) -> type[BaseException] | None:
    for cls in base.__subclasses__():
        found = cls if _name(cls) == name else _loaded(cls, name)
        if found is not None:
            return found
    return None


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _builtin(failure: Failure) -> type[BaseException] | None:
    module, _, name = failure.type_name.partition(".")
    found = getattr(builtins, name, None) if module == "builtins" else None
    # SystemExit and its like would end the process that raises them again.
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _make(cls: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException | None:
    # The builtin base's own constructors, which run no code of the project: those of
    # OSError or UnicodeDecodeError fill fields that are in no __dict__.
    base = next(base for base in cls.__mro__ if base.__module__ == "builtins")
    try:
        error: Any = base.__new__(cls, *args)
        base.__init__(error, *args)  # type: ignore[misc]
        if isinstance(error, OSError) and len(args) > 1 and error.errno is None:
            # A subclass with an __init__ of its own keeps OSError from doing this.
            error.errno, error.strerror = args[:2]
        error.__dict__.update(state)
    except (TypeError, ValueError):
        return None
    return error if type(error) is cls else None


def _capture_one(exc: BaseException, cause: Failure | None) -> Failure:
    cls = type(exc)
    return Failure(
        type_name=_name(cls),
        type_names=tuple(_name(base) for base in cls.__mro__ if base is not object),
        message=_message(exc),
        args_text=_detail(_args(exc)),
        state_text=_state_text(exc),
        traceback=_traceback(exc),
        cause=cause,
        code=exc.code if isinstance(exc, SagaError | NonRetryable) else None,
    )


def _message(exc: BaseException) -> str:
    try:
        text = str(exc)
        if isinstance(exc, BaseExceptionGroup):
            text = f"{text}: {', '.join(map(repr, exc.exceptions))}"
    except Exception as error:  # noqa: BLE001  # any code may be in a __str__
        text = f"<no message: its __str__ raised {type(error).__name__}>"
    text = _storable(text)
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 1] + "…"


def _args(exc: BaseException) -> tuple[object, ...]:
    args: tuple[object, ...] = vars(BaseException)["args"].__get__(exc)  # a class may hide it
    if isinstance(exc, OSError) and exc.filename is not None and len(args) == 2:
        # OSError takes the file names out of its args.
        args += (exc.filename,) if exc.filename2 is None else (exc.filename, None, exc.filename2)
    return args


def _state_text(exc: BaseException) -> str | None:
    try:
        state = dict(exc.__dict__)
    except Exception:  # noqa: BLE001  # as above
        return None
    if not state:
        return None
    kept = {name: value for name, value in state.items() if _detail(value) is not None}
    return _detail(kept) if kept else None


def _detail(value: object) -> str | None:
    """The codec text of a value that comes back as it was; else None."""
    try:
        text = codec.encode(value, limit_bytes=_DETAIL_LIMIT_BYTES)
        # A dataclass is written as a mapping, which its owner would not expect to get.
        return text if codec.decode(text) == value else None
    except (InvalidPayload, PayloadTooLarge):
        return None
    except Exception:  # noqa: BLE001  # any code may be in a property or an __eq__
        return None


def _traceback(exc: BaseException) -> str:
    try:
        # Reads source lines through linecache, as every traceback does.
        lines = traceback.format_exception(type(exc), exc, exc.__traceback__, -_FRAMES_LIMIT, chain=False)
    except Exception:  # noqa: BLE001  # as above
        return ""
    text = _storable("".join(lines))
    return text if len(text) <= TRACEBACK_LIMIT else "…" + text[1 - TRACEBACK_LIMIT :]


def _storable(text: str) -> str:
    return str(text).encode("utf-8", "backslashreplace").decode("utf-8")


def _from_stored(stored: dict[str, Any]) -> Failure:
    cause = stored["cause"]
    return Failure(
        type_name=stored["type_name"],
        type_names=tuple(stored["type_names"]),
        message=stored["message"],
        args_text=stored["args_text"],
        state_text=stored["state_text"],
        traceback=stored["traceback"],
        cause=None if cause is None else _from_stored(cause),
        code=stored["code"],
    )
