"""The example of children prints what its page says."""

from __future__ import annotations

import subprocess
import sys

from tests.docs.blocks import ROOT, blocks

EXAMPLE = ROOT / "examples" / "children"


def test_the_example_prints_what_its_page_says() -> None:
    [block] = blocks(EXAMPLE / "README.md", "console")
    command, _, printed = block.text.partition("\n")
    assert command == "$ python orders.py"

    done = subprocess.run(
        [sys.executable, "-W", "error", "orders.py"],
        cwd=EXAMPLE,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.strip() == printed.strip()
