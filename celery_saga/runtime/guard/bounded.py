"""Asks a question that may hang, and stops waiting for the answer after a while."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Answer", "Unasked", "ask"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What a question was answered with."""

    value: T


@dataclass(frozen=True, slots=True)
class Unasked:
    """A question without an answer, and why."""

    reason: str


def ask(question: Callable[[], T], *, timeout_s: float) -> Answer[T] | Unasked:
    """Call `question` and wait for it at most `timeout_s` seconds; raises nothing.

    A question that does not come back keeps its daemon thread until its own time-out ends
    it, so every question also sets the time-outs of its driver.
    """
    outcome: list[Answer[T] | Unasked] = []

    def put() -> None:
        try:
            outcome.append(Answer(question()))
        except Exception as error:  # noqa: BLE001  recorded: the caller turns it into a finding
            outcome.append(Unasked(_one_line(error)))

    thread = threading.Thread(target=put, name="celery_saga-check", daemon=True)
    thread.start()
    thread.join(timeout_s)
    return outcome[0] if outcome else Unasked(f"no answer within {timeout_s:g} s")


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300] if text else type(error).__name__
