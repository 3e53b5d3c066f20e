"""A28 for each command of the catalogue, also for those that will come."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from celery_saga.cli.catalogue import COMMANDS
from celery_saga.cli.standalone import cli
from celery_saga.client.waiting import pauses_s
from celery_saga.store import open_store
from tests.cli.database import with_tables
from tests.cli.every_command import KINDS, WAYS, Way
from tests.cli.program import PROGRAMS, Done, Program

PROJECT, BROKEN = "tests.cli.project", "tests.cli.broken"


def every_command() -> Iterator[tuple[str, ...]]:
    """The words of each command, those of groups within groups too."""
    context = click.Context(cli)
    for name in COMMANDS:
        yield from _below((name,), cli.get_command(context, name))


def _below(words: tuple[str, ...], command: click.Command | None) -> Iterator[tuple[str, ...]]:
    assert command is not None, words
    if not isinstance(command, click.Group):
        yield words
        return
    for name, each in command.commands.items():
        yield from _below((*words, name), each)


EVERY = list(every_command())


def way_of(words: tuple[str, ...]) -> Way:
    """Of the table; what is not in it fails a test of its own."""
    return WAYS.get(" ".join(words), Way())


class Runs:
    """Makes a run of each kind for whoever asks, in one database."""

    def __init__(self, program: Program, switches: Path) -> None:
        self.program = program
        self._switches = switches
        self._numbers = itertools.count()

    def named(self, way: Way) -> dict[str, str]:
        """Runs of the kinds that a command takes, made for it."""
        wanted = [kind for kind in KINDS if f"{{{kind}}}" in way.words]
        return {kind: getattr(self, f"_{kind}")() for kind in wanted}

    def _start(self, saga: str, argument: str) -> str:
        return str(self.program.ok("start", saga, "--arg", argument, "--json").document["id"])

    def _name(self) -> str:
        return f"n{next(self._numbers)}"

    def _order(self) -> str:
        return self._start("order", f'line={{"sku": "{self._name()}"}}')

    def _done(self) -> str:
        return self._start("fragile", f'name="{self._name()}"')

    def _parked(self) -> str:
        with_switch = self._switches / "dear"
        with_switch.touch()
        try:
            return self._start("careful", "count=1")
        finally:
            with_switch.unlink()

    def _failed(self) -> str:
        run = self._order()
        self.program.ok("signal", run, "approval", "--value", "false")
        return run

    def _schedule(self) -> str:
        name = self._name()
        self.program.ok("schedules", "add", "fragile", name, "--every", "3600", "--arg", 'name="s"')
        return name

    def _exported(self) -> str:
        run, path = self._done(), self._switches / "exported.json"
        self.program.ok("export", run, "--output", str(path))
        self.program.ok("purge", "--older-than", "0.001s", "--saga", "fragile", "--no-keep-keys")
        return str(path)

    def _stuck(self) -> str:
        with_switch = self._switches / "stuck"
        with_switch.touch()
        try:
            return self._start("clumsy", f'name="{self._name()}"')
        finally:
            with_switch.unlink()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("commands")
    url = with_tables(f"sqlite:///{folder / 'saga.db'}")
    return Runs(Program("celery-saga", PROJECT, url, folder), folder)


def test_a28_every_command_is_in_the_table_and_the_table_has_no_other() -> None:
    assert set(WAYS) == {" ".join(words) for words in EVERY}


# Either program for every other command: the commands are the same.
@pytest.mark.parametrize(("program", "words"), list(zip(itertools.cycle(PROGRAMS), EVERY, strict=False)), ids="".join)
def test_a28_a_bad_flag_ends_with_2_even_where_the_app_is_broken(program: str, words: tuple[str, ...]) -> None:
    done = Program(program, BROKEN)(*words, "--nonsense")

    assert (done.code, done.out) == (2, "")
    assert "--nonsense" in done.err


@pytest.mark.parametrize("words", sorted({words[:-1] for words in EVERY}), ids=" ".join)
def test_a28_an_unknown_command_ends_with_2_even_where_the_app_is_broken(words: tuple[str, ...]) -> None:
    done = Program("celery-saga", BROKEN)(*words, "nonsense")

    assert (done.code, done.out) == (2, "")


@pytest.mark.parametrize("words", [words for words in EVERY if way_of(words).missing], ids=" ".join)
@pytest.mark.parametrize("json_too", [False, True], ids=["text", "json"])
def test_a28_what_is_missing_ends_with_1_and_its_code_first(words: tuple[str, ...], json_too: bool, runs: Runs) -> None:
    given = way_of(words).about(dict.fromkeys(KINDS, "00000000-0000-4000-8000-000000000000"))

    done = runs.program(*words, *given, *(["--json"] if json_too else []))

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"{way_of(words).missing}: ")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("words", [words for words in EVERY if not way_of(words).serves], ids=" ".join)
def test_a28_success_ends_with_0_and_stdout_is_json(words: tuple[str, ...], runs: Runs) -> None:
    way = way_of(words)

    done = runs.program(*words, *way.about(runs.named(way)), "--json")

    assert done.code in way.codes, done
    assert (done.err == "") is (done.code == 0), done
    assert all(isinstance(document, dict) for document in _documents(done)), done


def _documents(done: Done) -> list[Any]:
    """One document, or one a line."""
    try:
        return [done.document]
    except ValueError:
        return done.lines


@pytest.mark.parametrize("words", [words for words in EVERY if way_of(words).serves], ids=" ".join)
def test_a28_what_serves_ends_with_0_when_it_is_told_to(words: tuple[str, ...], runs: Runs) -> None:
    process = runs.program.start(*words, *way_of(words).words, "--json")
    try:
        _until_it_works(process, words, runs)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()

    assert process.returncode == 0
    assert all(isinstance(json.loads(line), dict) for line in out.splitlines())


def _until_it_works(process: subprocess.Popen[str], words: tuple[str, ...], runs: Runs) -> None:
    """It has told where it listens, or is seen to be alive."""
    assert process.stdout is not None
    assert process.stderr is not None
    if words == ("api",):
        assert json.loads(process.stdout.readline())
        return
    if words == ("consume",):
        assert any("consuming" in line for line in process.stderr)
        return
    store = open_store(runs.program.database_url)
    try:
        for _ in pauses_s(60):
            if process.pid in {row["pid"] for row in store.sweepers()}:
                return
    finally:
        store.close()
    raise AssertionError("it did not sweep within a minute")
