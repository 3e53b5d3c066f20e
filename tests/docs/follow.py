"""A page followed to the letter: files are written, differences applied, commands typed, their output compared.

A block below a line that is only a path between backticks is that file; as `diff` it is the whole file and its changes.
A `console` block is typed: `$ ` begins a command, the lines below it are what it prints, `^C` interrupts what runs. It
goes into the first terminal unless `<!-- terminal 2 -->` stands above it. In what is printed, `…` is anything within a
line, and a line that is only `…` any number of lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.blocks import Block, blocks
from tests.docs.terminals import Terminal

_GOES_ON = re.compile(r"\bcelery -A \w+ (worker|beat)\b|\bmanage\.py runserver\b")
_ERROR = re.compile(r"^[A-Z_]+: ", re.M)


@dataclass
class Followed:
    """What was done.

    Args:
        files: paths that were written as a whole.
        changed: lines that differences took out or put in, but for empty ones, by path.
        commands: each command that was typed.
    """

    files: list[str] = field(default_factory=list)
    changed: dict[str, list[str]] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)


def follow(page: Path, project: Path, open_terminal: Callable[[], Terminal]) -> Followed:
    """Do what a page says.

    Args:
        page: the page.
        project: the folder in which its files are.
        open_terminal: opens one; it is closed here.
    """
    done = Followed()
    with ExitStack() as stack:
        terminals: dict[int, Terminal] = {}
        for block in blocks(page):
            if block.file is not None:
                _write(project / block.file, block, done)
            elif block.language == "console":
                number = int(block.mark.removeprefix("terminal ") or 1)
                if number not in terminals:
                    terminals[number] = stack.enter_context(open_terminal())
                _type(terminals[number], block, done)
            else:
                raise AssertionError(f"{page.name}:{block.line}: neither a file nor typed")
    return done


def _write(path: Path, block: Block, done: Followed) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    assert block.file is not None
    if block.language != "diff":
        assert not path.exists(), f"{block.file} is there already"
        path.write_text(block.text)
        done.files.append(block.file)
        return
    lines = block.text.splitlines()
    assert [line[1:] for line in lines if line[:1] != "+"] == path.read_text().splitlines(), f"{block.file} is another"
    path.write_text("".join(line[1:] + "\n" for line in lines if line[:1] != "-"))
    done.changed.setdefault(block.file, []).extend(x for x in lines if x[:1] in {"+", "-"} and x[1:].strip())


def _type(terminal: Terminal, block: Block, done: Followed) -> None:
    for command, shown in typed(block.text):
        if command == "^C":
            terminal.interrupt()
            continue
        done.commands.append(command)
        if _GOES_ON.search(command):
            terminal.leave_running(command, pattern_of(shown[-1:]))
            continue
        told, code = terminal.run(command)
        printed = "".join(line.rstrip() + "\n" for line in told.splitlines()).strip("\n")
        as_told = "\n".join(["--- the page says", *shown])
        assert re.fullmatch(pattern_of(shown), printed), f"$ {command}\n{printed}\n{as_told}"
        assert (code != 0) == (_ERROR.search(printed) is not None), f"$ {command}\nended with {code}:\n{printed}"


def typed(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a block with the lines that it prints."""
    for part in re.split(r"^(?=\$ |\^C$)", text, flags=re.M):
        command, *shown = part.splitlines() or [""]
        if command:
            yield command.removeprefix("$ "), shown


def pattern_of(shown: list[str]) -> str:
    """What such lines stand for."""
    parts = [r"(?:.*\n)*?" if line == "…" else re.escape(line.rstrip()).replace("…", ".*") + "\n" for line in shown]
    pattern = "".join(parts)
    return pattern + ".*" if shown[-1:] == ["…"] else pattern.removesuffix("\n")


def counted(changed: Mapping[str, list[str]]) -> int:
    """How many lines of a project were changed."""
    return sum(len(lines) for lines in changed.values())
