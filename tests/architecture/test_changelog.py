"""Each change that users notice is one well named file in `changelog.d`."""

from __future__ import annotations

import re

from tests.architecture.tree import ROOT

NAME = re.compile(r"[a-z0-9][a-z0-9-]*\.(security|removed|deprecated|added|changed|fixed)\.md")


def test_each_file_names_its_change_and_its_kind() -> None:
    names = [path.name for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md"]

    assert [name for name in names if not NAME.fullmatch(name)] == []


def test_each_change_is_told_in_at_most_four_lines() -> None:
    texts = {
        path.name: path.read_text().strip() for path in (ROOT / "changelog.d").glob("*.md") if path.name != "README.md"
    }

    assert [name for name, text in texts.items() if not 0 < len(text.splitlines()) <= 4] == []
