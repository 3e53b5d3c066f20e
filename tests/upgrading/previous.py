"""The package as it was: unpacked from the repository's history, where there is one."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.workers import ROOT

FIXED = "26c392ac542bfedc730d93eac725cb38483debf1"
"""What runs in flight are upgraded from. Move it on with each release, to the commit that was released."""


@dataclass(frozen=True)
class Previous:
    """An older commit.

    Args:
        folder: with its `celery_saga` in it.
        told: how people call it.
    """

    folder: Path
    told: str


def previous(folder: Path, *revisions: str) -> Previous:
    """The first of these that the repository has, unpacked; skips where it has none, as in a copy."""
    for revision in revisions:
        commit = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        if commit is None:
            continue
        packed = folder / "previous.tar"
        if _git("archive", "--output", str(packed), commit, "celery_saga") is not None:
            shutil.unpack_archive(packed, folder, filter="data")
            return Previous(folder, _git("log", "-1", "--format=%h %s", commit) or commit)
    pytest.skip(f"no history here that reaches {' or '.join(revisions)}: nothing to upgrade from")


def _git(*words: str) -> str | None:
    """What it prints; None where it fails, or is not there."""
    if shutil.which("git") is None:
        return None
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False, timeout=60)
    return None if done.returncode else done.stdout.strip()
