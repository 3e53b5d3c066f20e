"""The tutorial, followed to the letter by a newcomer: a fresh virtual environment, a real broker and real workers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks
from tests.docs.follow import counted, follow, pattern_of, typed
from tests.docs.terminals import Terminal, newcomers_environment
from tests.servers import PrivateRedis

NEW_FILES = {
    "tutorial.md": ["shop/sagas.py", "test_checkout.py"],
    "tutorial-django.md": ["orders/sagas.py"],
}
"""What is written after the project has been shown as it was, by page."""
MOST_LINES = 15


def checkout_of(target: Path) -> None:
    """What git has of the project, and what it would: nothing is built in the tree."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    wanted = ("celery_saga/", "contrib_django/", "setup", "pyproject", "README")
    for name in filter(None, listed.stdout.split("\0")):
        if name.startswith(wanted) and (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)


@pytest.mark.servers
@pytest.mark.timeout(480)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.heavy) if "django" in name else name for name in NEW_FILES]
)
def test_a_newcomer_who_does_what_the_tutorial_says_sees_what_it_shows(
    name: str, private_redis: PrivateRedis, tmp_path: Path
) -> None:
    checkout_of(tmp_path / "celery-durable-saga")
    environment = newcomers_environment(tmp_path, Path(sys.base_prefix) / "bin")
    environment["SHOP_BROKER_URL"] = private_redis.url

    done = follow(ROOT / "docs" / name, tmp_path / "shop-project", lambda: Terminal(tmp_path, environment))

    assert 0 < counted(done.changed) <= MOST_LINES
    assert not [path for path in done.changed if path.endswith("tasks.py")]
    assert done.files[-len(NEW_FILES[name]) :] == NEW_FILES[name]
    assert len(done.commands) > 10


@pytest.mark.parametrize("name", NEW_FILES)
def test_a_tutorial_says_how_many_lines_change(name: str) -> None:
    page = ROOT / "docs" / name
    lines = [line for block in blocks(page, "diff") for line in block.text.splitlines()]
    changed = [line for line in lines if line[:1] in {"+", "-"} and line[1:].strip()]

    assert len(changed) == 11
    assert "Eleven lines" in page.read_text()


def test_commands_and_what_they_print_are_told_apart() -> None:
    told = list(typed("$ one\nprinted\n\nmore\n$ two\n^C\n"))

    assert told == [("one", ["printed", "", "more"]), ("two", []), ("^C", [])]


@pytest.mark.parametrize(
    ("shown", "printed", "is_so"),
    [
        (["a …"], "a b", True),
        (["a"], "a b", False),
        (["…", "z"], "x\ny\nz", True),
        (["a", "…"], "a\nb\nc", True),
        (["a", "…"], "b", False),
        ([], "", True),
        ([], "noise", False),
    ],
)
def test_what_is_printed_is_compared(shown: list[str], printed: str, is_so: bool) -> None:
    import re

    assert (re.fullmatch(pattern_of(shown), printed) is not None) is is_so
