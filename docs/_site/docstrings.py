"""Docstrings of this project say code between single backticks and examples by indentation, as plain text would."""

from __future__ import annotations

import re

_SECTION = re.compile(r"^\s*(Args|Returns|Raises|Yields|Example|Examples|Source|Note):\s*$")
_STAR = re.compile(r"(?<![\\`*\w])(\*{1,2})(?=\w)")


def as_rest(app: object, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Make reStructuredText of them that means the same: a star in front of a name is a star."""
    for place, line in enumerate(lines):
        if not _SECTION.match(line):
            lines[place] = "`".join(
                part if is_code % 2 else _STAR.sub(r"\\\1", part) for is_code, part in enumerate(line.split("`"))
            )
