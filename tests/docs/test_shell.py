"""Command lines of the pages are understood by the commands, with their arguments and the values of their options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from celery_saga.cli.standalone import cli
from tests.docs.blocks import NOT_RUN, PAGES, ROOT, blocks, name_of

OURS = re.compile(r"celery(?: -A \w+)? saga (.+)|celery-saga(?: -A \w+)? (.+)|python manage\.py saga (.+)")
OTHERS = {
    "curl": "asks a server that another test starts",
    "celery -A shop worker": "is started by the tests of the examples",
    "celery -A shop beat": "is started by the tests of schedules",
    "celery -A proj flower": "is started by the tests of Flower",
    "python manage.py": "is a command of Django",
    "pip install": "is done by the tests of the tutorials",
    "python -m tests.bench": "is done by tests/bench/test_command.py",
    "python -m tests.chaos": "is done by tests/chaos/test_chaos.py",
}
"""What else a page may have one type outside of tutorials and examples, and why the tests of pages do not do it."""


def typed(page: Path) -> Iterator[str]:
    """The command lines of a page's blocks, each on one line."""
    for block in blocks(page, "console", "sh"):
        if block.mark.startswith(NOT_RUN):
            continue
        text = block.text.replace("\\\n", " ")
        for line in text.splitlines():
            if line.startswith("$ "):
                yield line.removeprefix("$ ")
            elif block.language == "sh" and line.strip() and not line.startswith("#"):
                yield line


def ours(line: str) -> str | None:
    """The words behind `saga`; None: the line is no command of ours."""
    found = OURS.fullmatch(line)
    return None if found is None else next(filter(None, found.groups()))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_of_ours_are_understood(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.json").write_text("{}")  # what an export leaves
    for line in typed(page):
        words = ours(line)
        if words is None:
            continue
        name, *rest = shlex.split(words, comments=True)
        command = cli.get_command(click.Context(cli), name)
        assert command is not None, line
        _parse(command, [word for word in rest if word not in {"&", "|"}], line)


def _parse(command: click.Command, rest: list[str], line: str) -> None:
    if isinstance(command, click.Group):
        inner = command.commands.get(rest[0]) if rest else None
        assert inner is not None, line
        command, rest = inner, rest[1:]
    try:
        with command.make_context(command.name or "", list(rest)):
            pass
    except click.UsageError as error:
        pytest.fail(f"{line}: {error.format_message()}")


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent == ROOT / "docs"], ids=name_of)
def test_a_page_has_nothing_else_typed_than_what_some_test_does(page: Path) -> None:
    if any(block.file is not None for block in blocks(page)):
        return  # a tutorial, which is followed to the letter
    foreign = [line for line in typed(page) if ours(line) is None]

    assert [line for line in foreign if not line.startswith(tuple(OTHERS))] == []
