"""Executes the Python blocks of one page in a process of its own: `python -m tests.docs.page README.md`.

The blocks of a page share a module, as if they were one file. Nothing comes before the first of them: what they need is
on the page. A line `expression  # -> text` claims what the expression's repr or text is; a line
`expression  # raises Name: text` claims an exception whose text has that in it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.docs.blocks import ROOT, Block, program

_CLAIM = re.compile(r"^(?P<expression>\S.*?)\s+# (?P<verb>->|raises) (?P<text>.+)$")
_ASSIGNED = re.compile(r"^\w+ = ")


class Untrue(AssertionError):
    """A page claims something that is not so."""


def run(page: Path, found: list[Block]) -> int:
    """Execute blocks one after the other; how many claims were true.

    Raises:
        Untrue: a claim was not.
    """
    module = ModuleType("page")
    sys.modules["page"] = module
    claims = 0
    for block in found:
        # Claims on assignments hold after them; so the block is executed up to each claim.
        code: list[str] = []
        for offset, line in enumerate(block.text.splitlines()):
            claim = _CLAIM.match(line)
            if claim is None:
                code.append(line)
                continue
            _execute(module, page, code, block.line + offset - len(code))
            code = []
            _hold(module, page, claim, block.line + offset)
            claims += 1
        _execute(module, page, code, block.line + len(block.text.splitlines()) - len(code))
    return claims


def _execute(module: ModuleType, page: Path, code: list[str], line: int) -> None:
    if code:
        exec(compile("\n" * (line - 1) + "\n".join(code), str(page), "exec", dont_inherit=True), module.__dict__)


def _hold(module: ModuleType, page: Path, claim: re.Match[str], line: int) -> None:
    where, expression, text = f"{page.name}:{line}: {claim['expression']}", claim["expression"], claim["text"].strip()
    source = compile("\n" * (line - 1) + expression, str(page), "eval", dont_inherit=True)
    if claim["verb"] == "->":
        value: Any = eval(source, module.__dict__)
        if text not in {repr(value), str(value)}:
            raise Untrue(f"{where} is {value!r}, not {text}")
        return
    name, _, part = text.partition(": ")
    try:
        value = eval(source, module.__dict__)
    except Exception as error:
        if name not in {cls.__name__ for cls in type(error).__mro__} or part not in str(error):
            raise Untrue(f"{where} raises {error!r}, not {text}") from error
    else:
        raise Untrue(f"{where} is {value!r}, and does not raise {text}")


def main(name: str) -> None:
    """Execute a page, and print how many blocks and claims it has."""
    page = ROOT / name
    found = program(page)
    print(len(found), run(page, found))


if __name__ == "__main__":
    main(sys.argv[1])
