"""An error that answers a signal, from text: as people and programs without Python give it."""

from __future__ import annotations

from collections.abc import Iterable

from celery_saga.errors import InvalidPayload, SignalFailed

__all__ = ["told_error"]


def told_error(text: str, declared: Iterable[type[BaseException]], signal: str) -> Exception:
    """The declared error that the text begins with, as in `Rejected: not today`, else SignalFailed.

    Args:
        declared: `errors=` of the saga; none where it is not known here.
        signal: name of the signal.
    Raises:
        InvalidPayload: the declared error is not made of a text alone; nothing was sent.
    """
    kind, _, message = text.partition(":")
    for each in declared:
        if each.__name__ == kind.strip() and issubclass(each, Exception):
            return _made(each, message.strip(), signal)
    return SignalFailed(text, signal=signal)


def _made(error: type[Exception], message: str, signal: str) -> Exception:
    try:
        return error(message)
    except Exception as refused:
        raise InvalidPayload(
            f"signal {signal!r}: {error.__name__} cannot be made of a text alone; nothing was sent. Give its "
            "constructor defaults, or send another error.",
            path="error",
        ) from refused
