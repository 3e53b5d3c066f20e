"""The example of Prometheus: its worker is scraped, and tells what its page says."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.docs.blocks import blocks
from tests.servers import fresh_postgresql_database, fresh_redis_place
from tests.workers import ROOT, Worker, wait_until

pytestmark = pytest.mark.servers

HOME = ROOT / "examples" / "prometheus"


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def _series(text: str) -> set[str]:
    """Names, labels and values, without the label that names the scope."""
    return {
        re.sub(r'otel_scope_\w+="[^"]*",?', "", line).replace(",}", "}").replace("{}", "") for line in text.splitlines()
    }


def test_the_worker_of_the_example_tells_what_its_page_says(tmp_path: Path) -> None:
    port = _free_port()
    with fresh_postgresql_database() as database, fresh_redis_place() as redis:
        paths = os.pathsep.join([str(ROOT), str(HOME)])
        own = {"SHOP_BROKER_URL": redis.url, "SHOP_DATABASE_URL": database, "SHOP_METRICS_PORT": str(port)}
        environment = {**own, "PYTHONPATH": paths, "C_FORCE_ROOT": "1"}

        def typed(*words: str) -> str:
            done = subprocess.run(
                [sys.executable, *words],
                cwd=tmp_path,
                env={**os.environ, **environment},
                capture_output=True,
                text=True,
                timeout=90,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        typed("-m", "celery", "-A", "shop", "saga", "migrate")
        with Worker("shop", environment, pool="threads"):
            assert "o1: completed" in typed(str(HOME / "order.py"))
            url = f"http://127.0.0.1:{port}/metrics"
            expected = set(blocks(HOME / "README.md", "text")[0].text.splitlines())
            found: set[str] = set()

            def is_told() -> bool:
                with urllib.request.urlopen(url, timeout=5) as answer:
                    found.update(_series(answer.read().decode()))
                return expected <= found

            wait_until(is_told, what=f"{sorted(expected)}")
    assert any(line.startswith("saga_wakeup_overdue_seconds") for line in found)
    assert any(line.startswith("saga_step_duration_seconds_bucket") for line in found)
