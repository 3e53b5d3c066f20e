"""Imports point down, the core is pure, and `import celery_saga` is light."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import celery_saga
from tests.architecture.tree import PACKAGES, ROOT, imports, modules, name_of, parsed

IMPURE = {
    *("now", "utcnow", "today", "uuid1", "uuid4"),
    *("open", "print", "input", "read_text", "read_bytes", "write_text", "write_bytes"),
}


def lint_imports(directory: Path) -> subprocess.CompletedProcess[str]:
    program = "from importlinter.cli import lint_imports_command as go; go(['--no-cache', '--no-logo'])"
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "120"},
    )


def test_every_contract_about_imports_is_kept() -> None:
    done = lint_imports(ROOT)

    assert done.returncode == 0, done.stdout + done.stderr
    kept = re.search(r"Contracts: (\d+) kept, 0 broken", done.stdout)
    assert kept is not None and int(kept[1]) >= 6, done.stdout


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("core/__init__.py", "import time", "The core has no clock"),
        ("errors.py", "import logging", "The core has no clock"),
        ("engine/__init__.py", "from sqlalchemy import text", "Only the store imports SQLAlchemy"),
        ("runtime/__init__.py", "import psycopg2", "Only the store imports SQLAlchemy"),
        ("client/__init__.py", "from kombu import Connection", "Only runtime and cli import Celery"),
        ("store/__init__.py", "import celery_saga.engine", "Imports point down only"),
        ("runtime/__init__.py", "import contrib_django.apps", "Only contrib_django knows Django"),
    ],
)
def test_a_forbidden_import_breaks_its_contract(tmp_path: Path, module: str, line: str, contract: str) -> None:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "setup.cfg", tmp_path)
    with (tmp_path / "celery_saga" / module).open("a") as file:
        file.write(f"\n{line}\n")

    done = lint_imports(tmp_path)

    assert done.returncode == 1
    assert re.search(rf"^{contract}.* BROKEN( \(\d+ ignored imports\))?$", done.stdout, re.M), done.stdout + done.stderr


def test_the_core_imports_the_standard_library_only() -> None:
    allowed = {*sys.stdlib_module_names, "celery_saga.core", "celery_saga.errors"}
    foreign = [
        f"{name_of(path)}: {name}"
        for path in modules()
        if name_of(path).startswith(("celery_saga/core/", "celery_saga/errors"))
        for name in imports(parsed(path))
        if not any(name == good or name.startswith(good + ".") for good in allowed)
    ]
    assert foreign == []


def test_the_core_reads_no_clock_draws_no_chance_and_touches_no_file() -> None:
    found = [
        f"{name_of(path)}:{node.lineno}: {called}()"
        for path in modules()
        if name_of(path).startswith("celery_saga/core/")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and (called := _name_called(node)) in IMPURE
    ]
    assert found == []


def test_no_module_goes_round_the_layers_through_the_top_of_the_package() -> None:
    found = [
        name_of(path)
        for path in modules()
        if name_of(path).startswith("celery_saga/")
        and not name_of(path).startswith("celery_saga/demo/")  # written as a user writes
        and "celery_saga" in set(imports(parsed(path)))
    ]
    assert found == []


def test_importing_the_package_loads_neither_sqlalchemy_nor_celery_nor_pydantic() -> None:
    heavy = ("sqlalchemy", "celery", "kombu", "pydantic", "psycopg2", "rich", "logging.config", "asyncio")
    program = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import celery_saga\n"
        "dir(celery_saga)\n"
        f"print(sorted((set(sys.modules) - before) & set({heavy!r})))\n"
    )

    words = [sys.executable, "-c", program]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", celery_saga.__all__)
def test_each_public_name_loads_from_its_home(name: str) -> None:
    assert getattr(celery_saga, name) is not None


def test_the_names_for_type_checkers_are_the_names_at_run_time() -> None:
    tree = parsed(Path(celery_saga.__file__))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.name: node.module for node in guarded.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }

    loaded = {name: celery_saga._HOMES.get(name, celery_saga._ERRORS) for name in celery_saga.__all__}

    assert typed == loaded


def test_every_public_error_is_listed_at_the_top() -> None:
    errors = import_module("celery_saga.errors")
    public = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception) and not name.startswith("_")
    }
    assert public - set(celery_saga.__all__) == set()


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        celery_saga.nonsense  # noqa: B018


def test_dir_shows_the_public_names_before_they_are_loaded() -> None:
    assert set(celery_saga.__all__) <= set(dir(celery_saga))


def _name_called(node: ast.Call) -> str:
    """The last word of what is called: `now` in `datetime.now()`, `open` in `open()`."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""
