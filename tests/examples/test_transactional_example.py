"""The example of transactions, run as its reader would."""

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

HOME = ROOT / "examples" / "transactional"
TIMEOUT_S = 60.0


class ScriptWorker(Worker):
    """`celery -A shop worker`, in a folder."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        super().__init__("shop", environment)
        self._words = ["env", "-C", str(folder), "-u", "PYTHONPATH", str(SCRIPTS / "celery"), *self._words[3:]]


@pytest.mark.servers
def test_the_example_does_what_its_page_says(private_redis: PrivateRedis, postgresql_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "transactional"
    shutil.copytree(HOME, folder)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"SHOP_BROKER_URL": private_redis.url, "SHOP_DATABASE_URL": postgresql_url}

    def typed(line: str) -> str:
        words = line.removeprefix("$ ").split()
        program = [sys.executable] if words[0] == "python" else [str(SCRIPTS / words[0])]
        done = subprocess.run(
            [*program, *words[1:]],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    setting_up, using = (block.text.splitlines() for block in blocks(HOME / "README.md", "console"))
    for line in setting_up[2:4]:
        typed(line)
    with ScriptWorker(folder, environment):
        told = [typed(line) for line in using]

    assert told[:4] == [
        "sold\n",
        "failed: there is no book left\n",
        "sold\n",
        "{'cancelled': False, 'status': 'completed'}\n",
    ]
    assert told[4] == blocks(HOME / "README.md", "text")[0].text
