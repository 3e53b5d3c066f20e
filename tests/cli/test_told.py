"""What commands tell people after they have done something, or could not."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from celery_saga.cli.watch_view import waiting_text
from celery_saga.client.waiting_on import WaitingOn, WaitKind
from tests.cli.database import with_tables
from tests.cli.program import Program


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program("celery-saga", "tests.cli.project", with_tables(f"sqlite:///{tmp_path / 'saga.db'}"), tmp_path)


def test_a_pause_is_told_with_its_reason_and_its_end_with_its_name(program: Program) -> None:
    program.ok("pause", "--lane", "bank", "--reason", "audit", "--by", "ann")

    listed = " ".join(program.ok("lanes").out.split())
    told, again = program.ok("unpause", "--lane", "bank").out, program.ok("unpause", "--lane", "bank").out

    assert "by ann: audit" in listed
    assert (told, again) == ("lane bank: unpaused\n", "lane bank: it was not paused; nothing was changed\n")


def test_a_cancel_that_is_over_at_once_says_it_once(program: Program) -> None:
    run_id = program.ok("start", "order", "--arg", 'line={"sku": "a1"}', "--json").document["id"]

    assert program.ok("cancel", "order:a1", "--no-compensate").out == f"{run_id}: cancelled\n"


def test_who_only_reads_is_not_told_that_nothing_was_changed(program: Program) -> None:
    done = program("show", "order:nobody")

    assert done.err == "RUN_NOT_FOUND: saga 'order' has no run with the key 'nobody'\n"


def test_a_lane_is_named_once() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    waits = [WaitingOn(WaitKind.LANE, "lane bank: place 2", now), WaitingOn(WaitKind.SIGNAL, "paid", now)]

    assert waiting_text(waits, now) == "lane bank: place 2; signal paid"


def test_who_starts_a_run_while_the_broker_is_away_is_told(tmp_path: Path) -> None:
    away = Program("celery-saga", "tests.cli.no_broker", with_tables(f"sqlite:///{tmp_path / 'saga.db'}"), tmp_path)

    started = away("start", "order", "--arg", 'line={"sku": "a1"}', "--json")
    again = away("start", "order", "--arg", 'line={"sku": "a1"}', "--wait", "0.1")

    assert (started.code, started.document["status"]) == (0, "queued")
    assert started.err.startswith("NOT_SENT: 1 of 1 wake-ups were not sent and stay due: ")
    assert started.err.count("\n") == 1
    assert again.code == 1
    assert "WAIT_TIMEOUT" in again.err
    assert "once a worker takes it up" in again.err
