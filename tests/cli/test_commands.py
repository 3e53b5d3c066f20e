"""Every command on a real database, through the programs that people call."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from celery_saga.client.waiting import pauses_s
from tests.cli.program import Program

A1 = ("start", "order", "--arg", 'line={"sku": "a1", "count": 2}')


@pytest.fixture(params=["sqlite", "postgresql"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Program]:
    """One program on SQLite, the other one on PostgreSQL; the tables are made."""
    if request.param == "sqlite":
        made = Program("celery-saga", "tests.cli.project", f"sqlite:///{tmp_path / 'saga.db'}", tmp_path)
    else:
        made = Program("celery saga", "tests.cli.project", request.getfixturevalue("postgresql_url"), tmp_path)
    made.ok("migrate")
    yield made


def test_migrate_applies_once_and_check_tells_what_is_left(tmp_path: Path) -> None:
    program = Program("celery-saga", "tests.cli.project", f"sqlite:///{tmp_path / 'saga.db'}")

    before = program("migrate", "--check", "--json")
    first = program.ok("migrate", "--json").document
    second = program.ok("migrate", "--json").document

    assert (before.code, before.document["state"], before.document["pending"]) == (1, "absent", first["applied"])
    assert before.err.startswith("SCHEMA_OUTDATED: ")
    assert first["applied"][0] == "0001_first.pre"
    assert (second["state"], second["applied"], second["pending"]) == ("current", [], [])
    program.ok("migrate", "--check")


def test_a_run_is_started_shown_signalled_and_found_by_its_key(program: Program) -> None:
    started = program.ok(*A1, "--json").document
    again = program.ok(*A1, "--json").document
    sent = program.ok("signal", "order:a1", "approval", "--value", "true", "--id", "s1", "--json").document
    shown = program.ok("show", "order:a1", "--json").document
    history = program.ok("history", started["id"], "--json").lines

    assert (started["created"], started["status"], again["created"]) == (True, "waiting", False)
    assert sent == {"run": started["id"], "signal": "approval", "delivery": "delivered"}
    assert (shown["id"], shown["status"], shown["result"]) == (started["id"], "completed", "19.00")
    assert shown["input"] == {"line": {"sku": "a1", "count": 2}}
    assert [(step["key"], step["status"]) for step in shown["steps"]] == [
        ("reserve", "done"),
        ("approval", "done"),
        ("price", "done"),
    ]
    assert [(each["name"], each["value"], each["id"]) for each in shown["signals"]] == [("approval", True, "s1")]
    assert [row["seq"] for row in history] == list(range(1, len(history) + 1))
    assert history[-1]["action"] == "end"


def test_a_start_that_leaves_a_default_out_finds_the_run_that_names_it(program: Program) -> None:
    first = program.ok("start", "order", "--arg", 'line={"sku": "a1"}', "--json").document
    again = program.ok("start", "order", "--args", '[{"count": 1, "sku": "a1"}]', "--json").document

    assert (again["id"], again["created"]) == (first["id"], False)


def test_people_see_tables_with_the_same_facts(program: Program) -> None:
    told = program.ok(*A1).out

    shown = program.ok("show", "order:a1").out
    listed = program.ok("runs").out
    history = program.ok("history", "order:a1").out

    assert "status" in told and "waiting" in told
    assert next(line.split() for line in shown.splitlines() if line.startswith("reserve"))[1:3] == ["done", "1"]
    assert "order v1" in listed and "a1" in listed
    assert "reserve" in history


def test_a_start_that_waits_prints_the_end_or_fails_with_it(program: Program) -> None:
    good = program.ok("start", "fragile", "--args", '["x"]', "--wait", "10", "--json").document
    late = program(*A1, "--wait", "0.1")
    (program.switches / "dear").touch()  # type: ignore[operator]
    program.ok("signal", "order:a1", "approval", "--value", "true")
    failed = program(*A1, "--wait", "10")

    assert good["result"] == "held x"
    assert (late.code, late.err.partition(":")[0]) == (1, "WAIT_TIMEOUT")
    assert (failed.code, failed.err.partition(":")[0]) == (1, "RUN_FAILED")
    assert "over budget" in failed.err


def test_runs_are_filtered_and_paged(program: Program) -> None:
    ids = [program.ok("start", "fragile", "--arg", f'name="{n}"', "--json").document["id"] for n in "abc"]
    program.ok(*A1)

    def found(*words: str) -> list[str]:
        return [run["id"] for run in program.ok("runs", "--json", *words).lines]

    assert found("--saga", "fragile") == list(reversed(ids))
    assert found("--saga", "fragile", "--limit", "2") == ids[:0:-1]
    assert found("--saga", "fragile", "--limit", "2", "--after", ids[1]) == ids[:1]
    assert len(found("--status", "waiting", "--status", "failed")) == 1
    assert found("--attention") == []
    assert found("--until", "2000-01-01") == []
    assert len(found("--key", "a1", "--since", "2000-01-01T00:00:00+02:00", "--version", "1")) == 1


def test_a_cancelled_run_is_undone_and_can_be_retried(program: Program) -> None:
    program.ok(*A1)

    cancelled = program.ok("cancel", "order:a1", "--reason", "changed mind", "--by", "ann", "--json").document
    shown = program.ok("show", "order:a1", "--json").document
    retried = program.ok("retry", "order:a1", "--from-step", "reserve", "--json").document
    old = program.ok("show", "order:a1", "--all", "--json").document

    assert cancelled["cancelled"] is True
    assert shown["status"] == "cancelled"
    assert [step["key"] for step in shown["steps"] if step["kind"] == "undo"] == ["reserve!undo"]
    assert retried["generation"] == 2
    assert {step["generation"] for step in old["steps"]} == {1, 2}
    rows = program.ok("history", "order:a1", "--json").lines
    assert [(row["by"], row["reason"]) for row in rows if row["action"] == "cancel"] == [("ann", "changed mind")]


def test_a_cancel_without_undos_leaves_what_was_done(program: Program) -> None:
    program.ok(*A1)

    program.ok("cancel", "order:a1", "--no-compensate")

    shown = program.ok("show", "order:a1", "--json").document
    assert shown["status"] == "cancelled"
    assert [step["key"] for step in shown["steps"] if step["kind"] == "undo"] == []


def test_a_signal_with_an_error_raises_the_declared_class_in_the_body(program: Program) -> None:
    program.ok(*A1)

    program.ok("signal", "order:a1", "approval", "--error", "TooDear: far too dear")

    shown = program.ok("show", "order:a1", "--json").document
    assert shown["status"] == "failed"
    assert shown["error"]["type"].endswith(".TooDear")
    assert shown["error"]["message"] == "far too dear"


def test_a_run_parked_by_a_bug_is_shown_with_the_traceback(program: Program) -> None:
    (program.switches / "bug").touch()  # type: ignore[operator]
    run_id = program.ok("start", "fragile", "--arg", 'name="a"', "--json").document["id"]

    told = program.ok("show", run_id).out
    error = program.ok("show", run_id, "--traceback", "--json").document["error"]

    assert 'raise ValueError("a bug")' in told and told.rstrip().endswith("ValueError: a bug")
    assert 'raise ValueError("a bug")' in error["traceback"]
    assert program.ok("show", run_id, "--json").document["status"] == "suspended"


def test_parked_runs_are_resumed_one_by_one_or_in_bulk(program: Program) -> None:
    bug = program.switches / "bug"  # type: ignore[operator]
    bug.touch()
    ids = [program.ok("start", "fragile", "--arg", f'name="{n}"', "--json").document["id"] for n in "abc"]
    assert {run["reason"] for run in program.ok("runs", "--attention", "--json").lines} == {"body_error"}
    bug.unlink()

    one = program.ok("resume", ids[0], "--json").document
    dry = program.ok("resume", "--saga", "fragile", "--dry-run", "--json").document
    other = program.ok("resume", "--saga", "fragile", "--reason-code", "stalled", "--json").document
    many = program.ok("resume", "--saga", "fragile", "--version", "1", "--reason-code", "body_error", "--json").document

    assert one["status"] == "completed"
    assert (sorted(dry["matched"]), dry["resumed"]) == (sorted(ids[1:]), [])
    assert other["matched"] == []
    assert sorted(many["resumed"]) == sorted(ids[1:])
    assert {run["status"] for run in program.ok("runs", "--json").lines} == {"completed"}


def test_what_a_command_refuses_is_told_by_its_code(program: Program) -> None:
    program.ok(*A1)
    program.ok("signal", "order:a1", "approval", "--value", "true")

    resumed = program("resume", "order:a1")
    retried = program("retry", "order:a1")
    signalled = program("signal", "order:a1", "approval", "--value", "true")
    unknown = program("signal", "order:a1", "aproval")
    conflict = program("start", "order", "--arg", 'line={"sku": "a1", "count": 3}')

    codes = [done.err.partition(":")[0] for done in (resumed, retried, signalled, unknown, conflict)]
    assert codes == [
        "ILLEGAL_TRANSITION",
        "ILLEGAL_TRANSITION",
        "SIGNAL_EXPIRED",
        "SIGNAL_NOT_EXPECTED",
        "IDEMPOTENCY_CONFLICT",
    ]


def test_versions_lists_sagas_with_their_live_runs(program: Program) -> None:
    program.ok(*A1)

    found = program.ok("versions", "--json").lines

    (order,) = (each for each in found if each["saga"] == "order")
    assert (order["version"], order["live_runs"], order["known_here"], order["workers"]) == (1, 1, True, [])
    assert "order" in program.ok("versions").out


def test_check_names_findings_by_code_and_fails_with_the_errors(program: Program) -> None:
    done = program("check", "--json")

    errors = [finding["code"] for finding in done.lines if finding["level"] == "error"]
    assert all(finding.keys() == {"code", "level", "sentence", "remedy"} for finding in done.lines)
    assert done.code == (1 if errors else 0)
    assert all(code in done.err for code in errors)


def test_check_fails_with_a_code_of_its_own_that_is_no_finding(tmp_path: Path) -> None:
    program = Program("celery-saga", "tests.cli.no_broker", f"sqlite:///{tmp_path / 'saga.db'}")
    program.ok("migrate")

    done = program("check")

    assert done.code == 1
    assert done.err == "CHECK_FOUND_ERRORS: 1 error: BROKER_UNREACHABLE\n"
    assert "1 error among them" in done.out
    assert "What to do: Start the broker" in done.out


def test_a_sweeper_of_its_own_sweeps_until_it_is_told_to_end(program: Program) -> None:
    assert program("doctor").err.startswith("UNHEALTHY: no sweeper is alive")

    process = program.start("sweeper")
    try:
        _until(lambda: program("doctor", "--json").code == 0)
        alive = program.ok("doctor", "--json").document["sweepers"]["alive"]
        assert [row["pid"] for row in alive] == [process.pid]
        assert "order" in {name for name, _ in alive[0]["sagas"]}
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()


def _until(happens: Callable[[], bool]) -> None:
    for _ in pauses_s(60):
        if happens():
            return
    raise AssertionError("it did not happen within a minute")
