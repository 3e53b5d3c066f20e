"""The example of signals and tokens, run as its reader would."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.docs.blocks import blocks
from tests.workers import ROOT

HOME = ROOT / "examples" / "signals"


def test_the_example_prints_what_its_page_says() -> None:
    command, *lines = blocks(HOME / "README.md", "console")[0].text.splitlines()
    assert command == "$ python refund.py"

    done = subprocess.run(
        [sys.executable, "refund.py"],
        cwd=HOME,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines() == lines
