"""The page about canvases lists every option as the code treats it, and the example prints what it says."""

from __future__ import annotations

import re
import subprocess
import sys

from celery_saga.definition.canvas.refusals import CARRIED, LEFT_OUT, REFUSED
from tests.docs.blocks import ROOT, blocks, rows

PAGE = ROOT / "docs" / "canvases.md"
EXAMPLE = ROOT / "examples" / "canvases"


def test_the_page_lists_every_option_as_the_code_treats_it() -> None:
    listed = [(re.findall(r"`(\w+)`", row[0]), row[1]) for row in rows(PAGE, "option")]

    def named(word: str) -> list[str]:
        return [name for names, treated in listed if treated.startswith(word) for name in names]

    assert named("go with") == list(CARRIED)
    assert named("left out") == list(LEFT_OUT)
    assert sorted(named("refused")) == sorted(REFUSED)


def test_the_page_says_what_to_write_instead_as_the_error_does() -> None:
    plain = {name: row[1].replace("`", "") for row in rows(PAGE, "option") for name in re.findall(r"`(\w+)`", row[0])}
    different = {
        name
        for name, remedy in REFUSED.items()
        if name not in {"chord", "chain", "link_chord"} and remedy.split(":")[0] not in plain[name]
    }

    assert different == set()


def test_the_example_prints_what_it_says() -> None:
    (console,) = blocks(EXAMPLE / "README.md", "console")
    command, said = console.text.split("\n", 1)
    done = subprocess.run(
        [sys.executable, *command.split()[2:]], cwd=EXAMPLE, capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == said
