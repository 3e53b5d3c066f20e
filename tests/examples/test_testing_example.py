"""The example of how to test sagas, run as its readers would."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.docs.blocks import ROOT

HOME = ROOT / "examples" / "testing"


def test_the_suite_of_the_example_passes_without_any_server() -> None:
    # The plug-in is named, so that this does not hang on how the distribution is installed here.
    words = [sys.executable, "-m", "pytest", "-q", "-p", "celery_saga.testing.plugin", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}

    done = subprocess.run(
        [*words, "--rootdir", str(HOME), "-c", os.devnull],
        cwd=HOME,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 passed" in done.stdout
