"""The example of inline steps, run as its reader would."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import blocks
from tests.examples.project import SCRIPTS
from tests.servers import PrivateRedis
from tests.workers import ROOT, Worker

HOME = ROOT / "examples" / "inline"


class ScriptWorker(Worker):
    """`celery -A shop worker`, in a folder."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        super().__init__("shop", environment)
        self._words = ["env", "-C", str(folder), "-u", "PYTHONPATH", str(SCRIPTS / "celery"), *self._words[3:]]


@pytest.mark.servers
def test_the_example_does_what_its_page_says(private_redis: PrivateRedis, postgresql_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "inline"
    shutil.copytree(HOME, folder)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"SHOP_BROKER_URL": private_redis.url, "SHOP_DATABASE_URL": postgresql_url}

    def typed(line: str) -> str:
        words = line.removeprefix("$ ").split()
        program = [sys.executable] if words[0] == "python" else [str(SCRIPTS / words[0])]
        done = subprocess.run(
            [*program, *words[1:]], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    setting_up, using = (block.text.splitlines() for block in blocks(HOME / "README.md", "console"))
    typed(setting_up[2])
    with ScriptWorker(folder, environment):
        told = typed(using[0])

    assert told == blocks(HOME / "README.md", "text")[0].text
