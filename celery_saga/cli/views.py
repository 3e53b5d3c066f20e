"""Runs, steps and history as people see them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from celery_saga.cli.tables import Cell, Table, ago, duration, status
from celery_saga.cli.watch_view import amount
from celery_saga.client import documents
from celery_saga.client.progress import of_step
from celery_saga.core.failure import Failure
from celery_saga.core.records import HistoryRecord, RunRecord, StepKind, StepRecord
from celery_saga.core.status import StepStatus

__all__ = ["error_line", "history_table", "run_facts", "runs_table", "steps_table", "traceback_lines"]

_LONGEST = 60
_TRACEBACK_LINES = 15


def run_facts(run: RunRecord, now: datetime) -> list[tuple[str, Cell | str]]:
    """What there is to say about a run, by name."""
    parked = f" ({run.reason})" if run.reason else ""
    return [
        ("run", run.id),
        ("saga", f"{run.saga} version {run.version}"),
        ("key", run.key or ""),
        ("status", Cell(run.status.value + parked, status(run.status.value).style)),
        ("generation", "" if run.generation == 1 else str(run.generation)),
        ("created", f"{run.created_at:%Y-%m-%d %H:%M:%S} UTC ({ago(run.created_at, now)})"),
        ("ended", "" if run.ended_at is None else f"after {duration((run.ended_at - run.created_at).total_seconds())}"),
        ("deadline", ago(run.deadline_at, now)),
        ("tags", ", ".join(run.tags)),
        ("input", "" if run.input_text is None else documents.text(documents.stored(run.input_text))),
        ("result", "" if run.result_text is None else documents.text(documents.stored(run.result_text))),
        ("failed step", run.error_step or ""),
        ("error", Cell(error_line(run.error), "red")),
    ]


def runs_table(runs: Iterable[RunRecord], now: datetime) -> Table:
    """A line for each run."""
    table = Table(("run", "status", "saga", "key", "created", "error"), first=2)
    for run in runs:
        parked = f" ({run.reason})" if run.reason else ""
        state = Cell(run.status.value + parked, status(run.status.value).style)
        name = f"{run.saga} v{run.version}"
        table.rows.append((run.id, state, name, run.key or "", ago(run.created_at, now), _short(error_line(run.error))))
    return table


def steps_table(steps: Iterable[StepRecord], *, generations: bool = False, now: datetime | None = None) -> Table:
    """A line for each step, in the order in which they were ordered.

    Args:
        generations: with a column that tells which generation each is of.
        now: the database's time; where it is given, also what a step that has not ended is up to.
    """
    columns = ("step", "status", "tries", "took", "outcome")
    table = Table(("gen", *columns) if generations else columns, least=("took", "tries"), first=3 if generations else 2)
    for step in steps:
        row: tuple[Cell | str, ...] = (
            _step_name(step),
            status(step.status.value),
            _tries(step),
            _took(step),
            _outcome(step) if now is None or step.status.is_end else _upto(step, now),
        )
        table.rows.append((str(step.generation), *row) if generations else row)
    return table


def history_table(rows: Iterable[HistoryRecord]) -> Table:
    """A line for each thing that happened."""
    table = Table(("seq", "at (UTC)", "action", "step", "by", "detail"), least=("at (UTC)",), first=5)
    for row in rows:
        told = " · ".join(part for part in (row.detail, row.reason) if part)
        action = Cell(row.action.value, _ACTION_STYLES.get(row.action.value, ""))
        at = f"{row.at:%Y-%m-%d %H:%M:%S}"
        table.rows.append((str(row.seq), at, action, row.step or "", row.by or "", told))
    return table


def traceback_lines(error: Failure | None) -> list[str]:
    """The end of an error's traceback, where it was raised; empty where none is stored."""
    lines = [] if error is None else error.traceback.rstrip().splitlines()
    return lines if len(lines) <= _TRACEBACK_LINES else ["...", *lines[-_TRACEBACK_LINES:]]


def error_line(error: Failure | None) -> str:
    """Class and message of an error on one line; empty for None."""
    if error is None:
        return ""
    name = error.type_name.rpartition(".")[2]
    return f"{name}: {' '.join(error.message.split())}" if error.message else name


_ACTION_STYLES = {"ok": "green", "fail": "red", "lost": "red", "timeout": "red", "cancel": "yellow", "park": "yellow"}


def _step_name(step: StepRecord) -> Cell | str:
    if step.kind is StepKind.UNDO:
        return Cell(f"↩ {step.key}", "magenta")
    return step.key


def _tries(step: StepRecord) -> Cell | str:
    if step.kind not in {StepKind.STEP, StepKind.UNDO, StepKind.CHORD}:
        return Cell(f"({step.kind.value.replace('_', ' ')})", "dim")
    ended = {"failed": step.failures, "lost": step.stalls}
    counts = ", ".join(f"{count} {word}" for word, count in ended.items() if count)
    return f"{step.attempt} ({counts})" if counts else str(step.attempt)


def _took(step: StepRecord) -> str:
    begun = step.started_at or (step.created_at if step.kind in {StepKind.SIGNAL, StepKind.TIMER} else None)
    return "" if begun is None or step.ended_at is None else duration((step.ended_at - begun).total_seconds())


def _outcome(step: StepRecord) -> Cell | str:
    if step.kind is StepKind.CHILD and step.task_id is not None:
        return f"run {step.task_id}"  # which tells the rest
    if step.status is StepStatus.DONE:
        if step.result_text in {None, "null"}:
            return ""
        return _short(documents.text(documents.stored(step.result_text)))
    if step.error_text is not None:
        return Cell(_short(error_line(step.error)), "red")
    return ""


def _upto(step: StepRecord, now: datetime) -> str:
    """What a step that has not ended is up to, and until when."""
    if step.status is StepStatus.RUNNING:
        since = "" if step.started_at is None else f", for {duration((now - step.started_at).total_seconds())}"
        told = f"{step.owner or 'a process'}{since}{_until(step.lease_until, now, 'lease ends', 'lease ended')}"
        progress = of_step(step)
        return told if progress is None else f"{amount(progress)}, {told}"
    if step.kind is StepKind.CHILD and step.task_id is not None:
        return f"run {step.task_id}"
    if step.status is StepStatus.WAITING:
        word = "ends" if step.kind is StepKind.TIMER else "times out"
        return _until(step.due_at, now, word, "time is over").removeprefix(", ") or "no time-out"
    if step.status is StepStatus.SCHEDULED:
        told = "not sent yet" if step.sends == 0 else f"sent {'once' if step.sends == 1 else f'{step.sends} times'}"
        return told + _until(step.wake_at, now, "again" if step.sends else "to be sent", "due")
    return ""


def _until(at: datetime | None, now: datetime, ahead: str, behind: str) -> str:
    return "" if at is None else f", {ahead if at > now else behind} {ago(at, now)}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
