"""The example of a saga as data, run as its reader would: a worker without the graph, and a program that has it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from celery_saga.definition.graph.check import checked
from tests.docs.blocks import blocks
from tests.examples.project import SCRIPTS
from tests.servers import PrivateRedis
from tests.workers import ROOT, Worker

HOME = ROOT / "examples" / "graphs"
TIMEOUT_S = 60.0


class ScriptWorker(Worker):
    """`celery -A shop worker`, in a folder."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        super().__init__("shop", environment)
        self._words = ["env", "-C", str(folder), "-u", "PYTHONPATH", str(SCRIPTS / "celery"), *self._words[3:]]


def test_the_graph_of_the_example_is_good() -> None:
    assert checked((HOME / "order.json").read_text()).name == "order"


@pytest.mark.servers
def test_the_example_does_what_its_page_says(private_redis: PrivateRedis, postgresql_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "graphs"
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
    typed(setting_up[2])
    with ScriptWorker(folder, environment):
        shipped, failed, drawn, waiting, *_ = [typed(line) for line in using]
        repeated = json.loads(typed("$ python order.py o1 500 book pen"))

    assert json.loads(shipped) == repeated == {"charge": "ch-o1", "shipping": "shipped 1 x book, 1 x pen"}
    assert failed == "order:o2 failed: there is none left\n"
    assert drawn.startswith("flowchart TD\n") and "pack" in drawn and "charge!undo" in drawn
    assert waiting == "order:o3 waits for an approval\n"
