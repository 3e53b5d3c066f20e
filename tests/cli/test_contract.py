"""What scripts rely on: exit codes, JSON on stdout, one line `CODE: text` on stderr."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from celery_saga.store import open_store
from celery_saga.testing.samples import a_run
from tests.cli.database import with_tables
from tests.cli.program import PROGRAMS, Program

PROJECT, BROKEN, PLAIN = "tests.cli.project", "tests.cli.broken", "tests.cli.plain"

both = pytest.mark.parametrize("name", PROGRAMS)


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    return with_tables(f"sqlite:///{tmp_path / 'saga.db'}")


@both
@pytest.mark.parametrize("app", [PROJECT, BROKEN, "tests.cli.no_such_module"])
@pytest.mark.parametrize("words", [("nonsense",), ("runs", "--nonsense")], ids=["command", "flag"])
def test_a28_wrong_use_ends_with_2_even_where_the_app_is_broken(name: str, app: str, words: tuple[str, ...]) -> None:
    assert Program(name, app).fresh(*words).code == 2


@both
@pytest.mark.parametrize(
    "words",
    [
        ("show", "no-such-run"),
        ("show", "order:no-such-key"),
        ("history", "no-such-run"),
        ("cancel", "no-such-run"),
        ("retry", "no-such-run", "--json"),
        ("resume", "no-such-run"),
        ("signal", "no-such-run", "approval", "--json"),
    ],
    ids=" ".join,
)
def test_a28_a_missing_run_ends_with_1_and_its_code_first(name: str, words: tuple[str, ...], database_url: str) -> None:
    done = Program(name, PROJECT, database_url)(*words)

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("RUN_NOT_FOUND: ")
    assert done.err.count("\n") == 1


@both
def test_a28_success_ends_with_0_and_stdout_is_json(name: str, database_url: str) -> None:
    done = Program(name, PROJECT, database_url).fresh("start", "order", "--arg", 'line={"sku": "a1"}', "--json")

    assert (done.code, done.err, done.document["status"]) == (0, "", "waiting")


@both
def test_a28_the_installed_program_tells_a_missing_run(name: str, database_url: str) -> None:
    done = Program(name, PROJECT, database_url).fresh("show", "no-such-run")

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("RUN_NOT_FOUND: ")


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("verb", ["show", "history", "cancel", "retry", "resume", "suspend"])
def test_a_key_that_no_run_has_is_told_in_the_words_of_the_question(name: str, verb: str, database_url: str) -> None:
    done = Program(name, PROJECT, database_url)(verb, "order:nope")

    assert done.code == 1
    assert done.err == "RUN_NOT_FOUND: saga 'order' has no run with the key 'nope'\n"


@both
@pytest.mark.parametrize(
    "words",
    [
        ("show", "ordre:a1"),
        ("signal", "ordre:a1", "approval"),
        ("runs", "--saga", "ordre"),
        ("resume", "--saga", "ordre"),
        ("resume", "--saga", "ordre", "--dry-run", "--json"),
    ],
    ids=" ".join,
)
def test_a_saga_that_nobody_knows_is_told_with_those_that_there_are(
    name: str, words: tuple[str, ...], database_url: str
) -> None:
    done = Program(name, PROJECT, database_url)(*words)

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("UNKNOWN_SAGA: the app knows no saga 'ordre'; it knows ")
    assert "order (version 1)" in done.err


def test_runs_of_a_saga_that_is_known_no_more_are_still_found(database_url: str) -> None:
    store = open_store(database_url)
    store.insert_run(a_run(saga="retired"))
    store.close()

    assert len(Program("celery-saga", PROJECT, database_url).ok("runs", "--saga", "retired", "--json").lines) == 1


def test_a_cancel_that_changes_nothing_says_so_and_why(database_url: str) -> None:
    program = Program("celery-saga", PROJECT, database_url)
    ended = program.ok("start", "fragile", "--arg", 'name="a"', "--json").document["id"]
    program.ok("start", "order", "--arg", 'line={"sku": "a1"}')

    first, again = program.ok("cancel", "order:a1"), program.ok("cancel", "order:a1")
    completed = program.ok("cancel", ended)

    assert "nothing was changed" not in first.out
    assert "nothing was changed: the run had ended before, it is cancelled" in again.out
    assert "nothing was changed: the run had ended before, it is completed" in completed.out
    assert program.ok("cancel", ended, "--json").document["changed"] is False


@both
def test_without_an_app_the_error_tells_how_to_name_one(name: str) -> None:
    done = Program(name)("runs")

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("NO_APP: ")
    assert "celery -A proj saga" in done.err


def test_an_app_without_celery_saga_is_told_what_to_write() -> None:
    done = Program("celery-saga", PLAIN)("runs")

    assert done.code == 1
    assert done.err.startswith("NOT_INSTALLED: ")
    assert "CelerySaga(app)" in done.err


@pytest.mark.parametrize(
    ("app", "code"), [(BROKEN, "CONFIG_ERROR: "), ("tests.cli.no_such_module", "APP_NOT_LOADED: ")]
)
def test_a_broken_app_is_named_with_what_broke(app: str, code: str) -> None:
    done = Program("celery-saga", app)("runs")

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(code)
    assert "no_such" in done.err


def test_tables_that_were_not_made_are_told_with_the_remedy(tmp_path: Path) -> None:
    done = Program("celery-saga", PROJECT, f"sqlite:///{tmp_path / 'empty.db'}")("runs")

    assert done.code == 1
    assert done.err.startswith("SCHEMA_OUTDATED: the saga database lacks a table or column (")
    assert "saga migrate" in done.err


def test_a_saga_that_the_app_does_not_know_is_told_with_those_that_it_knows(database_url: str) -> None:
    done = Program("celery-saga", PROJECT, database_url)("start", "ordre")

    assert done.code == 1
    assert done.err.startswith("UNKNOWN_SAGA: ")
    assert "order (version 1)" in done.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("start", "order", "--arg", "line"), "name=json"),
        (("start", "order", "--arg", "line=abc"), "is no JSON"),
        (("start", "order", "--args", "3"), "list"),
        (("start", "order", "--args", '{"line": 1}', "--arg", "line=2"), "given twice"),
        (("signal", "a", "b", "--value", "NaN"), "no number of JSON"),
        (("signal", "a", "b", "--value", "1", "--error", "x"), "exclude"),
        (("runs", "--since", "yesterday"), "ISO 8601"),
        (("runs", "--status", "asleep"), "completed"),
        (("resume", "--reason-code", "bug"), "body_error"),
        (("resume",), "RUN"),
        (("resume", "a", "--saga", "order"), "RUN"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_word_that_cannot_be_used_ends_with_2_and_says_why(
    words: tuple[str, ...], told: str, database_url: str
) -> None:
    done = Program("celery-saga", PROJECT, database_url)(*words)

    assert (done.code, done.out) == (2, "")
    assert told in done.err


def test_arguments_that_do_not_fit_the_body_write_nothing(database_url: str) -> None:
    program = Program("celery-saga", PROJECT, database_url)

    done = program("start", "order", "--arg", 'line={"sku": 5, "count": "many"}')

    assert done.code == 1
    assert done.err.startswith("INVALID_ARGUMENT: ")
    assert program.ok("runs", "--json").out == ""


@pytest.mark.parametrize("url", ["nonsense", "postgresql://h:abc/x", "postgresql+nosuchdriver://h/x", "oracle://x"])
def test_a_database_url_that_cannot_be_used_ends_with_1_and_one_line(url: str) -> None:
    done = Program("celery-saga", PROJECT, url)("runs")

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("DEFINITION_ERROR: ")
    assert done.err.count("\n") == 1


def test_a_database_that_is_down_is_told_by_its_code() -> None:
    url = "postgresql://nobody@127.0.0.1:1/nothing"

    done = Program("celery-saga", PROJECT, url)("runs")

    assert done.code == 1
    assert done.err.startswith("STORE_UNAVAILABLE: the saga database cannot be reached (")
    assert "refused" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://postgres@127.0.0.1/no_such_database",
        "postgresql+psycopg://postgres@127.0.0.1/no_such_database",
        "mysql+pymysql://root@127.0.0.1/no_such_database",
    ],
)
@pytest.mark.parametrize("words", [("migrate",), ("migrate", "--check"), ("runs",)], ids=" ".join)
def test_a_database_that_does_not_exist_has_to_be_created_first_and_is_told_at_once(
    url: str, words: tuple[str, ...], postgresql_url: str, mariadb_url: str
) -> None:
    begun_s = time.monotonic()
    done = Program("celery-saga", PROJECT, url)(*words)
    took_s = time.monotonic() - begun_s

    assert done.code == 1
    assert done.err.startswith("STORE_UNAVAILABLE: the saga database does not exist (")
    assert "Create it first" in done.err
    assert took_s < 4.5  # an unreachable one is tried for 5 s
