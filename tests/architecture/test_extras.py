"""What an extra is for runs where nothing but this extra is installed."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.architecture.tree import ROOT, name_of, parsed

HELD = {"celery_saga", "contrib_django", "tests", "conftest", *sys.stdlib_module_names}


@pytest.mark.parametrize(
    ("folder", "extras"),
    [("servers", ["test"]), ("chaos", ["test"]), ("bench", ["test", "bench"])],
    ids=["servers", "chaos", "bench"],
)
def test_what_is_imported_at_once_comes_with_the_extra(folder: str, extras: list[str]) -> None:
    come, brought_by = _installed_with(extras), packages_distributions()

    missing = {
        f"{name_of(path)}: {module}"
        for path in sorted((ROOT / "tests" / folder).rglob("*.py"))
        if path.parent.name != "peers"  # a process of a contestant's own, shown as not measured where that is absent
        for module in _imported_at_once(path)
        if module not in HELD and come.isdisjoint(map(_normal, brought_by.get(module, [])))
    }

    assert missing == set()


def _imported_at_once(path: Path) -> Iterator[str]:
    """The top-level names of what a module imports when it is imported, whatever is installed."""
    for node in parsed(path).body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield (node.module or "").partition(".")[0]


def _installed_with(extras: list[str]) -> set[str]:
    """The distributions that come with these extras, and those that these need in turn."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    lines = [config["options"]["install_requires"], *(config["options.extras_require"][extra] for extra in extras)]
    open_ = [Requirement(line) for text in lines for line in text.split("\n") if line]
    found: set[tuple[str, str]] = set()
    while open_:
        needed = open_.pop()
        for extra in {"", *needed.extras}:
            if (needed.name, extra) not in found:
                found.add((needed.name, extra))
                open_ += _needs(needed.name, extra)
    return {_normal(name) for name, _ in found}


def _needs(name: str, extra: str) -> list[Requirement]:
    try:
        needed = [Requirement(line) for line in requires(name) or []]
    except PackageNotFoundError:
        return []  # of a contestant that is not installed, say
    return [each for each in needed if each.marker is None or each.marker.evaluate({"extra": extra})]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
