"""The source files that the rules of this folder are about."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("celery_saga", "contrib_django")
PUBLISHED = (
    *("celery_saga", "contrib_django", "tests", "docs", "examples", ".ci", "changelog.d"),
    *("setup.cfg", "pyproject.toml", "tox.ini", "ruff.toml"),
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"),
)


def modules() -> list[Path]:
    """Every module of both packages but Django's migrations, in alphabetical order."""
    found = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return sorted(path for path in found if "migrations" not in path.parts)


def published_files() -> Iterator[tuple[Path, str]]:
    """Every file of the project that is text, with its text."""
    for name in PUBLISHED:
        top = ROOT / name
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and path.suffix not in {".pyc", ".png"}:
                yield path, path.read_text(encoding="utf-8")


def parsed(path: Path) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def name_of(path: Path) -> str:
    """The path as the project's readers write it."""
    return path.relative_to(ROOT).as_posix()


def imports(tree: ast.Module) -> Iterator[str]:
    """The module named by each import, wherever it stands; `from a import b` names `a`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")
