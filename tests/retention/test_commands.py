"""`purge`, `export`, `import` and the filters of `runs`, through the program that people call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import Program


@pytest.fixture
def program(tmp_path: Path) -> Program:
    made = Program("celery-saga", "tests.cli.project", f"sqlite:///{tmp_path / 'saga.db'}", tmp_path)
    made.ok("migrate")
    return made


def start(program: Program, sku: str) -> str:
    found: str = program.ok("start", "order", "--arg", f'line={{"sku": "{sku}"}}', "--json").document["id"]
    return found


def test_a_purge_prints_its_numbers_as_json(program: Program) -> None:
    runs = [start(program, sku) for sku in ("a1", "a2", "a3")]
    for run in runs[:2]:
        program.ok("signal", run, "approval", "--value", "true")

    dry = program.ok("purge", "--older-than", "0.001s", "--dry-run").document
    kept = program.ok("purge", "--older-than", "0.001s", "--saga", "order", "--keep-latest", "1").document
    rest = program.ok("purge", "--older-than", "0.001s", "--no-keep-keys", "--batch", "1").document
    listed = program.ok("runs", "--json").lines

    assert (dry["matched"], dry["deleted"], dry["active_protected"], dry["dry_run"]) == (2, 0, 1, True)
    assert (kept["matched"], kept["deleted"], kept["keys_kept"]) == (1, 1, 1)
    assert (rest["matched"], rest["deleted"], rest["keys_kept"]) == (2, 2, 0)
    assert [run["id"] for run in listed] == [runs[2]]


def test_a_late_duplicate_of_a_purged_run_is_told_what_is_known(program: Program) -> None:
    run = start(program, "a1")
    program.ok("signal", run, "approval", "--value", "true")
    program.ok("purge", "--older-than", "0.001s")

    again = program.ok("start", "order", "--arg", 'line={"sku": "a1"}', "--json").document
    told = program.ok("start", "order", "--arg", 'line={"sku": "a1"}').out
    waited = program("start", "order", "--arg", 'line={"sku": "a1"}', "--wait", "1")

    known = {name: again[name] for name in ("id", "key", "status", "purged", "created")}
    assert known == {"id": run, "key": "a1", "status": "completed", "purged": True, "created": False}
    assert "it was purged; nothing was started" in " ".join(told.split())
    assert (waited.code, waited.err.split(":")[0], "another key" in waited.err) == (1, "RESULT_PURGED", False)


@pytest.mark.parametrize("age", ["soon", "3x", "9999999999w", "-1", "30", "0", "0.5", ".", "0001-01-01T00:00:00+14:00"])
def test_an_age_that_is_none_is_wrong_use(program: Program, age: str) -> None:
    done = program("purge", "--older-than", age)

    assert (done.code, done.out) == (2, "")
    assert "30d" in done.err or age == "9999999999w"


def test_a_cut_off_ahead_is_refused(program: Program) -> None:
    done = program("purge", "--older-than", "2999-01-01")

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("INVALID_ARGUMENT: ")


def test_a27_an_exported_run_is_imported_elsewhere(program: Program, tmp_path: Path) -> None:
    run = start(program, "a1")
    program.ok("signal", run, "approval", "--value", "true")
    file = tmp_path / "run.json"
    elsewhere = Program("celery-saga", "tests.cli.project", f"sqlite:///{tmp_path / 'other.db'}", tmp_path)
    elsewhere.ok("migrate")

    printed = program.ok("export", "order:a1").document
    program.ok("export", run, "-o", str(file))
    imported = elsewhere.ok("import", str(file)).document
    again = elsewhere("import", str(file))

    assert printed == json.loads(file.read_text())
    assert (printed["run"]["id"], [row["seq"] for row in printed["history"]]) == (run, [1, 2, 3, 4])
    assert (imported["id"], imported["status"]) == (run, "completed")
    assert elsewhere.ok("export", run).document == printed
    assert (again.code, again.out) == (1, "")
    assert again.err.startswith("RUN_EXISTS: ")


def test_a27_an_unknown_run_ends_with_1(program: Program) -> None:
    done = program("export", "11111111-1111-1111-1111-111111111111")

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("RUN_NOT_FOUND: ")


def test_a_live_run_and_no_json_are_refused(program: Program, tmp_path: Path) -> None:
    live, broken = tmp_path / "live.json", tmp_path / "broken.json"
    program.ok("export", start(program, "a1"), "-o", str(live))
    broken.write_text("{")

    for file, told in ((live, "Suspend it"), (broken, "is no JSON")):
        done = program("import", str(file))
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith("INVALID_ARGUMENT: ") and told in done.err


AMBIGUOUS = {
    "a member twice": (
        lambda text: text.replace('"format":', '"format": "celery_saga/1", "format":', 1),
        "names a member",
    ),
    "NaN": (lambda text: text.replace('"priority": 0', '"priority": NaN', 1), "NaN"),
    "too deep": (lambda text: "[" * 100_000 + text, "nests too deep"),
    "half of a pair": (lambda text: text.replace('"reason":', '"reason\\ud800":', 1), "surrogate"),
    "cut off": (lambda text: text[:-3], "is no JSON"),
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_what_readers_would_understand_differently_is_not_imported(program: Program, tmp_path: Path, name: str) -> None:
    run = start(program, "a1")
    program.ok("signal", run, "approval", "--value", "true")
    text = json.dumps(program.ok("export", run).document)
    spoil, told = AMBIGUOUS[name]
    spoilt = spoil(text)
    assert spoilt != text
    (tmp_path / "spoilt.json").write_text(spoilt)
    program.ok("purge", "--older-than", "0.001s", "--no-keep-keys")

    done = program("import", str(tmp_path / "spoilt.json"))

    assert (done.code, done.out, done.err.split(":")[0]) == (1, "", "INVALID_ARGUMENT")
    assert told in done.err and "nothing was written" in done.err
    assert program.ok("runs", "--json").lines == []


@pytest.mark.parametrize("words", ["runs", "desk list", "schedules list", "lanes"])
def test_an_empty_list_is_no_line_of_json(program: Program, words: str) -> None:
    assert program.ok(*words.split(), "--json").out == ""


def test_runs_are_listed_page_by_page(program: Program) -> None:
    runs = [start(program, sku) for sku in ("a1", "a2", "a3")]

    first = program.ok("runs", "--limit", "2")
    place = first.out.rpartition("--after ")[2].strip()
    second = program.ok("runs", "--limit", "2", "--after", place, "--json").lines

    assert [run["id"] for run in second] == [runs[0]]
    assert program.ok("runs", "--stuck", "--json").lines == []
    assert program.ok("runs", "--purged", "--lane", "x", "--tag", "y", "--json").lines == []
