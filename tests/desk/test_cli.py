"""The desk and verbs for many runs on the command line; each document is what Python gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.database import with_tables
from tests.cli.program import Program

WHO = ("--reason", "seen by hand", "--by", "ann")


@pytest.fixture
def program(tmp_path: Path) -> Program:
    url = with_tables(f"sqlite:///{tmp_path / 'saga.db'}")
    return Program("celery saga", "tests.cli.project", url, tmp_path)


def test_an_empty_desk_says_so(program: Program) -> None:
    assert "no run needs a person" in program.ok("desk", "list").out
    assert program.ok("desk", "list", "--json").out == ""


def test_the_desk_lists_a_stuck_undo_which_is_retried_with_other_arguments(program: Program, tmp_path: Path) -> None:
    run_id = _stuck(program, tmp_path, "x")

    (entry,) = program.ok("desk", "list", "--json").lines
    told = program.ok("desk", "list").out
    (tmp_path / "stuck").unlink()
    refused = program("desk", "retry", run_id, "reserve", "--args", '["a", "b"]', *WHO)
    after = program.ok("desk", "retry", run_id, "reserve", "--args", '["y"]', *WHO, "--json").document

    assert (entry["run"]["id"], entry["why"], entry["verbs"]) == (run_id, "undo_failed", [])
    (undo,) = entry["undos"]
    assert (undo["step"], undo["attempts"], undo["verbs"]) == ("reserve", 1, ["retry_undo", "resolve_undo"])
    assert undo["error"]["message"] == "it does not open"
    assert run_id in told
    assert "it does not open" in told
    assert (refused.code, refused.err.split(":")[0]) == (1, "INVALID_ARGUMENT")
    assert "let_go(held: str)" in refused.err
    assert after["status"] == "failed"
    rows = program.ok("history", run_id, "--json").lines
    (row,) = [row for row in rows if row["by"]]
    assert (row["action"], row["by"], row["reason"]) == ("retry_undo", "ann", "seen by hand")
    assert row["detail"] == "other arguments, which fit the task"
    assert program.ok("desk", "list", "--json").out == ""


def test_an_undo_is_closed_as_done_or_for_a_reason_skipped(program: Program, tmp_path: Path) -> None:
    first, second = _stuck(program, tmp_path, "x"), _stuck(program, tmp_path, "y")

    done = program.ok("desk", "done", first, "reserve", "--json").document
    without = program("desk", "skip", second, "reserve")
    skipped = program.ok("desk", "skip", second, "reserve", "--reason", "it was never held", "--json").document
    again = program("desk", "done", first, "reserve")

    assert (done["status"], skipped["status"]) == ("failed", "failed")
    assert (without.code, "--reason is required" in without.err) == (2, True)
    assert (again.code, again.err.split(":")[0]) == (1, "ILLEGAL_TRANSITION")
    assert "while the run is failed" in again.err
    shown = " ".join(program.ok("show", second).out.split())
    assert f"reserve!undo was closed by hand as skipped by {_os_user()}: it was never held" in shown
    who = [row["by"] for row in program.ok("history", first, "--json").lines if row["action"] == "resolve_undo"]
    assert who == [_os_user()]


def test_bulk_is_a_dry_run_until_it_is_told_yes(program: Program) -> None:
    for sku in ("a", "b", "c"):
        program.ok("start", "order", "--arg", f'line={{"sku": "{sku}"}}')

    dry = program.ok("bulk", "cancel", "--saga", "order", "--json").document
    told = program.ok("bulk", "cancel", "--saga", "order").out
    seen = {run["status"] for run in program.ok("runs", "--json").lines}
    first = program.ok("bulk", "cancel", "--saga", "order", "--limit", "2", "--yes", *WHO, "--json").document
    rest = program.ok("bulk", "cancel", "--saga", "order", "--after", first["next"], "--yes", "--json").document

    assert (dry["dry_run"], dry["matched"], len(dry["done"])) == (True, 3, 3)
    assert [run["id"] for run in dry["runs"]] == dry["done"]
    assert [(run["saga"], run["key"], run["status"]) for run in first["runs"]] == [
        ("order", "c", "waiting"),
        ("order", "b", "waiting"),
    ]
    rows = [line.split() for line in told.splitlines()]
    assert [row[1:] for row in rows if row and row[0] in dry["done"]] == [["order", key, "waiting"] for key in "cba"]
    assert seen == {"waiting"}
    assert (len(first["done"]), rest["matched"], rest["next"]) == (2, 1, None)
    assert {*first["done"], *rest["done"]} == {*dry["done"]}
    assert program.ok("bulk", "cancel", "--saga", "order", "--json").document["matched"] == 0


def test_bulk_signals_the_runs_of_a_filter_once(program: Program) -> None:
    for sku in ("a", "b"):
        program.ok("start", "order", "--arg", f'line={{"sku": "{sku}"}}')
    words = ("bulk", "signal", "--saga", "order", "--name", "approval", "--value", "true", "--id", "s1", "--yes")

    sent = program.ok(*words, "--json").document
    again = program(*words, "--status", "completed")

    assert len(sent["done"]) == 2
    assert {run["status"] for run in program.ok("runs", "--json").lines} == {"completed"}
    assert (again.code, again.err.split(":")[0]) == (1, "SIGNAL_EXPIRED")


def test_what_was_refused_is_told_and_ends_with_1(program: Program) -> None:
    program.ok("start", "order", "--arg", 'line={"sku": "a"}')

    refused = program("bulk", "resume", "--saga", "order", "--status", "waiting", "--yes", "--json")
    told = program("bulk", "resume", "--saga", "order", "--status", "waiting").out

    assert refused.code == 1
    assert refused.err.startswith("ILLEGAL_TRANSITION: refused for 1 run")
    assert refused.document["refused"][0]["code"] == "ILLEGAL_TRANSITION"
    assert "order:a" in told and refused.document["refused"][0]["run_id"] in told


@pytest.mark.parametrize(
    "words",
    [
        ("bulk", "purge", "--saga", "order"),
        ("bulk", "cancel", "--name", "x"),
        ("bulk", "signal", "--saga", "order"),
        ("bulk", "resume", "--saga", "order", "--no-compensate"),
        ("desk", "retry", "x"),
    ],
    ids=" ".join,
)
def test_words_that_cannot_be_used_end_with_2(program: Program, words: tuple[str, ...]) -> None:
    assert program(*words).code == 2


def test_where_nothing_is_lost_nothing_is_redispatched(program: Program) -> None:
    program.ok("start", "order", "--arg", 'line={"sku": "a"}')

    assert program.ok("redispatch", "--dry-run", "--json").document == {"dry_run": True, "wake_ups": [], "unsent": 0}
    assert program.ok("redispatch").out == "no wake-ups sent again\n"
    assert program("redispatch", "--saga", "nobody").err.startswith("UNKNOWN_SAGA: ")


def test_every_run_at_once_is_refused(program: Program) -> None:
    done = program("bulk", "cancel", "--yes")

    assert (done.code, done.err.split(":")[0]) == (1, "INVALID_ARGUMENT")


def _stuck(program: Program, tmp_path: Path, name: str) -> str:
    (tmp_path / "stuck").touch()
    run: dict[str, Any] = program.ok("start", "clumsy", "--arg", f'name="{name}"', "--json").document
    assert run["status"] == "compensation_failed"
    return str(run["id"])


def _os_user() -> str:
    from celery_saga.cli.session import os_user

    return os_user()
