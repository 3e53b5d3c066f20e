"""The commands with which a person repairs a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.database import with_tables
from tests.cli.program import PROGRAMS, Program

WHO = ("--reason", "seen by hand", "--by", "ann")


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Program:
    url = with_tables(f"sqlite:///{tmp_path / 'saga.db'}")
    return Program(request.param, "tests.cli.project", url, tmp_path)


def test_a_run_is_suspended_by_a_person_and_then_compensated(program: Program) -> None:
    program.ok("start", "order", "--arg", 'line={"sku": "a1"}')

    parked = program.ok("suspend", "order:a1", *WHO, "--json").document
    undone = program.ok("compensate", "order:a1", *WHO, "--json").document

    assert (parked["status"], parked["reason"]) == ("suspended", "operator")
    assert undone["status"] == "failed"
    assert [step["status"] for step in _steps(program, undone["id"]) if step["kind"] == "undo"] == ["done"]
    assert _who(program, undone["id"]) == [("suspend", "ann", "seen by hand"), ("compensate", "ann", "seen by hand")]


def test_a_step_is_skipped_with_the_result_that_the_body_gets(program: Program, tmp_path: Path) -> None:
    (tmp_path / "dear").touch()
    run_id = program.ok("start", "careful", "--arg", "count=1", "--json").document["id"]

    skipped = program.ok("skip", run_id, "price", "--result", '"5.00"', *WHO, "--json").document

    assert (skipped["status"], skipped["result"]) == ("completed", "5.00")
    assert _who(program, run_id) == [("skip", "ann", "seen by hand")]


@pytest.mark.parametrize(
    ("given", "told"), [((), "held x"), (("--args", '["y"]'), "y"), (("--args", '{"held": "z"}'), "z")]
)
def test_a_used_up_undo_is_executed_again_with_its_own_or_other_arguments(
    program: Program, tmp_path: Path, given: tuple[str, ...], told: str
) -> None:
    run_id = _stuck(program, tmp_path)
    (tmp_path / "stuck").unlink()

    after = program.ok("retry-undo", run_id, "reserve", *given, *WHO, "--json").document

    assert after["status"] == "failed"
    assert _steps(program, run_id)[-1]["result"] == f"let go of {told}"
    assert _who(program, run_id) == [("retry_undo", "ann", "seen by hand")]


@pytest.mark.parametrize(("outcome", "status"), [("done", "done"), ("skipped", "cancelled")])
def test_an_undo_is_closed_by_hand_and_not_executed(
    program: Program, tmp_path: Path, outcome: str, status: str
) -> None:
    run_id = _stuck(program, tmp_path)

    after = program.ok("resolve-undo", run_id, "reserve", "--outcome", outcome, *WHO)

    assert "failed" in after.out
    assert _steps(program, run_id)[-1]["status"] == status
    assert _who(program, run_id) == [("resolve_undo", "ann", "seen by hand")]


@pytest.mark.parametrize(
    "words",
    [
        ("suspend", "nobody"),
        ("compensate", "nobody"),
        ("skip", "nobody", "price"),
        ("retry-undo", "nobody", "price"),
        ("resolve-undo", "nobody", "price", "--outcome", "done"),
    ],
    ids=" ".join,
)
def test_a_run_that_is_not_there_is_told(program: Program, words: tuple[str, ...]) -> None:
    done = program(*words)

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("RUN_NOT_FOUND: ")


def test_what_the_state_does_not_allow_is_told_and_changes_nothing(program: Program) -> None:
    run_id = program.ok("start", "fragile", "--arg", 'name="a"', "--json").document["id"]

    told = [
        program("suspend", run_id),
        program("skip", run_id, "reserve"),
        program("skip", run_id, "nothing"),
        program("retry-undo", run_id, "reserve"),
        program("resolve-undo", run_id, "reserve", "--outcome", "done"),
    ]

    assert [(done.code, done.err.partition(":")[0]) for done in told] == [(1, "ILLEGAL_TRANSITION")] * 5
    assert program.ok("show", run_id, "--json").document["status"] == "completed"


@pytest.mark.parametrize(
    "words",
    [
        ("resolve-undo", "a", "b"),
        ("resolve-undo", "a", "b", "--outcome", "so"),
        ("retry-undo", "a", "b", "--args", "3"),
    ],
    ids=" ".join,
)
def test_words_that_cannot_be_used_end_with_2(program: Program, words: tuple[str, ...]) -> None:
    assert program(*words).code == 2


def _stuck(program: Program, tmp_path: Path) -> str:
    """A run whose undo is used up."""
    (tmp_path / "stuck").touch()
    run = program.ok("start", "clumsy", "--arg", 'name="x"', "--json").document
    assert run["status"] == "compensation_failed"
    return str(run["id"])


def _steps(program: Program, run_id: str) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = program.ok("show", run_id, "--json").document["steps"]
    return steps


def _who(program: Program, run_id: str) -> list[tuple[str, str, str]]:
    """Action, person and reason of what people did."""
    rows = program.ok("history", run_id, "--json").lines
    return [(row["action"], row["by"], row["reason"]) for row in rows if row["by"]]
