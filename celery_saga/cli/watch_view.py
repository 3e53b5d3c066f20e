"""What `watch` shows of a run: a screen with progress bars on a terminal, lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table as RichTable
from rich.text import Text

from celery_saga.cli.following import News
from celery_saga.cli.tables import STATUS_STYLES, ago, duration
from celery_saga.client.progress import Progress, of_step
from celery_saga.client.waiting_on import WaitingOn, WaitKind
from celery_saga.core.records import HistoryRecord, RunRecord, StepKind, StepRecord

__all__ = ["amount", "history_line", "progress_line", "screen", "status_line", "waiting_text"]

_BAR = 24  # columns of a progress bar
_AROUND = 6  # lines of a screen that are no steps
_HIDDEN = frozenset({StepKind.PATCH})


def amount(progress: Progress) -> str:
    """`2 of 5 (40%)`, or `2` where the total is not known; with the step's own words."""
    told = f"{progress.current:g}"
    if progress.total is not None:
        told += f" of {progress.total:g}"
    if progress.fraction is not None:
        told += f" ({progress.fraction:.0%})"
    return f"{told}  {progress.message}" if progress.message else told


_OVER = {WaitKind.SIGNAL: "times out", WaitKind.STEP: "due", WaitKind.UNDO: "due"}
"""What is told of the end of a wait."""


def waiting_text(waiting: Iterable[WaitingOn], now: datetime, *, shown: int = 3) -> str:
    """What a run waits for, in a line: `signal approval, times out in 2.0 d`."""
    texts = [
        (each.name if each.kind is WaitKind.LANE else f"{each.kind.value} {each.name}".rstrip())
        + (f", {_OVER.get(each.kind, 'ends')} {ago(each.until, now)}" if each.until else "")
        for each in waiting
    ]
    more = len(texts) - shown
    return "; ".join(texts[:shown]) + (f"; and {more} more" if more > 0 else "")


def status_line(run: RunRecord) -> str:
    """Status of a run, with the reason where it is parked."""
    return run.status.value + (f" ({run.reason})" if run.reason else "")


def history_line(row: HistoryRecord) -> str:
    """One thing that happened."""
    told = [row.action.value, row.kind if row.step is None else row.step, row.detail or "", row.reason or ""]
    return f"{row.at:%H:%M:%S}  {'  '.join(part for part in told if part)}"


def progress_line(key: str, progress: Progress) -> str:
    """How far one step is."""
    return f"{progress.at:%H:%M:%S}  progress  {key}  {amount(progress)}"


def screen(news: News, console: Console) -> RenderableType:
    """All of a run that fits on a terminal: what it is, what it waits for, its steps with their progress."""
    run, now = news.seen.run, news.now
    head = Text(f"{run.saga} version {run.version}", style="bold")
    head.append(f"  {run.key or run.id}", style="dim")
    ended = run.ended_at or now
    state = Text(status_line(run), style=STATUS_STYLES.get(run.status.value, ""))
    state.append(f"  after {duration((ended - run.created_at).total_seconds())}", style="dim")
    waiting = Text("" if run.status.is_end else waiting_text(news.waiting, now), style="dim")
    steps = [step for step in news.seen.steps.values() if step.kind not in _HIDDEN]
    room = max(3, console.height - _AROUND)
    return Group(head, state, waiting, _steps(_fitting(steps, room), now), _left_out(len(steps), room))


def _fitting(steps: list[StepRecord], room: int) -> list[StepRecord]:
    """The steps that a screen has room for: what is alive first of all, then what ended last."""
    if len(steps) <= room:
        return steps
    alive = [step for step in steps if not step.status.is_end][:room]
    over = [step for step in steps if step.status.is_end]
    kept = {step.key for step in [*alive, *over[len(over) - (room - len(alive)) :]]}
    return [step for step in steps if step.key in kept]


def _left_out(count: int, room: int) -> Text:
    return Text(f"... and {count - room} more steps" if count > room else "", style="dim")


def _steps(steps: list[StepRecord], now: datetime) -> RenderableType:
    table = RichTable.grid(padding=(0, 2, 0, 0))
    for _ in range(4):
        table.add_column(no_wrap=True, overflow="ellipsis")
    for step in steps:
        style = STATUS_STYLES.get(step.status.value, "")
        table.add_row(Text(step.key), Text(step.status.value, style=style), *_how_far(step, now))
    return table


def _how_far(step: StepRecord, now: datetime) -> tuple[RenderableType, RenderableType]:
    progress = of_step(step)
    if progress is None or (step.status.is_end and progress.fraction == 1.0):
        begun = step.started_at
        if begun is None:
            return Text(), Text()
        return Text(duration(((step.ended_at or now) - begun).total_seconds()), style="dim"), Text()
    told = Text(amount(progress))
    if progress.fraction is None:
        return Text(), told
    return ProgressBar(total=1.0, completed=progress.fraction, width=_BAR), told
