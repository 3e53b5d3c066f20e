"""What people see on a narrow terminal: nothing is cut off, and what matters most stays."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from celery_saga.cli.tables import Table, counted, draw
from celery_saga.cli.views import history_table, runs_table, steps_table
from celery_saga.core import failure
from celery_saga.core.records import Action, HistoryRecord, RunRecord, StepKind, StepRecord
from celery_saga.core.status import RunStatus, StepStatus

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
IDS = ("018f2f6e-0000-5000-8000-000000000001", "018f2f6e-0000-5000-8000-000000000002")
ERROR = failure.to_text(failure.capture(ValueError("the gateway has answered with something that nobody expected")))
RUN = RunRecord(
    id=IDS[0],
    saga="checkout",
    version=1,
    key="order-4711",
    status=RunStatus.SUSPENDED,
    reason="non_determinism",
    created_at=NOW - timedelta(hours=3),
    updated_at=NOW,
    error_text=ERROR,
)
RUNS = [RUN, replace(RUN, id=IDS[1], status=RunStatus.COMPENSATION_FAILED, reason=None)]
STEP = StepRecord(
    IDS[0], 1, "charge", StepKind.STEP, StepStatus.RUNNING, NOW - timedelta(minutes=5), task="shop.charge"
)


def drawn(table: Table, width: int) -> list[str]:
    """As a terminal of that width shows it."""
    out = io.StringIO()
    draw(table, Console(file=out, width=width, force_terminal=True, no_color=True, highlight=False))
    return [re.sub(r"\x1b\[[\d;]*m", "", line).rstrip() for line in out.getvalue().splitlines()]


def test_a_step_at_work_tells_how_far_it_is() -> None:
    step = replace(STEP, started_at=NOW - timedelta(minutes=1), progress_text='[30, 40, "boxes"]', progress_at=NOW)

    (line,) = (line for line in drawn(steps_table([step], now=NOW), 120) if line.startswith("charge"))

    assert "30 of 40 (75%)  boxes, a process, for 60.0 s" in line


@pytest.mark.parametrize("width", [80, 60, 44])
def test_a_list_of_runs_has_whole_ids_and_every_fact_at_any_width(width: int) -> None:
    lines = drawn(runs_table(RUNS, NOW), width)

    words = " ".join(" ".join(lines).split())
    assert all(len(line) <= width for line in lines)
    assert [each in "\n".join(lines) for each in IDS] == [True, True]
    for told in ("suspended (non_determinism)", "compensation_failed", "checkout v1", "order-4711", "3.0 h ago"):
        assert told in words
    assert "ValueError: the gateway has answered" in words


def test_a_list_of_runs_is_a_table_where_there_is_room() -> None:
    head, _, first, *_ = drawn(runs_table([replace(RUN, error_text=None)], NOW), 120)

    assert head.split() == ["run", "status", "saga", "key", "created", "error"]
    assert first.startswith(IDS[0])


@pytest.mark.parametrize("width", [100, 80, 60])
def test_a_history_keeps_number_action_step_who_and_detail(width: int) -> None:
    row = HistoryRecord(IDS[0], 12, NOW, Action.RETRY_UNDO, "undo", "charge!undo", detail="ok " * 20, by="operator")

    lines = drawn(history_table([row]), width)

    assert all(len(line) <= width for line in lines)
    head = lines[0].split()
    assert [name for name in ("seq", "action", "step", "by", "detail") if name in head] == [
        *("seq", "action", "step", "by", "detail")
    ]
    assert lines[2].split()[0] == "12"
    for told in ("retry_undo", "charge!undo", "operator"):
        assert told in lines[2]
    assert " ".join(lines).split().count("ok") == 20


@pytest.mark.parametrize("width", [80, 60])
def test_a_row_that_fits_in_no_table_stands_on_lines_of_its_own(width: int) -> None:
    row = HistoryRecord(IDS[0], 12, NOW, Action.FAIL, "step", "s" * 50, detail="d" * 90, by="ann")

    lines = drawn(history_table([row]), width)

    assert all(len(line) <= width for line in lines)
    text = "".join(line.strip() for line in lines)
    assert "s" * 50 in text and "d" * 90 in text and "ann" in text


def test_a_running_step_is_told_with_its_owner_since_when_and_its_lease() -> None:
    step = replace(
        STEP, owner="web1:41", started_at=NOW - timedelta(seconds=12), lease_until=NOW + timedelta(seconds=18)
    )

    assert steps_table([step], now=NOW).rows[0][-1] == "web1:41, for 12.0 s, lease ends in 18.0 s"


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"kind": StepKind.SIGNAL, "due_at": NOW + timedelta(days=3)}, "times out in 3.0 d"),
        ({"kind": StepKind.SIGNAL}, "no time-out"),
        ({"kind": StepKind.TIMER, "due_at": NOW + timedelta(minutes=5)}, "ends in 5 min"),
    ],
)
def test_a_waiting_step_is_told_with_its_time_out(changed: dict[str, object], told: str) -> None:
    step = replace(STEP, status=StepStatus.WAITING, **changed)  # type: ignore[arg-type]

    assert steps_table([step], now=NOW).rows[0][-1] == told


@pytest.mark.parametrize(
    ("sends", "wake_s", "told"),
    [
        (0, 5, "not sent yet, to be sent in 5.0 s"),
        (1, 30, "sent once, again in 30.0 s"),
        (3, -7, "sent 3 times, due 7.0 s ago"),
    ],
)
def test_a_scheduled_step_is_told_with_when_it_is_sent_again(sends: int, wake_s: int, told: str) -> None:
    step = replace(STEP, status=StepStatus.SCHEDULED, sends=sends, wake_at=NOW + timedelta(seconds=wake_s))

    assert steps_table([step], now=NOW).rows[0][-1] == told


@pytest.mark.parametrize(("count", "told"), [(0, "no errors"), (1, "1 error"), (2, "2 errors")])
def test_a_number_and_its_word_agree(count: int, told: str) -> None:
    assert counted(count, "error") == told
