"""Writes the table of errors of docs/errors.md from the code: `python -m tests.docs.error_table`."""

from __future__ import annotations

from pathlib import Path

from celery_saga import errors
from tests.docs.blocks import ROOT

PAGE = ROOT / "docs" / "errors.md"
BEGIN, END = "<!-- errors -->\n", "<!-- /errors -->\n"


def table() -> str:
    """One row for each error: name, code, HTTP status, meaning, in the order of `celery_saga.errors`."""
    lines = ["| error | code | HTTP | also a | meaning |", "|---|---|---|---|---|"]
    for name in errors.__all__:
        cls = getattr(errors, name)
        builtin = [base.__name__ for base in cls.__mro__[1:] if base.__module__ == "builtins"]
        also = next((base for base in builtin if base not in {"Exception", "BaseException", "object"}), "")
        meaning = (cls.__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ")
        lines.append(f"| `{name}` | `{cls.code}` | {cls.http_status} | {f'`{also}`' if also else ''} | {meaning} |")
    return "\n".join(lines) + "\n"


def with_table(text: str) -> str:
    """The page with the table as it has to be."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + "\n" + table() + "\n" + END + rest.partition(END)[2]


def main(page: Path = PAGE) -> None:
    """Write the table into the page."""
    page.write_text(with_table(page.read_text()))


if __name__ == "__main__":
    main()
