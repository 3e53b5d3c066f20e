"""The other distribution that installs `celery_saga` is refused, by the real import system."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.architecture.tree import ROOT


def test_the_other_distribution_in_the_environment_is_an_import_error_with_the_remedy(tmp_path: Path) -> None:
    _install(tmp_path, "celery-saga", "0.1.1")

    done = _import_beside(tmp_path)

    assert done.returncode == 1
    last_line = done.stderr.strip().splitlines()[-1]
    assert last_line.startswith("ImportError: celery_saga: the distribution 'celery-saga' (0.1.1)")
    assert "pip uninstall celery-saga" in last_line
    assert "--force-reinstall --no-deps celery-durable-saga" in last_line


def test_its_underscored_spelling_is_recognised(tmp_path: Path) -> None:
    _install(tmp_path, "celery_saga", "0.1.1")

    assert "ImportError" in _import_beside(tmp_path).stderr


def test_our_own_and_like_named_distributions_are_accepted(tmp_path: Path) -> None:
    for name in ("celery-durable-saga", "celery-saga-extras", "celery"):
        _install(tmp_path, name, "0.1.0")

    done = _import_beside(tmp_path)

    assert (done.returncode, done.stdout.strip()) == (0, "imported"), done.stderr


def _install(directory: Path, name: str, version: str) -> None:
    """What an installer leaves in site-packages for a distribution."""
    info = directory / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "INSTALLER").write_text("pip\n")
    (info / "RECORD").write_text("")


def _import_beside(directory: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), str(directory)])
    return subprocess.run(
        [sys.executable, "-c", "import celery_saga; print('imported')"],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
