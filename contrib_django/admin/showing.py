"""Payloads as people may see them: tokens are cut, and all else too for who may not see payloads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from celery_saga.client.documents import failure_document, stored
from celery_saga.core.failure import Failure, from_text
from celery_saga.core.masking import masked
from celery_saga.errors import SagaError
from contrib_django.admin.bound import opened
from contrib_django.admin.reading import READ

__all__ = ["HIDDEN", "Shown", "error_of", "failure_of", "note", "shown"]

HIDDEN = "••••••"
"""Stands for what the user may not see."""

_LONGEST = 20_000  # characters of one payload on a page
_CUT = "\n… cut here; an export of the run has all of it"
_SEALED = "sealed, and too long to be opened here; an export of the run has it"


@dataclass(frozen=True, slots=True)
class Shown:
    """A payload on a page.

    Args:
        text: JSON for people, or HIDDEN.
        is_hidden: there is something that the user may not see.
        is_cut: only its beginning is shown, and the text says so.
    """

    text: str
    is_hidden: bool = False
    is_cut: bool = False


def shown(text: str | None, *, allowed: bool) -> Shown | None:
    """A stored payload; None: there is none.

    Args:
        text: the payload, or more than READ characters of its beginning.
        allowed: the user may see payloads.
    """
    if text is None:
        return None
    if not allowed:
        return Shown(HIDDEN, is_hidden=True)
    if len(text) > READ:
        found = f"({_SEALED})" if text[:1] == "!" else masked(text)
    else:
        found = json.dumps(stored(opened(text)), ensure_ascii=False, indent=2)
    is_cut = len(found) > _LONGEST
    return Shown(found[:_LONGEST] + _CUT if is_cut else found, is_cut=is_cut)


def error_of(text: str | None) -> dict[str, Any] | None:
    """A stored error with its causes, tokens masked: `type`, `message`, `code`, `cause`."""
    if text is None:
        return None
    try:
        return failure_of(from_text(opened(text) or ""))
    except (SagaError, ValueError) as error:
        return {"type": "unreadable", "message": masked(str(error)), "code": None, "cause": None}


def failure_of(failure: Failure | None) -> dict[str, Any] | None:
    """An error with its causes, as `error_of`."""
    return _short(failure_document(failure))


def _short(error: dict[str, Any] | None) -> dict[str, Any] | None:
    """Without causes that say the same again: an error that a body lets through stands for its step's."""
    while error is not None and (cause := error["cause"]) is not None:
        if (cause["type"], cause["message"]) != (error["type"], error["message"]):
            return {**error, "cause": _short(cause)}
        error = {**error, "cause": cause["cause"]}
    return error


def note(text: str | None) -> str:
    """A line of the history, tokens masked."""
    return "" if text is None else masked(opened(text) or "")
