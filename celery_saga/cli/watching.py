"""The command that follows a run up to its end: `watch`."""

from __future__ import annotations

import time
from collections.abc import Iterator

import click
from rich.console import Console
from rich.live import Live

from celery_saga.cli.arguments import RUN
from celery_saga.cli.following import News, follow
from celery_saga.cli.session import Session, command
from celery_saga.cli.watch_view import history_line, progress_line, screen, status_line, waiting_text
from celery_saga.client import documents
from celery_saga.client.progress import Progress
from celery_saga.errors import WaitTimeout

__all__ = ["watch"]

_EVERY_S = 5.0
"""Where lines are printed: at most one of a step's progress in so many seconds, besides its last."""


@command("watch", rows=True, short_help="Follow a run up to its end, with its steps' progress.")
@click.argument("run", metavar=RUN)
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0), help="Give up after so many seconds.")
def watch(session: Session, run: str, timeout_s: float | None) -> None:
    """Follow a run up to its end; the exit code is 0 when it completes, and 1 when it does not.

    On a terminal a screen with progress bars; elsewhere, and with --json, a line for each thing that happens. RUN is a
    run id or SAGA:KEY.
    """
    record = session.run(run)
    news = _bounded(follow(session.store, record.id), timeout_s, record.id)
    console = session.out.console
    if session.out.as_json:
        _print_documents(session, news)
    elif console is None:
        _print_lines(news)
    else:
        _show_screen(console, news)
    session.handle(record.id).wait(0)


def _bounded(news: Iterator[News], timeout_s: float | None, run_id: str) -> Iterator[News]:
    begun_s = time.monotonic()
    for each in news:
        yield each
        run = each.seen.run
        if timeout_s is not None and not run.status.is_end and time.monotonic() - begun_s >= timeout_s:
            raise WaitTimeout(
                f"run {run_id!r} ({run.saga}) has not ended within {timeout_s:g} s: it is {status_line(run)}; it goes "
                "on."
            )


def _show_screen(console: Console, news: Iterator[News]) -> None:
    with Live(console=console, auto_refresh=False) as live:
        for each in news:
            live.update(screen(each, console), refresh=True)


def _print_documents(session: Session, news: Iterator[News]) -> None:
    for each in news:
        for row in each.rows:
            session.out.line({"history": documents.history_document(row)})
        for key, progress in each.progress.items():
            session.out.line({"progress": {"step": key, **documents.progress_document(progress)}})
        if each.seen.run.status.is_end:
            session.out.line({"run": documents.run_document(each.seen.run)})


def _print_lines(news: Iterator[News]) -> None:
    told, printed_s = "", dict[str, float]()
    for each in news:
        for key, progress in each.progress.items():
            if _is_worth_a_line(progress, printed_s.get(key)):
                printed_s[key] = time.monotonic()
                print(progress_line(key, progress), flush=True)
        for row in each.rows:
            print(history_line(row), flush=True)
        run = each.seen.run
        state = status_line(run)
        if not run.status.is_end and each.waiting:
            state += f": {waiting_text(each.waiting, each.now)}"
        # Without the times, which change each second.
        sign = status_line(run) + "".join(f"{wait.kind} {wait.name}" for wait in each.waiting)
        if sign != told:
            told = sign
            print(f"{each.now:%H:%M:%S}  {state}", flush=True)


def _is_worth_a_line(progress: Progress, printed_s: float | None) -> bool:
    return printed_s is None or progress.fraction == 1.0 or time.monotonic() - printed_s >= _EVERY_S
