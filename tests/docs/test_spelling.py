"""What the pages call by name exists: settings, tables, columns, methods, errors, commands and their options."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import click
import pytest

import celery_saga
from celery_saga import errors
from celery_saga.cli.catalogue import ALSO_CALLED, COMMANDS
from celery_saga.cli.standalone import cli
from celery_saga.runtime.settings import NAMES
from celery_saga.store.schema import Schema
from celery_saga.testing import Lab
from tests.docs.blocks import PAGES as EVERY_PAGE
from tests.docs.blocks import ROOT, name_of, prose

PAGES = [page for page in EVERY_PAGE if page.parent.name != "adr"]  # decisions keep the names of their day
SETTINGS = {f"saga_{name}" for name in NAMES}
TABLES = set(Schema().metadata.tables)
OF = {
    "run": (celery_saga.Run, celery_saga.RunHandle),
    "handle": (celery_saga.RunHandle,),
    "app.saga": (celery_saga.CelerySaga,),
    "current_step": (type(celery_saga.current_step),),
    "lab": (Lab,),
}
"""What a page calls by these names, of which the members are looked up."""


def spans(page: Path) -> list[str]:
    """What stands between backticks outside of blocks."""
    return [" ".join(found.split()) for found in re.findall(r"`([^`]+)`", prose(page))]


@cache
def words_of_the_code() -> set[str]:
    """Words like `saga_reason` that stand somewhere in the packages: fields of log records, names of metrics."""
    files = [path for name in ("celery_saga", "contrib_django") for path in (ROOT / name).rglob("*.py")]
    texts = [path.read_text() for path in files]
    metrics = {name.replace(".", "_") for text in texts for name in re.findall(r'"(saga\.[a-z_.]+)"', text)}
    exported = {f"{name}{ending}" for name in metrics for ending in ("", "_total", "_seconds")}
    return exported | {word for text in texts for word in re.findall(r"\bsaga_[a-z_]+\b", text)}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_settings_and_tables_on_a_page_exist(page: Path) -> None:
    named = {word for span in spans(page) for word in re.findall(r"(?<![\w.\"'/-])saga_[a-z_]+\b(?![\w(.])", span)}

    assert named - SETTINGS - TABLES - words_of_the_code() == set()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_methods_on_a_page_exist(page: Path) -> None:
    wrong = [
        f"{owner}.{name}"
        for owner, classes in OF.items()
        for span in spans(page)
        for name in re.findall(rf"(?<![\w.]){re.escape(owner)}\.([a-z_]+)(?:\(|$)", span)
        if not any(hasattr(cls, name) for cls in classes)
    ]

    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_errors_on_a_page_exist(page: Path) -> None:
    named = {span for span in spans(page) if re.fullmatch(r"(Signal|Payload|Schema)[A-Z]\w+", span)}

    assert named - set(errors.__all__) == set()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_in_the_text_of_a_page_exist_with_their_options(page: Path) -> None:
    wrong = []
    for span in spans(page):
        found = re.match(r"celery(?: -A \w+)? saga ([a-z][\w-]*)(.*)$|celery-saga(?: -A \w+)? ([a-z][\w-]*)(.*)$", span)
        if found is None:
            continue
        name, rest = found[1] or found[3], found[2] or found[4] or ""
        command = cli.get_command(click.Context(cli), name)
        if command is None or (name not in COMMANDS and name not in ALSO_CALLED and name != "demo"):
            wrong.append(span)
            continue
        if isinstance(command, click.Group) and rest.split():
            command = command.commands.get(rest.split()[0], command)
        known = {option for parameter in command.params for option in parameter.opts} | {"--help", "--json"}
        wrong += [span for word in re.findall(r"(?<!\S)--[\w-]+", rest) if word not in known]
    assert wrong == []
