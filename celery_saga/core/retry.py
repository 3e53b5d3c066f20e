"""How often a step is tried and how long to wait in between."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from celery_saga.core.asked import shown
from celery_saga.core.failure import Failure
from celery_saga.errors import DefinitionError

MAX_SPAN_S = 3.2e11


def seconds(value: float | timedelta, what: str, *, minimum_s: float = 0.0, left: str = "nothing was changed") -> float:
    """A duration in seconds from seconds or a timedelta.

    Args:
        left: what was not done, for the error.
    Raises:
        DefinitionError: not a finite number of at least `minimum_s`, or longer than 10,000 years.
    """
    raw = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(raw, bool) or not isinstance(raw, (int, float)):
        raise DefinitionError(f"{what} must be seconds or a timedelta, got {shown(value)}; {left}")
    if not minimum_s <= raw <= MAX_SPAN_S:  # nan neither
        finite = "" if math.isfinite(raw) else " and finite"
        raise DefinitionError(
            f"{what} must be at least {minimum_s:g} s and at most {MAX_SPAN_S:g} s (10,000 years){finite}, got "
            f"{shown(value)}; {left}"
        )
    return float(raw)


class Retry:
    """A retry policy: exponential back-off with full jitter, bounded.

    Args:
        max_attempts: attempts in all, at least 1; 1 means no second attempt, None that there is no last one.
        delay: before the second attempt, in seconds or as timedelta.
        factor: by which each further delay grows, at least 1.
        max_delay: no delay is longer.
        jitter: draw each delay evenly from 0 to its value.
        on: retry only errors of these classes (or their subclasses); None: all.
        never_on: never retry these; wins over `on`.
    Raises:
        DefinitionError: a value outside its range.
    Source: full jitter, Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """

    __slots__ = ("delay_s", "factor", "jitter", "max_attempts", "max_delay_s", "never_on", "on")

    def __init__(
        self,
        max_attempts: int | None = 3,
        *,
        delay: float | timedelta = 1,
        factor: float = 2.0,
        max_delay: float | timedelta = 300,
        jitter: bool = True,
        on: Iterable[type[BaseException]] | None = None,
        never_on: Iterable[type[BaseException]] = (),
    ) -> None:
        is_number = isinstance(max_attempts, int) and not isinstance(max_attempts, bool) and max_attempts >= 1
        if max_attempts is not None and not is_number:
            raise DefinitionError(
                f"Retry(max_attempts=) must be a whole number of at least 1, or None, got {max_attempts!r}"
            )
        self.max_attempts = max_attempts
        self.delay_s = seconds(delay, "Retry(delay=)")
        self.factor = seconds(factor, "Retry(factor=)", minimum_s=1.0)
        self.max_delay_s = seconds(max_delay, "Retry(max_delay=)")
        if not isinstance(jitter, bool):
            raise DefinitionError(f"Retry(jitter=) must be True or False, got {shown(jitter)}")
        self.jitter = jitter
        self.on = None if on is None else _classes(on, "on")
        self.never_on = _classes(never_on, "never_on")

    def __repr__(self) -> str:
        shown = f"max_attempts={self.max_attempts}, delay={self.delay_s:g}, factor={self.factor:g}"
        shown += f", max_delay={self.max_delay_s:g}, jitter={self.jitter}"
        if self.on is not None:
            shown += f", on=[{', '.join(c.__name__ for c in self.on)}]"
        if self.never_on:
            shown += f", never_on=[{', '.join(c.__name__ for c in self.never_on)}]"
        return f"Retry({shown})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Retry) and self.to_plain() == other.to_plain()

    def __hash__(self) -> int:
        return hash((self.max_attempts, self.delay_s, self.factor, self.max_delay_s, self.jitter))

    @property
    def classes(self) -> tuple[type[BaseException], ...]:
        """Every class the policy names: an error of one of them reaches the body as itself."""
        return (*(self.on or ()), *self.never_on)

    def to_plain(self) -> dict[str, Any]:
        """The policy as JSON values; classes by their qualified name."""
        return {
            "max_attempts": self.max_attempts,
            "delay_s": self.delay_s,
            "factor": self.factor,
            "max_delay_s": self.max_delay_s,
            "jitter": self.jitter,
            "on": None if self.on is None else [_name(c) for c in self.on],
            "never_on": [_name(c) for c in self.never_on],
        }


def _classes(given: Iterable[type[BaseException]] | type[BaseException], what: str) -> tuple[type[BaseException], ...]:
    classes = (given,) if isinstance(given, type) else tuple(given)
    for each in classes:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise DefinitionError(f"Retry({what}=) takes exception classes, got {each!r}")
    return classes


def _name(cls: type[BaseException]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def next_delay_s(policy: Mapping[str, Any], failures: int, failure: Failure, jitter: float) -> float | None:
    """How long to wait before the next attempt of what just failed.

    Args:
        policy: `Retry.to_plain()`.
        failures: failed attempts so far with this one, from 1.
        failure: the error of this attempt.
        jitter: in [0, 1); drawn by the caller, so that this stays pure.
    Returns:
        Seconds, 0 or more; None when there is no further attempt.
    """
    if policy["max_attempts"] is not None and failures >= policy["max_attempts"]:
        return None
    return backoff_s(policy, failures, jitter) if is_retryable(policy, failure) else None


def backoff_s(policy: Mapping[str, Any], failures: int, jitter: float) -> float:
    """The policy's delay after so many failures, whatever its bounds; parameters as of `next_delay_s`."""
    base = min(policy["max_delay_s"], policy["delay_s"] * policy["factor"] ** min(failures - 1, 64))
    return float(base * (1.0 - jitter) if policy["jitter"] else base)


def is_bounded(policy: Mapping[str, Any]) -> bool:
    """Whether there are failures after which the policy allows no further attempt."""
    return policy["max_attempts"] is not None or policy["on"] is not None or bool(policy["never_on"])


def is_retryable(policy: Mapping[str, Any], failure: Failure) -> bool:
    """Whether the policy allows another attempt after this error, whatever its count."""
    if "celery_saga.errors.NonRetryable" in failure.type_names:
        return False
    names = set(failure.type_names)
    if names.intersection(policy["never_on"]):
        return False
    return policy["on"] is None or bool(names.intersection(policy["on"]))
