"""Reads pages: their fenced blocks, headings, links and tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md")))

NOT_RUN = "not run: "
"""What a mark begins with above a block that no test executes; the reason follows, and is one of a short list."""

_FENCE = re.compile(r"^(?P<ticks>```+)(?P<language>\w*)\s*$")
_FILE = re.compile(r"^`([\w./-]+\.\w+)`:?$")
_MARK = re.compile(r"^<!-- (.+) -->$")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.M)


@dataclass(frozen=True)
class Block:
    """One fenced block.

    Args:
        language: what stands behind the opening fence.
        text: between the fences.
        line: number of its first line in the page, from 1.
        file: the path that stands alone, between backticks, above it: what is shown is that file.
        mark: what a comment directly above it says, as in `<!-- terminal 2 -->`.
    """

    language: str
    text: str
    line: int
    file: str | None = None
    mark: str = ""


def name_of(page: Path) -> str:
    """The page as readers write it."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, *languages: str) -> list[Block]:
    """The fenced blocks of a page, in order; only of these languages where some are given."""
    found: list[Block] = []
    inside: tuple[str, str, int] | None = None
    above = ""
    lines: list[str] = []
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        if inside is None:
            fence = _FENCE.match(line)
            if fence is not None:
                inside, lines = (fence["ticks"], fence["language"], number + 1), []
            elif line.strip():
                above = line.strip()
        elif line.strip() == inside[0]:
            found.append(_block(inside, lines, above))
            inside, above = None, ""
        else:
            lines.append(line)
    assert inside is None, f"{name_of(page)}: the block at line {inside[2] - 1} has no end"
    return [block for block in found if not languages or block.language in languages]


def _block(inside: tuple[str, str, int], lines: list[str], above: str) -> Block:
    file, mark = _FILE.match(above), _MARK.match(above)
    text = "\n".join(lines) + "\n"
    return Block(inside[1], text, inside[2], file[1] if file else None, mark[1] if mark else "")


def program(page: Path) -> list[Block]:
    """The Python of a page that is one program: neither files of a project, nor said not to run."""
    return [block for block in blocks(page, "python") if block.file is None and not block.mark.startswith(NOT_RUN)]


def prose(page: Path) -> str:
    """The text outside of fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)


def links(page: Path) -> list[str]:
    """Targets of its links."""
    return _LINK.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """What `#...` of a link to the page may say."""
    headings = _HEADING.findall(prose(page))
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def rows(page: Path, first_column: str) -> list[list[str]]:
    """Cells of each row of the tables whose first column has this heading; a table ends with the first other line."""
    found: list[list[str]] = []
    is_in = False
    for line in prose(page).splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            is_in = False
        elif cells[0] == first_column:
            is_in = True
        elif is_in and set(cells[0]) - set("-: "):
            found.append(cells)
    return found
