"""The commands about schedules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from celery_saga.core.schedules import ScheduleChange
from celery_saga.store import open_store
from tests.cli.database import with_tables
from tests.cli.program import PROGRAMS, Program

LINE = ("--arg", 'line={"sku": "a1"}')


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Program:
    url = with_tables(f"sqlite:///{tmp_path / 'saga.db'}")
    return Program(request.param, "tests.cli.project", url, tmp_path)


def test_a_schedule_is_added_changed_listed_and_removed(program: Program) -> None:
    added = program.ok("schedules", "add", "order", "n", "--cron", "* * * * *", *LINE, "--json").document
    changed = program.ok(
        *("schedules", "add", "order", "n", "--cron", "*/5 * * * *", "--tz", "Europe/Berlin", *LINE, "--json")
    ).document
    same = program.ok("schedules", "show", "order", "n", "--json").document
    listed = program.ok("schedules", "list", "--saga", "order", "--json").lines
    removed = program.ok("schedules", "remove", "order", "n", "--json").document

    assert (added["pattern"], added["tz"], added["source"], added["input"]) == (
        *("* * * * *", "UTC", "cli"),
        {"line": {"sku": "a1"}},
    )
    assert (changed["pattern"], changed["tz"], changed["last_fire_at"]) == ("*/5 * * * *", "Europe/Berlin", None)
    assert [same] == listed == [changed]
    assert removed == {"saga": "order", "id": "n", "removed": True}
    assert program.ok("schedules", "list", "--json").out == ""


def test_a_schedule_is_paused_by_a_person_and_let_go_on(program: Program) -> None:
    program.ok("schedules", "add", "order", "n", "--every", "3600", *LINE)

    paused = program.ok("schedules", "pause", "order", "n", "--reason", "stock", "--by", "ann", "--json").document
    told = program.ok("schedules", "list").out
    after = program.ok("schedules", "unpause", "order", "n", "--json").document

    assert (paused["paused"], paused["pause_reason"], paused["pause_by"]) == (True, "stock", "ann")
    assert "every 1 h" in told and "paused" in told
    assert (after["paused"], after["pause_reason"]) == (False, None)
    assert program.ok("schedules", "fires", "order", "n", "--json").out == ""


def test_a_schedule_that_has_fired_once_and_for_all_is_done(program: Program, tmp_path: Path) -> None:
    program.ok("schedules", "add", "order", "n", "--at", "2999-01-01", *LINE)
    store = open_store(f"sqlite:///{tmp_path / 'saga.db'}")
    store.change_schedule("order", "n", lambda s, _, __: ScheduleChange(s and replace(s, next_at=None, wake_at=None)))
    store.close()

    row = program.ok("schedules", "list").out.splitlines()[-1]

    assert "none any more" in row and row.split()[-1] == "done"


def test_wrong_use_is_told_by_exit_code_and_code(program: Program) -> None:
    missing = program("schedules", "show", "order", "none")
    bad = program("schedules", "add", "order", "n", "--cron", "61 * * * *", *LINE)
    neither = program("schedules", "add", "order", "n", *LINE)
    unknown = program("schedules", "add", "nothing", "n", "--every", "5")
    flag = program("schedules", "list", "--colour")

    assert [done.code for done in (missing, bad, neither, unknown, flag)] == [1, 1, 1, 1, 2]
    assert missing.err.startswith("SCHEDULE_NOT_FOUND: ")
    assert bad.err.startswith("DEFINITION_ERROR: ") and "Bad minute" in bad.err
    assert neither.err.startswith("DEFINITION_ERROR: ")
    assert unknown.err.startswith("UNKNOWN_SAGA: ")
    assert {done.out for done in (missing, bad, neither, unknown)} == {""}
