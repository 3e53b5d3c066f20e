"""The command that shows what sagas do, without any server: `demo`."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click
from rich.console import Console

from celery_saga.cli.demo_screen import PlainScreen, Quiet, RichScreen, Screen
from celery_saga.cli.diagnostics import Trouble, reporting
from celery_saga.client.documents import text
from celery_saga.demo.app import FOLDER_VARIABLE
from celery_saga.demo.play import Outcome, play
from celery_saga.demo.scenes import SCENES
from celery_saga.demo.stage import Stage

__all__ = ["demo"]


@click.command("demo", short_help="Watch a shop's checkout go through failures and crashes; needs no server.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcomes as one JSON document, at the end.")
@click.option("--keep", is_flag=True, help="Keep the folder with the runs, to look around afterwards.")
@click.pass_context
@reporting
def demo(ctx: click.Context, as_json: bool, keep: bool) -> None:
    """Watch a shop's checkout go through failures and crashes.

    Runs a real Celery worker on a folder of message files and an SQLite file, kills it now and then, and ends with
    1 when any order ended otherwise than it has to.
    """
    place = Path(tempfile.mkdtemp(prefix="celery-saga-demo-"))
    is_good = is_stopped = False
    try:
        outcomes, took_s = _played(place, _screen(as_json=as_json, no_color=bool(ctx.obj.no_color)), keep=keep)
        is_good = all(outcome.is_as_expected for outcome in outcomes)
        if as_json:
            print(text(_document(outcomes, took_s, place if keep or not is_good else None)))
    except (KeyboardInterrupt, SystemExit):
        is_stopped = True
        raise
    finally:
        # What went wrong can be read there: the worker's log, the books, the runs.
        if (is_good or is_stopped) and not keep:
            shutil.rmtree(place, ignore_errors=True)
    if not is_good:
        raise Trouble("DEMO_FAILED", f"{_wrong(outcomes)}. The worker's log and the runs are in {place}")


def _played(place: Path, screen: Screen, *, keep: bool) -> tuple[list[Outcome], float]:
    begun_s = time.monotonic()
    with _ended_by_sigterm(), Stage(place) as stage:
        stage.start_worker()
        screen.open(place, keep=keep)
        try:
            outcomes = play(stage, SCENES, screen)
        finally:
            if isinstance(screen, RichScreen):
                screen.stop()
        took_s = time.monotonic() - begun_s
    screen.close(outcomes, took_s, _advice(place) if keep else ())
    return outcomes, took_s


def _screen(*, as_json: bool, no_color: bool) -> Screen:
    if as_json:
        return Quiet()
    if sys.stdout.isatty():
        return RichScreen(Console(no_color=no_color, highlight=False))
    return PlainScreen()


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the demo as an exception does, so that no worker is left behind."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _advice(place: Path) -> list[str]:
    program = "celery-saga -A celery_saga.demo.app"
    return [
        "",
        f"Kept in {place}. Look around:",
        f"  export {FOLDER_VARIABLE}={place}",
        f"  {program} runs",
        f"  {program} show demo_checkout:o4",
        f"  {program} history demo_checkout:o8",
    ]


def _document(outcomes: Sequence[Outcome], took_s: float, place: Path | None) -> dict[str, Any]:
    return {
        "as_expected": all(outcome.is_as_expected for outcome in outcomes),
        "took_s": round(took_s, 3),
        "folder": None if place is None else str(place),
        "scenes": [
            {
                "scene": outcome.scene.name,
                "order": outcome.scene.order.id,
                "run": outcome.run_id,
                "status": outcome.status.value,
                "calls": list(outcome.calls),
                "idempotency_keys": outcome.keys,
                "error": outcome.error,
                "charge_id": outcome.charge_id,
                "took_s": round(outcome.took_s, 3),
                "as_expected": outcome.is_as_expected,
                "differences": outcome.differences,
            }
            for outcome in outcomes
        ],
    }


def _wrong(outcomes: Sequence[Outcome]) -> str:
    return "; ".join(f"{each.scene.name}: {', '.join(each.differences)}" for each in outcomes if each.differences)
