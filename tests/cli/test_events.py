"""`events`: each outcome of a run once, from any place in it, up to its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.database import with_tables
from tests.cli.program import Program


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program("celery-saga", "tests.cli.project", with_tables(f"sqlite:///{tmp_path / 'saga.db'}"), tmp_path)


def test_the_outcomes_of_a_run_are_told_up_to_its_end(program: Program) -> None:
    run = program.ok("start", "fragile", "--args", '["x"]', "--json").document["id"]

    documents = program.ok("events", run, "--json").lines
    later = program.ok("events", run, "--after", "1", "--json").lines
    lines = program.ok("events", run).out.splitlines()

    assert [(each["seq"], each["action"]) for each in documents] == [(1, "ok"), (2, "end")]
    assert documents == program.ok("history", run, "--json").lines
    assert later == documents[1:]
    assert [line.split()[0] for line in lines] == ["1", "2"]


def test_a_run_that_is_not_there_is_told(program: Program) -> None:
    done = program("events", "11111111-1111-4111-8111-111111111111")

    assert done.code == 1
    assert done.err.startswith("RUN_NOT_FOUND")
