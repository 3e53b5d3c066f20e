"""What a test lets happen to the tasks of its runs: stubs, failures, crashes; and the record of their calls."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from celery_saga.core.records import StepRecord
from celery_saga.runtime.attempt import Attempt, current
from celery_saga.runtime.envelope import execute
from celery_saga.testing.call import Call

__all__ = ["COMMIT", "Crash", "Died", "Failing", "Troubles"]

COMMIT = "!commit"
"""In place of a step: any commit of the engine."""

Matches = Callable[[StepRecord], bool]


class Died(BaseException):
    """The process was killed here. Not an Exception: nothing between here and the laboratory may survive it."""


@dataclass(slots=True)
class Failing:
    """A step that is made to fail.

    Args:
        matches: which steps.
        error: what is raised, an instance or a class.
        times: how often it still is; None: always.
        after_effect: the task is called first.
    """

    matches: Matches
    error: BaseException | type[BaseException]
    times: int | None
    after_effect: bool

    def takes(self, step: StepRecord) -> bool:
        """It is this step's turn; counted."""
        if self.times == 0 or not self.matches(step):
            return False
        self.times = None if self.times is None else self.times - 1
        return True


@dataclass(slots=True)
class Crash:
    """A point at which the process dies, once.

    Args:
        moment: `before` or `after`.
        what: which steps' effects; None: commits.
        left: how often the point is still passed, this time included, from 1.
    """

    moment: str
    what: Matches | None
    left: int


class Troubles:
    """Everything that is planned, and everything that was called."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.stubs: dict[str, Callable[..., Any]] = {}
        self.failing: list[Failing] = []
        self.crashes: list[Crash] = []
        self.commits = 0
        self.returned: dict[tuple[str, str], Any] = {}
        self.is_working = False  # what happens now happens in a process of ours, which may die

    # -- points --------------------------------------------------------------------------------------------------
    def trace(self, label: str) -> None:
        """The store passes a point."""
        moment, _, act = label.partition(":")
        if not act.startswith("commit") or not self.is_working:
            return
        self.commits += moment == "after"
        self._pass(moment, None)

    def _pass(self, moment: str, step: StepRecord | None) -> None:
        for crash in self.crashes:
            if crash.moment != moment or (crash.what is None) != (step is None):
                continue
            if step is not None and crash.what is not None and not crash.what(step):
                continue
            crash.left -= 1
            if crash.left == 0:
                self.crashes.remove(crash)
                raise Died(f"{moment} {COMMIT if step is None else step.key}")

    # -- calls ---------------------------------------------------------------------------------------------------
    @contextmanager
    def around(self, task: Any) -> Iterator[None]:
        """While it is entered, a call of the task as a step goes through here: inside of Celery's own retries."""
        # What `autoretry_for` calls; tasks without it are called by the tracer, or by a `__call__` of the user's.
        name = "_orig_run" if "_orig_run" in task.__dict__ else "run"
        there = task.__dict__.get(name)
        setattr(task, name, self._called(task, getattr(task, name)))
        try:
            yield
        finally:
            if there is None:
                delattr(task, name)
            else:
                setattr(task, name, there)

    def _called(self, task: Any, original: Callable[..., Any]) -> Callable[..., Any]:
        is_inside = False

        @functools.wraps(original)
        def called(*args: Any, **kwargs: Any) -> Any:
            nonlocal is_inside
            attempt = current.get()
            if attempt is None or attempt.task is not task or is_inside:
                return original(*args, **kwargs)  # the user's own call of it, not a step's
            if not attempt.entered:
                return execute(attempt, called, args, kwargs)
            is_inside = True
            try:
                return self._call(attempt, original, args, kwargs)
            finally:
                is_inside = False

        return called

    def _call(
        self, attempt: Attempt, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        step, task = attempt.claimed.step, str(attempt.task.name)
        self._pass("before", step)
        self.calls.append(Call(task, args, kwargs, step.run_id, step.key, step.attempt, step.idempotency_key))
        failing = next((each for each in self.failing if each.takes(step)), None)
        if failing is not None and not failing.after_effect:
            raise failing.error
        stub = self.stubs.get(task)
        if stub is None:
            value = original(*args, **kwargs)
        else:
            inspect.signature(original).bind(*args, **kwargs)  # refuses what the task itself would
            value = stub(*args, **kwargs)
        self.returned[step.run_id, step.key] = value
        self._pass("after", step)
        if failing is not None:
            raise failing.error
        return value
