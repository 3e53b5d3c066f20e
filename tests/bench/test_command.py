"""The command that measures everything, in its shortest form: whatever it measures can still be measured."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import kept, plots
from tests.bench.contestants.inserts import Inserts
from tests.bench.contestants.peers import Absurd, Dbos
from tests.bench.measures import MEASURES
from tests.servers import require
from tests.workers import ROOT

pytestmark = [pytest.mark.servers, pytest.mark.heavy]


@pytest.mark.timeout(1800)
def test_every_row_is_measured_or_says_why_not(tmp_path: Path) -> None:
    require("postgresql")
    require("redis")
    out = tmp_path / "measured.json"

    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--size", "tiny", "--out", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    document, outcome = kept.read(out, MEASURES)
    assert list(document["measures"]) == list(MEASURES)
    missing = [kind.name for kind in (Dbos, Absurd, Inserts) if kind.missing()]
    for row in outcome.rows:
        assert (row.figure is None) == bool(row.why_not) or row.target is None, row.measure
        assert bool(row.why_not) == any(row.measure.endswith(f"against {name}") for name in missing), row.measure
    assert {"workers", "length", "recovery", "cpu_ms"} <= outcome.curves.keys()
    text = json.dumps(document)
    assert socket.gethostname() not in text
    try:
        drawn = plots.draw(outcome.curves, tmp_path)
    except ImportError:
        return  # without the extra `bench` nothing is drawn
    assert [path.name for path in drawn] == ["workers.svg", "length.svg", "recovery.svg"]
