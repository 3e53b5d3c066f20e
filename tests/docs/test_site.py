"""The site is built without a warning; its navigation has all pages, and its references have all names."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from inspect import isroutine
from pathlib import Path

import click
import pytest
from sqlalchemy.dialects import postgresql

from celery_saga.cli.standalone import cli
from celery_saga.http.openapi import document
from celery_saga.store.schema import Schema
from celery_saga.store.types import Note, Payload
from tests.docs.blocks import ROOT, rows

DOCS = ROOT / "docs"
API = (DOCS / "api.rst").read_text()
MODULES = ("celery_saga", "celery_saga.testing", "celery_saga.http", "contrib_django.api")


@pytest.mark.timeout(240)
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """Reading, resolving and linking every page, the docstrings included, without writing the HTML."""
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs", "-b", "dummy", ".", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.parametrize("module", MODULES)
def test_the_page_of_the_api_has_every_public_name(module: str) -> None:
    named = _documented(module)

    assert set(import_module(module).__all__) - named == set()


def test_every_public_name_and_method_has_a_docstring() -> None:
    missing = []
    for module in MODULES:
        for name in import_module(module).__all__:
            found = getattr(import_module(module), name)
            if isinstance(found, type):
                members = [each for each in dir(found) if not each.startswith("_")]
                own = [(each, getattr(found, each)) for each in members]
                missing += [f"{module}.{name}.{each}" for each, value in own if _lacks(found, each, value)]
            if (isinstance(found, type) or isroutine(found)) and not (found.__doc__ or "").strip():
                missing.append(f"{module}.{name}")
    assert missing == []


def _lacks(cls: type, name: str, value: object) -> bool:
    home = next((base for base in cls.__mro__ if name in vars(base)), cls)
    ours = home.__module__.startswith("celery_saga")
    return ours and (callable(value) or isinstance(value, property)) and not (value.__doc__ or "").strip()


def _documented(module: str) -> set[str]:
    """Names of the directives below `currentmodule` of this module."""
    parts = re.split(r"^\.\. currentmodule:: (\S+)$", API, flags=re.M)
    texts = [text for name, text in zip(parts[1::2], parts[2::2], strict=True) if name == module]
    assert texts
    return {name for text in texts for name in re.findall(r"^\.\. auto\w+:: ([\w.]+)$", text, re.M)}


@pytest.mark.parametrize("table", Schema().metadata.sorted_tables, ids=lambda table: table.name)
def test_the_page_of_tables_has_each_column_with_its_type(table: object) -> None:
    section = re.search(rf"^## {table.name}\n(.*?)(?=^## |\Z)", (DOCS / "tables.md").read_text(), re.M | re.S)
    assert section is not None
    told = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+) \|$", section[1], re.M)

    assert [(name, kind) for name, kind, _ in told] == [(column.name, _kind(column)) for column in table.columns]
    sealed = {name for name, _, meaning in told if "*(sealed)*" in meaning}
    assert sealed == {column.name for column in table.columns if isinstance(column.type, (Payload, Note))}


def _kind(column: object) -> str:
    kind = column.type.compile(dialect=postgresql.dialect()).partition(" COLLATE")[0].lower()
    return kind.replace("timestamp with time zone", "timestamptz") + (" or NULL" if column.nullable else "")


def test_the_page_of_tables_has_no_other() -> None:
    assert set(re.findall(r"^## (\w+)$", (DOCS / "tables.md").read_text(), re.M)) == set(Schema().metadata.tables)


def test_the_generated_references_have_every_command_with_its_options_and_every_route() -> None:
    sys.path.insert(0, str(DOCS))
    try:
        commands, served = (import_module(f"_site.{name}").reference() for name in ("commands", "served"))
    finally:
        sys.path.remove(str(DOCS))

    for name in cli.list_commands(click.Context(cli)):
        command = cli.get_command(click.Context(cli), name)
        section = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", commands, re.M | re.S)
        assert section is not None, name
        assert command is not None
        options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
        assert [each.opts[0] for each in options if each.opts[0] not in section[1]] == []
    paths = document("/")["paths"]
    routes = {f"{verb.upper()} {path}" for path, verbs in paths.items() for verb in verbs if verb != "parameters"}
    assert set(re.findall(r"^### (\S+ /\S*)$", served, re.M)) == routes


def test_the_navigation_has_every_page_once() -> None:
    sys.path.insert(0, str(DOCS))
    try:
        navigation = import_module("_site.navigation")
    finally:
        sys.path.remove(str(DOCS))
    named = [page for _, pages in navigation.sections() for page in pages]
    there = {path.stem for ending in ("md", "rst") for path in DOCS.glob(f"*.{ending}")} - {"index"}

    assert sorted(named) == sorted(there)
    assert "More" not in dict(navigation.sections()), "a page has no place in docs/_site/navigation.py"


def test_the_alarms_of_the_runbook_are_lines_of_doctor_and_reasons_to_park() -> None:
    page = (DOCS / "runbook.md").read_text()
    source = (ROOT / "celery_saga" / "cli" / "examination.py").read_text()
    titles = set(re.findall(r'report\.tell\(\s*"([\w -]+)"', source))
    reasons = {word for row in rows(DOCS / "runbook.md", "reason") for word in re.findall(r"`(\w+)`", row[0])}

    assert titles
    assert {title for title in titles if f"\n## {title}" not in page} == set()
    assert reasons == {row[0].strip("`") for row in rows(DOCS / "operations.md", "reason")}
