"""The list of what a plain run keeps names tests that exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.short import KEPT, LEFT_OUT

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("path", KEPT)
def test_what_a_plain_run_keeps_exists(path: str) -> None:
    text = (ROOT / path).read_text()

    assert [name for name in KEPT[path] if f"\ndef {name.partition('[')[0]}" not in text] == []


@pytest.mark.parametrize("path", LEFT_OUT)
def test_what_a_plain_run_leaves_out_exists(path: str) -> None:
    text = (ROOT / path).read_text()

    names = [name.partition("[")[0] for name in LEFT_OUT[path] if not name.startswith("[")]
    assert [name for name in names if f"\ndef {name}" not in text] == []
