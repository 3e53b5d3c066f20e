"""What the tasks of these tests do: leave a row in the outside world, and break where the plan says so."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg2
from celery import signals

from celery_saga import current_step
from celery_saga.engine.ports import Message
from celery_saga.runtime.publisher import CeleryPublisher

PLAN, DIRECTORY, LEDGER = "FAULTS_PLAN", "FAULTS_DIRECTORY", "FAULTS_LEDGER"
"""Environment variables: the plan as JSON, a directory for marks, the URL of the ledger."""
POINTS = ("before_effect", "after_effect", "after_checkpoint", "after_publish")
ACTIONS = ("kill", "raise", "hold", "drop")


class Refused(Exception):
    """What a step raises where the plan says `raise`; the sagas declare it."""


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong at one point of one step.

    Args:
        order: the key of the run; `*`: of every run.
        step: key of the step, as `b` or `b!undo`; `*`: every step.
        at: one of POINTS.
        action: `kill` (SIGKILL to the own process), `raise`, `hold` (until the test calls `release`), or `drop`
            (nothing is published; only `after_checkpoint`).
        times: how often, counted over all processes; None: always.
    """

    order: str
    step: str
    at: str
    action: str = "kill"
    times: int | None = 1

    def __post_init__(self) -> None:
        assert self.at in POINTS, self.at
        assert self.action in ACTIONS, self.action
        assert self.action != "drop" or self.at == "after_checkpoint"


def plan_text(plan: Sequence[Fault]) -> str:
    """For the environment variable PLAN."""
    return json.dumps([asdict(fault) for fault in plan])


def hold_mark(directory: Path, order: str, step: str) -> Path:
    """The file that ends a `hold`."""
    return directory / f"release.{order}.{step}"


def _plan() -> list[Fault]:
    return [Fault(**each) for each in json.loads(os.environ.get(PLAN, "[]"))]


def _due(order: str, step: str, at: str) -> Fault | None:
    for fault in _plan():
        if fault.order in {"*", order} and fault.step in {"*", step} and fault.at == at and _take(fault, order, step):
            return fault
    return None


def _take(fault: Fault, order: str, step: str) -> bool:
    """One of the times that the fault may happen; each is a file that only one process can make."""
    if fault.times is None:
        return True
    directory = Path(os.environ[DIRECTORY])
    for number in range(fault.times):
        mark = directory / f"{fault.action}.{order}.{step}.{fault.at}.{number}"
        try:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            continue
        return True
    return False


def reach(at: str, order: str, step: str) -> Fault | None:
    """Break if the plan says so; the fault that did not end the process, None where there is none."""
    fault = _due(order, step, at)
    if fault is None:
        return None
    if fault.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault.action == "raise":
        raise Refused(f"{step} of {order} at {at}")
    if fault.action == "hold":
        mark, pause = hold_mark(Path(os.environ[DIRECTORY]), order, step), threading.Event()
        while not mark.exists():
            pause.wait(0.02)
    return fault


class _Ledger:
    """The outside world: an append-only table behind a connection of this process alone."""

    def __init__(self) -> None:
        self._pid = 0
        self._connection: Any = None

    def append(self, *row: object) -> None:
        if self._pid != os.getpid():
            self._pid, self._connection = os.getpid(), None
        if self._connection is None or self._connection.closed:
            self._connection = psycopg2.connect(os.environ[LEDGER])
            self._connection.autocommit = True
        with self._connection.cursor() as cursor:
            cursor.execute("INSERT INTO fx (run, key, token, attempt, pid, told) VALUES (%s, %s, %s, %s, %s, %s)", row)


_ledger = _Ledger()
_finished: tuple[str, str] | None = None
"""Order and step whose checkpoint comes next in this process."""


def effect(told: str = "") -> None:
    """The effect of the current step, with the points before and after it. `told`: any word to go with the row."""
    global _finished
    order, step = str(current_step.run_key), current_step.step
    _finished = (order, step)
    reach("before_effect", order, step)
    _ledger.append(current_step.run_id, step, current_step.idempotency_key, current_step.attempt, os.getpid(), told)
    reach("after_effect", order, step)


def arm() -> None:
    """Let the points after the checkpoint be reached in this process and in what it forks."""
    real = CeleryPublisher.publish

    def publish(self: CeleryPublisher, messages: Sequence[Message]) -> int:
        global _finished
        finished, _finished = _finished, None
        if finished is not None:
            fault = reach("after_checkpoint", *finished)
            if fault is not None and fault.action == "drop":
                return len(messages)
        sent = real(self, messages)
        if finished is not None:
            reach("after_publish", *finished)
        return sent

    CeleryPublisher.publish = publish  # type: ignore[method-assign]
    signals.task_prerun.connect(_forget, weak=False)


def _forget(**_: object) -> None:
    global _finished
    _finished = None
