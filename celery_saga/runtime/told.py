"""Tells telemetry how an attempt has ended, in the process that has executed it."""

from __future__ import annotations

from celery.exceptions import Retry

from celery_saga.runtime.attempt import Attempt

__all__ = ["tell_end"]


def tell_end(attempt: Attempt, outcome: str, error: BaseException | None = None, *, is_final: bool = False) -> None:
    """Before it is checked in: what follows from that belongs to the run.

    Args:
        outcome: ok, failed or put_back.
        is_final: it is not tried again.
    """
    run, step = attempt.claimed.snapshot.run, attempt.claimed.step
    attempt.services.telemetry.executed(run, step, outcome, attempt.elapsed_s)
    if attempt.span is None:
        return
    if isinstance(error, Retry) and isinstance(error.exc, BaseException):
        error = error.exc
    shown = None if outcome == "put_back" else error
    is_declared = is_final and attempt.is_forward and isinstance(shown, attempt.errors())
    attempt.span.ended(outcome, shown, is_declared=is_declared, is_final=is_final)
