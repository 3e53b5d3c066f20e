"""The page that says which test covers which fault: what it names exists, and what tests say of faults is on it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
PAGE = (Path(__file__).parent / "README.md").read_text()
NUMBER = re.compile(r"\b[RB]\d{2,3}\b")
NODE = re.compile(r"`([\w/]+\.py)::(\w+)`")


@cache
def _functions(path: str) -> frozenset[str]:
    file = TESTS / path
    tree = ast.parse(file.read_text()) if file.exists() else ast.Module(body=[], type_ignores=[])
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _rows() -> dict[str, str]:
    found = re.findall(r"^\| ([RB]\d{2,3}) \|(.*)$", PAGE, re.M)
    assert [number for number, count in Counter(number for number, _ in found).items() if count > 1] == []
    return dict(found)


def test_every_row_names_a_test_that_exists() -> None:
    rows = _rows()
    assert [number for number, text in rows.items() if not NODE.search(text)] == []
    named = NODE.findall(PAGE)
    assert [f"{path}::{name}" for path, name in named if name not in _functions(path)] == []


def test_rows_come_in_order_and_none_was_dropped() -> None:
    """115 reports, whose numbers have gaps, and 20 experiments."""
    numbers = list(_rows())
    reports = [number for number in numbers if number.startswith("R")]
    experiments = [number for number in numbers if number.startswith("B")]
    assert (reports, experiments) == (sorted(reports), sorted(experiments))
    assert (len(reports), len(experiments)) == (115, 20)


def test_numbers_that_tests_mention_are_on_the_page() -> None:
    rows = _rows()
    texts = {path: path.read_text() for path in TESTS.rglob("*.py")}
    named = re.compile(r"def test_([rb]\d{2,3})_")
    mentioned = {
        number.upper()
        for text in texts.values()
        for number in [
            *named.findall(text),
            *(n for doc in re.findall(r'"""[^"]*"""', text) for n in NUMBER.findall(doc)),
        ]
    }
    assert sorted(mentioned - rows.keys()) == []
