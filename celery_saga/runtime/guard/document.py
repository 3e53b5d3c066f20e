"""Writes the list of codes as a page of the documentation."""

from __future__ import annotations

import sys

from celery_saga.runtime.guard.finding import Code, Level
from celery_saga.runtime.guard.table import CHECK_FAILED, TOPICS

__all__ = ["entry", "page"]

_HEAD = """\
# What `celery saga check` finds

Each worker runs these checks once it is ready and logs what it finds, in the logger
`celery_saga.check` and at the finding's level; `celery -A proj saga check` runs them from
anywhere. Codes are stable: a finding can be looked up, allowed or alerted on by its code.
Each question to a server takes at most 2 seconds; a server that is down is a finding.

| level | meaning |
|---|---|
| error | sagas do not work, or a guarantee does not hold |
| warning | it works, but something dangerous or slow can happen |
| info | worth knowing, or cannot be seen from here |

Words in braces are filled in with what was found.
This page is written by `python -m celery_saga.runtime.guard.document > docs/checks.md`.
"""


class _Kept(dict[str, "_Place"]):
    def __missing__(self, key: str) -> _Place:
        return _Place(key)


class _Place(str):
    def __format__(self, spec: str) -> str:
        return "{" + self + "}"

    def __repr__(self) -> str:
        return "{" + self + "}"


def page() -> str:
    """The whole page, in Markdown, ending with a line break."""
    topics: list[tuple[str, tuple[Code, ...]]] = [(t, m.CODES) for t, m in TOPICS]
    topics.append(("The checks themselves", (CHECK_FAILED,)))
    parts = [_HEAD]
    for title, codes in topics:
        parts.append(f"\n## {title}\n")
        parts.extend(entry(code) for code in codes)
    return "".join(parts)


def entry(code: Code, prefix: str = "") -> str:
    """A code with its texts, as a part of a page."""
    sentence, remedy = (_plain(text) for text in (code.sentence, code.remedy))
    level = Level(code.level).value
    return f"\n### {prefix}{code.name}\n\n*{level}*: {sentence}\n\nDo: {remedy}\n"


def _plain(template: str) -> str:
    # "{limit_s:g}" becomes "{limit_s}", "{{" becomes "{"
    return template.format_map(_Kept())


if __name__ == "__main__":
    sys.stdout.write(page())
