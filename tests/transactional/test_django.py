"""Django's ORM in the transaction of the checkpoint, and runs started in `transaction.atomic()`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.workers import ROOT

TOLD = [
    "direct ['direct 2']",
    "queued True",
    "completed ['direct 2', 'order', 'inside 2']",
    "True",
    "not found",
]


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_djangos_own_transactions_carry_steps_and_starts(
    request: pytest.FixtureRequest, tmp_path: Path, database: str
) -> None:
    url = f"sqlite:///{tmp_path}/shop.db" if database == "sqlite" else request.getfixturevalue("postgresql_url")

    done = subprocess.run(
        [sys.executable, "-m", "tests.transactional.django_shop", url],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.stdout.splitlines() == TOLD, done.stderr[-3000:]
