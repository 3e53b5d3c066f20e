"""The Python code of README and docs runs, and does what the page says of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.docs.blocks import NOT_RUN, PAGES, ROOT, Block, blocks, name_of, program
from tests.docs.page import Untrue, run

WITH_CODE = [page for page in PAGES if program(page)]


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_the_code_of_a_page_does_what_the_page_says(page: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.docs.page", name_of(page)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    assert int(done.stdout.split()[0]) == len(program(page))


def test_the_pages_that_teach_have_code() -> None:
    assert {"README.md", "docs/concepts.md", "docs/writing-sagas.md"} <= {name_of(page) for page in WITH_CODE}


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_the_code_of_a_page_is_a_file_that_python_runs(page: Path, tmp_path: Path) -> None:
    """Copied literally, but for the lines that are said to raise; nothing comes before the code."""
    lines = [line for block in program(page) for line in block.text.splitlines()]
    copy = tmp_path / "copied.py"
    copy.write_text("\n".join(line for line in lines if " # raises " not in line) + "\n")

    done = subprocess.run(
        [sys.executable, copy.name],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    assert [path.name for path in tmp_path.iterdir()] == [copy.name]


def test_every_block_says_what_it_is() -> None:
    known = {"python", "sh", "console", "text", "diff", "mermaid"}
    wrong = [f"{name_of(page)}:{block.line}" for page in PAGES for block in blocks(page) if block.language not in known]

    assert wrong == []


FOLLOWED = {"docs/tutorial.md", "docs/tutorial-django.md"}
"""Pages that a test follows to the letter: their files are written, their commands typed."""
REASONS = {
    "needs a Django project": 20,
    "needs Flower": 5,
    "needs a collector of traces": 5,
    "needs processes of servers": 2,
}
"""Why a block is executed by no test of pages, and at most how many blocks say so."""


def test_only_pages_that_are_followed_show_files_of_a_project() -> None:
    with_files = {name_of(page) for page in PAGES for block in blocks(page) if block.file is not None}

    assert with_files <= FOLLOWED


def test_a_block_that_is_not_run_says_why_by_one_of_a_few_reasons() -> None:
    said = [block.mark for page in PAGES for block in blocks(page) if block.mark.startswith(NOT_RUN)]
    counts = Counter(mark.removeprefix(NOT_RUN) for mark in said)

    assert {reason: count for reason, count in counts.items() if count > REASONS.get(reason, 0)} == {}


@pytest.mark.parametrize(
    "text",
    [
        "1 + 1  # -> 3\n",
        "x = 1\nx  # raises ValueError\n",
        "int('a')  # raises KeyError\n",
        "[][0]  # raises IndexError: none\n",
    ],
)
def test_a_claim_that_is_not_so_is_found(text: str) -> None:
    with pytest.raises(Untrue):
        run(Path("page.md"), [Block("python", text, 10)])


def test_claims_that_are_so_are_counted() -> None:
    text = "x = 1\nx + 1  # -> 2\nint('a')  # raises ValueError: invalid literal\n'a'  # -> a\n"

    assert run(Path("page.md"), [Block("python", text, 1)]) == 3
