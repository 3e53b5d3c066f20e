"""Notices where a body reads a clock or draws at random by itself: that may differ in another replay, later."""

from __future__ import annotations

import random
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

__all__ = ["noticed"]

_OURS = str(Path(__file__).resolve().parents[1])
_INSTEAD = {"clock": "run.now()", "random": "run.random() or run.uuid()"}
_OF_PYTHON = {random.__file__: "random", uuid.__file__: "random"}
_CLOCK = {"time", "time_ns", "gmtime", "localtime", "ctime"}
_DATES = {"now", "utcnow", "today"}


@contextmanager
def noticed(code: CodeType, found: dict[str, None]) -> Iterator[None]:
    """While it is entered, calls that the body makes itself are put into `found`, as one line of text each.

    Args:
        code: of the body; functions of its file that it calls count, what it gives to `run.record` does not.
    """
    before = sys.getprofile()

    def look(frame: FrameType, event: str, arg: Any) -> None:
        if event == "c_call":
            kind, caller = _kind_of(arg), frame
        elif event == "call" and frame.f_back is not None:
            kind, caller = _OF_PYTHON.get(frame.f_code.co_filename), frame.f_back
        else:
            return
        if kind is not None and _is_of_body(caller, code):
            name = arg.__qualname__ if event == "c_call" else frame.f_code.co_qualname
            where = f"{caller.f_code.co_filename}:{caller.f_lineno}"
            found[
                f"{where} calls {name}(), which another replay may answer otherwise; {_INSTEAD[kind]} is recorded"
            ] = None

    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(before)


def _kind_of(function: Any) -> str | None:
    name, owner = getattr(function, "__name__", ""), getattr(function, "__self__", None)
    if owner is time:
        return "clock" if name in _CLOCK else None
    if isinstance(owner, type) and issubclass(owner, date):
        return "clock" if name in _DATES else None
    if isinstance(owner, random.Random) or name == "urandom":
        return "random"
    return None


def _is_of_body(frame: FrameType | None, code: CodeType) -> bool:
    """The call comes from the body or from functions of its file, and not by way of a verb of the run."""
    if frame is None or frame.f_code.co_filename != code.co_filename:
        return False
    while frame is not None and frame.f_code is not code:
        if frame.f_code.co_filename.startswith(_OURS):
            return False
        frame = frame.f_back
    return frame is not None
