"""Tables, commands, links and marked lines of the pages agree with the code."""

from __future__ import annotations

import re
import subprocess
from dataclasses import fields
from pathlib import Path

import click
import pytest

from celery_saga import errors
from celery_saga.cli.arguments import REASONS
from celery_saga.cli.catalogue import COMMANDS, LazyGroup
from celery_saga.cli.standalone import cli
from celery_saga.runtime.settings import Settings, checked
from tests.docs.blocks import PAGES, ROOT, anchors, blocks, links, name_of, rows
from tests.docs.error_table import PAGE, with_table
from tests.examples.project import HOME

README = ROOT / "README.md"
SETTINGS = ROOT / "docs" / "settings.md"
UNITS = {"lease": "seconds", "sweep_interval": "seconds", "step_timeout": "seconds", "publish_timeout": "seconds"}
UNITS |= {"signal_ttl": "seconds", "max_payload_bytes": "bytes", "max_stalls": "attempts"}


def test_the_page_of_settings_has_each_with_its_default_and_unit() -> None:
    listed = {row[0].strip("`"): row for row in rows(SETTINGS, "setting")}
    actual = {f"saga_{each.name}": getattr(Settings(), each.name) for each in fields(Settings)}

    assert set(listed) == set(actual)
    assert {name: row[1].strip("`") for name, row in listed.items()} == {name: repr(actual[name]) for name in listed}
    assert {name: listed[f"saga_{name}"][2].partition(",")[0] for name in UNITS} == UNITS


def test_the_page_of_settings_has_the_least_value_of_each_number() -> None:
    listed = {row[0].strip("`").removeprefix("saga_"): row[2] for row in rows(SETTINGS, "setting")}
    told = {name: re.search(r"at least ([\d.]+)$", unit) for name, unit in listed.items()}
    least = {name: float(found[1]) for name, found in told.items() if found is not None}
    numbers = {each.name for each in fields(Settings) if re.match(r"(int|float)\b", str(each.type))}

    assert set(least) == numbers
    for name, value in least.items():
        assert checked({name: int(value) if value.is_integer() else value})
        with pytest.raises(errors.DefinitionError):
            checked({name: value - 1 if value.is_integer() else value / 2})


def test_the_settings_of_the_readme_are_rows_of_the_page() -> None:
    page = [[cell.replace("](", "](docs/") for cell in row] for row in rows(SETTINGS, "setting")]
    shown = rows(README, "setting")

    assert shown
    assert [row for row in shown if row not in page] == []


def test_the_page_of_errors_has_each_with_code_status_and_meaning() -> None:
    assert PAGE.read_text() == with_table(PAGE.read_text()), "run python -m tests.docs.error_table"
    assert {row[0].strip("`") for row in rows(PAGE, "error")} == set(errors.__all__)


def test_the_page_of_errors_has_every_code_of_the_command_line() -> None:
    sources = [path.read_text() for path in (ROOT / "celery_saga" / "cli").glob("*.py")]
    codes = {code for text in sources for code in re.findall(r'Trouble\(\s*"([A-Z_]+)"', text)}

    assert codes
    assert {code for code in codes if f"`{code}`" not in PAGE.read_text()} == set()


def test_the_page_of_operations_has_every_logger() -> None:
    code = [path.read_text() for path in (ROOT / "celery_saga").rglob("*.py")]
    named = {name for text in code for name in re.findall(r'getLogger\("(celery_saga\.\w+)"\)', text)}
    listed = {
        name for row in rows(ROOT / "docs" / "operations.md", "logger") for name in re.findall(r"`(.+?)`", row[0])
    }

    assert named
    assert listed == named | {"celery_saga.saga.NAME"}


def test_the_readme_has_every_command() -> None:
    assert {row[0].strip("`") for row in rows(README, "command")} == set(COMMANDS)


def test_the_page_of_operations_has_every_reason_to_park() -> None:
    assert {row[0].strip("`") for row in rows(ROOT / "docs" / "operations.md", "reason")} == set(REASONS)


def test_the_commands_of_the_page_of_operations_exist_with_their_options() -> None:
    shown = [row[0].strip("`").split() for row in rows(ROOT / "docs" / "operations.md", "command")]

    assert shown
    for name, *words in shown:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None, name
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, name


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_and_options_on_a_page_exist(page: Path) -> None:
    group = cli
    assert isinstance(group, LazyGroup)
    for block in blocks(page, "console", "sh"):
        for words in re.findall(r"celery(?: -A \w+ saga|-saga -A \w+) ([\w-]+)([^#\n]*)", block.text):
            command = group.get_command(click.Context(group), words[0])
            assert command is not None, words[0]
            if isinstance(command, click.Group):
                command = command.commands[words[1].split()[0]]
            known = {option for parameter in command.params for option in parameter.opts}
            assert set(re.findall(r"(?<!\S)--[\w-]+", words[1])) <= known, words


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_within_the_project_lead_somewhere(page: Path) -> None:
    broken = []
    for link in links(page):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_the_readme_installs_and_runs_the_demo_in_one_line() -> None:
    first = blocks(README, "sh")[0].text.splitlines()

    assert len(first) == 1
    assert "pip install . && celery-saga demo" in first[0]
    assert "demo" in cli.list_commands(click.Context(cli))


def test_the_marked_test_command_is_what_ci_runs() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    function = script[script.index("test_command()") : script.index("# The oldest supported Python")]

    told = subprocess.run(
        ["bash", "-c", f"{function}\ntest_command"], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert told.stdout == "python -m pytest -n 2\n"


def test_the_difference_in_the_readme_is_that_of_the_example() -> None:
    block = blocks(README, "diff")[0].text.splitlines()
    shown = {sign: [line[1:] for line in block if line[:1] == sign and line[1:]] for sign in "+-"}
    paths = [line[3:] for line in block if line.startswith(" # ")]
    before, after = ([line for path in paths for line in _lines(name, path) if line] for name in ("before", "after"))
    context = [line[1:] for line in block if line[:1] == " " and not line.startswith(" # ")]

    assert paths == ["shop/celery.py", "shop/settings.py", "shop/orders/service.py"]
    assert [line for line in after if line not in before] == shown["+"]
    assert [line for line in before if line not in after] == shown["-"]
    assert set(context) <= set(before) & set(after)


def test_the_saga_of_the_readme_is_that_of_the_demo() -> None:
    readme = next(block.text for block in blocks(README, "python") if "def checkout" in block.text)
    demo = (ROOT / "celery_saga" / "demo" / "checkout.py").read_text()

    assert re.findall(r"undo=(\w+)", readme) == re.findall(r"undo=(\w+)", demo)
    assert re.findall(r"run\.(\w+)\(", readme) == re.findall(r"run\.(\w+)\(", demo)


def _lines(name: str, path: str) -> list[str]:
    return (HOME / name / path).read_text().splitlines()
