"""A real `celery beat` as a subprocess."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.workers import ROOT


@contextmanager
def beating(app: str, environment: Mapping[str, str], *options: str) -> Iterator[None]:
    """Beats while the block runs; its log is printed if the block fails."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", app, "beat", "--loglevel", "INFO", "--pidfile=", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **environment},
        cwd=ROOT,
    )
    failed = True
    try:
        yield
        failed = False
    finally:
        process.terminate()
        told, _ = process.communicate(timeout=20)
        if failed:
            print(told[-4000:])
