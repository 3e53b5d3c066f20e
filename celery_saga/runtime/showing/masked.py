"""What Celery's own events tell of a step where no payload is to be seen: of an error its class, no result."""

from __future__ import annotations

import re
from typing import Any

from celery_saga.runtime.literals import literal

__all__ = ["masked"]

_HIDDEN = "..."
_FRAME = re.compile(r'  File ".*", line \d+')


def masked(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of an event of a step, without its result; of its error the class, and where it was raised."""
    shown = dict(fields)
    if "result" in shown:
        shown["result"] = literal({"status": "done"})
    if "exception" in shown:
        shown["exception"] = literal({"error": _class_of(shown["exception"])})
    if "traceback" in shown:
        shown["traceback"] = _frames_of(shown["traceback"])
    return shown


def _frames_of(traceback: Any) -> str | None:
    """Files, lines and what stands there; not the texts of errors, which may have several lines."""
    kept: list[str] = []
    is_source = False
    for line in str(traceback or "").splitlines():
        is_frame = _FRAME.match(line) is not None
        # What stands at the line, and with Python 3.11 marks below it.
        is_source = not is_frame and is_source and line.startswith("    ")
        if is_frame or is_source or line.startswith("Traceback ("):
            kept.append(line)
        is_source = is_frame or is_source
    return "\n".join(kept) or None


def _class_of(text: Any) -> str:
    """The name at the head of an exception's repr."""
    name = str(text).partition("(")[0]
    return name if name.replace(".", "_").isidentifier() else _HIDDEN
