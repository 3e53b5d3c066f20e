"""`watch`: what is new of a run, on a screen or as lines, up to its end."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from celery_saga import Run, Signal, saga
from celery_saga.cli.following import News, follow
from celery_saga.cli.watch_view import amount, screen, waiting_text
from celery_saga.client.progress import Progress, of_steps
from celery_saga.client.waiting_on import WaitingOn, WaitKind, waiting_on
from celery_saga.core.ports import Claimed
from celery_saga.core.records import RunRecord, StepKind, StepRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunStatus, StepStatus
from celery_saga.errors import ResultPurged
from tests.cli.database import with_tables
from tests.cli.program import ROOT, TIMEOUT_S, Program, words_of
from tests.scenarios.house import House

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
GO = Signal("go", str)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program("celery-saga", "tests.cli.project", with_tables(f"sqlite:///{tmp_path / 'saga.db'}"), tmp_path)


# -- the program -----------------------------------------------------------------------------------------------------
def test_a_run_that_completed_is_told_and_ends_with_0(program: Program) -> None:
    run = program.ok("start", "fragile", "--args", '["x"]', "--json").document["id"]

    lines = program.ok("watch", run).out.splitlines()
    documents = program.ok("watch", run, "--json").lines

    assert [re.sub(r"^\S+  ", "", line) for line in lines] == ["ok  reserve", "end  run  completed", "completed"]
    assert [next(iter(each)) for each in documents] == ["history", "history", "run"]
    assert documents[-1]["run"]["result"] == "held x"


def test_a_run_that_failed_ends_with_1_as_the_run(program: Program) -> None:
    run = program("start", "clumsy", "--args", '["x"]', "--json").document["id"]

    done = program("watch", run)

    assert (done.code, done.err.partition(":")[0]) == (1, "RUN_FAILED")
    assert "reserve!undo" in done.out


def test_a_run_that_was_cancelled_ends_with_1(program: Program) -> None:
    program.ok("start", "order", "--arg", 'line={"sku": "a1"}')
    program.ok("cancel", "order:a1")

    done = program("watch", "order:a1")

    assert (done.code, done.err.partition(":")[0]) == (1, "RUN_CANCELLED")


def test_a_run_that_waits_is_given_up_when_the_time_is_over(program: Program) -> None:
    program.ok("start", "order", "--arg", 'line={"sku": "a1"}')

    done = program("watch", "order:a1", "--timeout", "0")

    assert (done.code, done.err.partition(":")[0]) == (1, "WAIT_TIMEOUT")
    assert done.out.splitlines()[-1].endswith("waiting: signal approval")


def test_on_a_terminal_it_is_a_screen_that_ends_with_the_run(program: Program) -> None:
    program.ok("start", "order", "--arg", 'line={"sku": "a1"}')
    outside, inside = pty.openpty()
    watching = subprocess.Popen(
        words_of("celery-saga", "tests.cli.project", ("watch", "order:a1")),
        cwd=ROOT,
        env={**program.environment, "TERM": "xterm", "COLUMNS": "100"},
        stdin=subprocess.DEVNULL,
        stdout=inside,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(inside)
    shown = _read_until(outside, "signal approval")

    program.ok("signal", "order:a1", "approval", "--value", "true")
    shown += _read_until(outside, None)

    assert watching.wait(TIMEOUT_S) == 0
    assert watching.stderr is not None and watching.stderr.read() == ""
    watching.stderr.close()
    os.close(outside)
    assert "order version 1" in shown and "completed" in shown


def _read_until(terminal: int, word: str | None) -> str:
    """What a terminal shows, up to a word or to its end."""
    text = ""
    with suppress(OSError):  # how Linux tells that the other side is closed
        while word is None or word not in text:
            read = os.read(terminal, 4096)
            if not read:
                break
            text += read.decode()
    return text


def test_show_tells_what_a_run_waits_for_and_how_far_it_is(program: Program) -> None:
    program.ok("start", "order", "--arg", 'line={"sku": "a1"}')

    told = program.ok("show", "order:a1").out
    document = program.ok("show", "order:a1", "--json").document

    assert "waits for: signal approval" in told
    assert [(each["kind"], each["name"], each["until"]) for each in document["waiting_on"]] == [
        ("signal", "approval", None)
    ]
    assert document["steps"][0]["progress"] is None


# -- what is new -----------------------------------------------------------------------------------------------------
@pytest.fixture
def house() -> Iterator[House]:
    with House("sqlite://") as built:
        yield built


def test_news_come_once_and_the_pauses_grow_until_there_are_any(house: House) -> None:
    @house.task("watched.work")
    def work() -> str:
        return "done"

    @saga(name="watched")
    def watched(run: Run) -> str:
        run.wait_signal(GO)
        return str(run.step(work.si()))

    house.add(watched)
    handle = watched.start()
    house.drain()
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 10:
            handle.signal(GO, "on")
            claimed = house.claim_next()
            step = claimed.step
            house.store.report_progress(
                step.run_id, step.generation, step.key, token=step.claim_token or "", progress_text="[1, 2, null]"
            )
        if len(pauses) == 12:
            house.finish(claimed_of(house, handle.id))
            house.drain()

    news = list(follow(house.store, handle.id, pause=pause))

    assert [row.action.value for each in news for row in each.rows] == ["signal", "ok", "end"]
    assert [each.progress for each in news if each.progress] == [{"work": Progress(1, 2, None, house.now)}]
    assert pauses[0] < pauses[5] < pauses[8] == pauses[9] == 2.0
    assert pauses[10] == 0.1
    assert news[-1].seen.run.status == "completed"
    assert [each.kind for each in news[0].waiting] == ["signal"]


def claimed_of(house: House, run_id: str) -> Claimed:
    loaded = house.store.load(run_id)
    assert loaded is not None
    return Claimed(loaded.snapshot.steps["work"], loaded.snapshot, loaded.now)


def test_a_run_that_is_purged_meanwhile_is_told(house: House) -> None:
    with pytest.raises(ResultPurged):
        next(follow(house.store, "00000000-0000-0000-0000-000000000000"))


# -- how it looks ----------------------------------------------------------------------------------------------------
RUN = RunRecord("run-1", "checkout", 1, "order-1", RunStatus.RUNNING, NOW - timedelta(minutes=3), NOW)
STEP = StepRecord(
    "run-1", 1, "pack", StepKind.STEP, StepStatus.RUNNING, NOW, started_at=NOW - timedelta(minutes=1), progress_at=NOW
)


def shown(*steps: StepRecord, run: RunRecord = RUN, width: int = 80, height: int = 24) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, force_terminal=True, no_color=True, highlight=False)
    seen = Snapshot(run, {step.key: step for step in steps})
    waits = tuple(waiting_on(seen, list, lambda: None))
    console.print(screen(News(seen, NOW, (), of_steps(seen.steps), waits), console))
    return re.sub(r"\x1b\[[\d;]*m", "", out.getvalue())


def test_a_step_that_reports_has_a_bar_and_its_numbers() -> None:
    text = shown(replace(STEP, progress_text='[30, 40, "boxes"]'))

    (line,) = (line for line in text.splitlines() if line.startswith("pack"))
    assert "30 of 40 (75%)  boxes" in line
    assert line.count("━") == 18  # three quarters of 24 columns
    assert "checkout version 1" in text and "after 3 min" in text


def test_a_step_that_knows_no_total_has_its_number_alone() -> None:
    text = shown(replace(STEP, progress_text="[30, null, null]"))

    assert "30" in text and "━" not in text


def test_a_step_that_reports_nothing_has_how_long_it_takes() -> None:
    assert "60.0 s" in shown(replace(STEP, progress_at=None))


@pytest.mark.parametrize("width", [120, 60, 40])
def test_no_line_is_longer_than_the_terminal(width: int) -> None:
    text = shown(replace(STEP, key="a_step_with_a_long_name", progress_text='[30, 40, "a long word"]'), width=width)

    assert max(len(line) for line in text.splitlines()) <= width


def test_of_many_steps_those_that_are_alive_come_first() -> None:
    over = [replace(STEP, key=f"over{n}", status=StepStatus.DONE, ended_at=NOW) for n in range(50)]
    alive = [replace(STEP, key=f"alive{n}") for n in range(3)]

    text = shown(*over[:25], *alive, *over[25:], height=20)

    assert all(f"alive{n}" in text for n in range(3))
    assert "over49" in text and "over0 " not in text
    assert "... and 39 more steps" in text
    assert len(text.splitlines()) <= 20


@pytest.mark.parametrize(
    ("progress", "told"),
    [
        (Progress(1, 3, None, NOW), "1 of 3 (33%)"),
        (Progress(0.5, None, "half", NOW), "0.5  half"),
        (Progress(7, 0, None, NOW), "7 of 0"),
    ],
)
def test_an_amount_says_what_is_known(progress: Progress, told: str) -> None:
    assert amount(progress) == told


def test_what_is_waited_for_is_one_line_with_its_end() -> None:
    waits = [WaitingOn(WaitKind.SIGNAL, "go", NOW, NOW + timedelta(days=2)), WaitingOn(WaitKind.STEP, "a", NOW)]

    assert waiting_text(waits, NOW) == "signal go, times out in 2.0 d; step a"
    assert waiting_text([WaitingOn(WaitKind.TIMER, "nap", NOW, NOW)], NOW + timedelta(0)) == "timer nap, ends 0 ms ago"
    assert waiting_text(waits * 3, NOW).endswith("; and 3 more")
    assert json.dumps(waits[0].kind) == '"signal"'
