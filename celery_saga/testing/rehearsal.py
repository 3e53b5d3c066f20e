"""Rehearses a saga: fails every step in turn, crashes at every commit, and looks what each run leaves behind."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded

from celery_saga.definition.saga import Saga
from celery_saga.errors import NonRetryable
from celery_saga.testing.lab import Lab
from celery_saga.testing.report import RehearsalFailed, Report, Scene
from celery_saga.testing.stage import Played, Stage
from celery_saga.testing.trouble import Crash, Failing

__all__ = ["rehearse"]

_ATTEMPTS = 5
"""How often a step fails: enough for most policies of retries; not for ever, as it is tried behind a pivot."""
_LOUD = ("celery.app.trace", "celery_saga.run", "celery_saga.step")


def rehearse(
    saga: Saga[..., Any],
    *args: Any,
    signals: Mapping[str, Any] | None = None,
    stubs: Mapping[Any, Any] | None = None,
    ledger: Callable[[], Any] | None = None,
    crash: bool = True,
    reset: Callable[[], object] | None = None,
    detours: Iterable[str] = (),
    kwargs: Mapping[str, Any] | None = None,
    app: Celery | None = None,
    now: datetime | None = None,
) -> Report:
    """Run a saga again and again, each time with one thing going wrong, and look whether it ends as it should.

    For each step of the run there is a run in which it fails for good before its effect, and one in which it is cut off
    after its effect, so that nobody knows its outcome. Then there is an undisturbed run; and, with `crash`, one for
    each commit of it in which the worker dies before that commit, and one in which it dies after; and the same for a
    run whose last step fails. Each run must end, with no undo left over, and after a crash as it does without. If it
    failed, `ledger()` must be what it was before; if it completed, what it is after the undisturbed run, or have
    changed as there. Each decision must come out the same when it is replayed twice over the same records.

    Between two runs the world is put back: by `reset`, else by undoing the run that completed. Where there is a key,
    each run has another one, and so other idempotency keys.

    Args:
        saga: the saga, perhaps with `options()`.
        args, kwargs: its arguments.
        signals: name of a signal to its value, or to an error; sent whenever a run waits for it. Without, a wait goes
            on to its time-out.
        stubs: a task, or its name, to what it does as of `Lab.stub`: a function to call, an error, or what it returns.
        ledger: what the world holds on account of the saga, as numbers, mappings, sets or lists.
        crash: False: no worker dies.
        reset: puts the world back before each run.
        detours: keys of steps whose failure the body survives on another way, with another ledger.
        app, now: as of `Lab`.
    Returns:
        All runs, none of them with a fault. Lines on which the body reads a clock or draws at random by itself are also
        given as a UserWarning each.
    Raises:
        RehearsalFailed: the first fault, with its line where the body was not deterministic; an AssertionError.
    """
    with _quiet(), Lab(app, now=now) as lab:
        for task, what in (stubs or {}).items():
            _stub(lab, task, what)
        stage = Stage(lab, saga, args, dict(kwargs or {}), dict(signals or {}), ledger, reset)
        report = _Rehearsal(stage, saga.name, frozenset(detours)).play(crash=crash)
    for doubt in report.doubts:
        warnings.warn(f"saga {saga.name!r}: {doubt}", stacklevel=2)
    return report


@contextmanager
def _quiet() -> Iterator[None]:
    """Without a traceback in the log for each failure that is made on purpose."""
    loggers = [logging.getLogger(name) for name in _LOUD]
    for each in loggers:
        each.addFilter(_nothing)
    try:
        yield
    finally:
        for each in loggers:
            each.removeFilter(_nothing)


def _nothing(record: logging.LogRecord) -> bool:
    return False


class Cut(NonRetryable):
    """What a step fails with in a rehearsal."""


class _NthStep:
    """The so many-th step of a run that is called, from 0, and its repeats; no undo."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._seen: list[tuple[str, str]] = []

    def __call__(self, step: Any) -> bool:
        here = (step.run_id, step.key)
        if step.undo_of is None and here not in self._seen:
            self._seen.append(here)
        return here in self._seen[self._number : self._number + 1]

    @property
    def key(self) -> str | None:
        """Its key; None: the run has no such step."""
        return self._seen[self._number][1] if len(self._seen) > self._number else None


class _Rehearsal:
    def __init__(self, stage: Stage, name: str, detours: frozenset[str]) -> None:
        self._stage = stage
        self._name = name
        self._detours = detours
        self._scenes: list[Scene] = []
        self._steps: list[str] = []
        self._line: str | None = None
        self._whole: Played | None = None
        self._later: list[tuple[str, Played]] = []

    def play(self, *, crash: bool) -> Report:
        last_failure, number = self._failures()
        assert self._whole is not None
        for name, played in self._later:
            if (fault := self._stage.strays(played, self._whole)) is not None:
                self._check(name, played, fault)
        if crash:
            self._crashes("", self._whole, None)
            if last_failure is not None:
                self._crashes(f"{self._steps[-1]} fails, ", last_failure, number)
        return self._report()

    def _failures(self) -> tuple[Played | None, int]:
        """Fail one step after the other, up to the run in which there is no such step; that one is undisturbed."""
        number, before = 0, None
        while True:
            which = _NthStep(number)
            played = self._stage.play(failing=Failing(which, Cut("this step fails in the rehearsal"), _ATTEMPTS, False))
            if which.key is None:
                self._whole = played
                note = None if played.status == "completed" else f"it has the error {played.handle.error!r}"
                self._check("undisturbed", played, self._stage.leftovers(played), note)
                self._stage.put_back(played)
                return before, number - 1
            self._failed(f"{which.key} fails before its effect", which.key, played)
            before = played
            self._steps.append(which.key)
            cut = Failing(
                _NthStep(number), SoftTimeLimitExceeded("this step is cut off in the rehearsal"), _ATTEMPTS, True
            )
            self._failed(f"{which.key} is cut off after its effect", which.key, self._stage.play(failing=cut))
            number += 1

    def _failed(self, name: str, key: str, played: Played) -> None:
        self._check(name, played, self._stage.leftovers(played))
        if played.status == "completed":
            if key not in self._detours:
                self._later.append((name, played))
            self._stage.put_back(played)

    def _crashes(self, prefix: str, model: Played, failing: int | None) -> None:
        for commit in range(1, model.commits + 1):
            for moment in ("before", "after"):
                fails = None
                if failing is not None:
                    fails = Failing(_NthStep(failing), Cut("this step fails in the rehearsal"), _ATTEMPTS, False)
                played = self._stage.play(failing=fails, crash=Crash(moment, None, commit), is_watched=False)
                fault = self._stage.leftovers(played) or self._stage.strays(played, model)
                self._check(f"{prefix}crash {moment} commit {commit} of {model.commits}", played, fault)
                self._stage.put_back(played)

    def _check(self, name: str, played: Played, fault: str | None, note: str | None = None) -> None:
        parting = played.parting
        if parting is not None:
            self._line = parting.line
            fault = f"the body is not deterministic, {parting.line}: {parting.text}"
        self._scenes.append(Scene(name, played.status, fault, note or played.note))
        if fault is not None:
            raise RehearsalFailed(self._report())

    def _report(self) -> Report:
        return Report(self._name, tuple(self._steps), tuple(self._scenes), self._line, self._stage.doubts)


def _stub(lab: Lab, task: Any, what: Any) -> None:
    if callable(what) or isinstance(what, BaseException):
        lab.stub(task, side_effect=what)
    else:
        lab.stub(task, returns=what)
