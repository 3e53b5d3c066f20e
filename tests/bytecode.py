"""Lets the processes that tests start keep what Python compiles, where this process was told to keep nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path

__all__ = ["keep_for_children"]


def keep_for_children(folder: Path, environment: MutableMapping[str, str] = os.environ) -> None:
    """Under `PYTHONDONTWRITEBYTECODE` each worker compiles the whole package anew, which is most of its start.

    Nothing is written beside the sources all the same: compiled files have a folder of their own.

    Args:
        folder: where to keep them; made when the first is written.
        environment: of the processes to come.
    """
    if sys.dont_write_bytecode and environment.pop("PYTHONDONTWRITEBYTECODE", None) is not None:
        environment.setdefault("PYTHONPYCACHEPREFIX", str(folder))
