"""What every call of `celery` pays for the commands: nothing heavy is loaded before one of them runs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from celery_saga.cli.catalogue import COMMANDS
from tests.cli.program import ROOT

HEAVY = ("sqlalchemy", "pydantic", "rich", "psycopg2", "celery_saga.engine", "celery_saga.runtime", "celery_saga.store")


@pytest.mark.parametrize("module", ["celery_saga.cli.group", "celery_saga.cli.standalone"])
def test_importing_the_entry_point_loads_nothing_heavy(module: str) -> None:
    program = f"import sys, {module}\nprint([name for name in {HEAVY!r} if name in sys.modules])"

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout.strip() == "[]"


def test_the_entry_point_adds_the_workers_option_once() -> None:
    program = (
        "from celery.bin.celery import celery, worker\n"
        "import celery_saga.cli.group\n"
        "from celery import Celery\n"
        "from celery_saga import CelerySaga\n"
        "app = Celery('x', broker='memory://')\n"
        "CelerySaga(app)\n"
        "own = [*worker.params, *app.user_options['worker']]\n"
        "print([option.name for option in own if '--no-saga-sweeper' in option.opts])\n"
        "print('saga' in celery.commands)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout.split("\n")[:2] == ["['no_saga_sweeper']", "True"]


def test_every_command_is_where_the_catalogue_says_and_has_a_help_text() -> None:
    from click.testing import CliRunner

    from celery_saga.cli.standalone import cli

    for name in (*COMMANDS, "demo"):
        done = CliRunner().invoke(cli, [name, "--help"])
        assert (done.exit_code, "--json" in done.output) == (0, True), name


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_both_programs_take_the_short_and_the_long_help_flag(flag: str) -> None:
    from celery.bin.celery import celery
    from click.testing import CliRunner

    from celery_saga.cli.standalone import cli

    for group, words in ((cli, []), (celery, ["saga"])):
        done = CliRunner().invoke(group, [*words, "runs", flag])
        assert (done.exit_code, "--attention" in done.output) == (0, True), done.output


def test_help_promises_a_table_as_json_only_where_there_is_one() -> None:
    from click.testing import CliRunner

    from celery_saga.cli.standalone import cli

    with_rows = {"runs", "history", "events", "lanes", "reencrypt", "check", "versions", "watch"}
    for name in COMMANDS:
        told = CliRunner().invoke(cli, [name, "--help"]).output
        assert ("for each row" in " ".join(told.split())) is (name in with_rows), name


@pytest.mark.parametrize(("short", "name"), [("list", "runs"), ("get", "show")])
def test_what_other_tools_call_a_command_is_understood_and_not_listed(short: str, name: str) -> None:
    from click.testing import CliRunner

    from celery_saga.cli.standalone import cli

    called = CliRunner().invoke(cli, [short, "--help"])
    listed = CliRunner().invoke(cli, ["--help"]).output

    assert called.output.replace(f"cli {short}", f"cli {name}") == CliRunner().invoke(cli, [name, "--help"]).output
    assert f"\n  {short} " not in listed
