"""The plug-in in a suite of its own that knows pytest-celery alone, in two processes, over both brokers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300)]
SUITE = """
def test_nodes_do_what_containers_do(celery_setup, celery_saga_postgres):
    worker, broker = celery_setup.worker, celery_setup.broker
    assert celery_setup.ready(ping=True, control=True, docker=True)
    assert len(celery_setup) == 3
    assert worker.hostname() in worker.logs()
    assert worker.container.exec_run("python -c 'print(1)'") == (0, b"1\\n")
    assert worker.container.server.pid in {each["pid"] for each in worker.get_running_processes_info(["pid"])}
    assert b"app = Celery" in worker.container.get_files("app.py")["app.py"]
    broker.kill()
    assert broker.container.status == "exited"
    broker.restart()
    assert celery_setup.ready(ping=True)
    worker.kill("SIGTERM")
    worker.assert_log_exists("Warm shutdown")
    assert celery_saga_postgres.config()["url"].startswith("postgresql+psycopg2://")
"""


def test_a_suite_of_pytest_celery_needs_one_line_for_local_nodes(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["celery_saga.testing.local_nodes"]\n')
    (tmp_path / "test_of_a_user.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    words = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}

    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
