"""Files stay short, say what they are for, and name nothing of the machine they were written on."""

from __future__ import annotations

import ast
import re

from tests.architecture.tree import modules, name_of, parsed, published_files

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 50
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "data", "info", "misc"}
# Written so that this file does not match itself.
MACHINE_PATH = re.compile(r"(?<![\w./)\-}])/(?:work|root|opt|home)(?:/|\b(?![\w-]))")
REGISTRY = re.compile(r"index[-_]url|find[-_]links|pypi\.org/simple|pythonhosted|artifactory", re.I)


def test_the_packages_are_found() -> None:
    assert {name_of(path).split("/")[0] for path in modules()} == {"celery_saga", "contrib_django"}


def test_no_module_is_longer_than_400_lines() -> None:
    long = {name_of(path): n for path in modules() if (n := _lines(path.read_text())) > MAX_FILE_LINES}
    assert long == {}


def test_no_function_is_longer_than_50_lines() -> None:
    long = {
        f"{name_of(path)}:{node.lineno} {node.name}": n
        for path in modules()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (n := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    }
    assert long == {}


def test_the_first_line_of_each_module_is_one_sentence_that_says_what_it_is_for() -> None:
    wrong = [name_of(path) for path in modules() if not _opens_with_a_sentence(path.read_text())]
    assert wrong == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    wrong = [
        name_of(path)
        for path in modules()
        if FORBIDDEN_NAMES & {path.stem.strip("_"), *(part.strip("_") for part in path.parent.parts[-2:])}
    ]
    assert wrong == []


def test_no_file_names_a_path_of_the_machine_it_was_written_on() -> None:
    assert _lines_with(MACHINE_PATH) == []


def test_no_file_names_a_package_registry() -> None:
    assert _lines_with(REGISTRY, but="tests/architecture/test_files.py") == []


def _lines(text: str) -> int:
    return len(text.splitlines())


def _opens_with_a_sentence(text: str) -> bool:
    """Whether line 1 is a docstring's first line, one sentence with a capital and a full stop."""
    first = text.split("\n", 1)[0]
    sentence = re.fullmatch(r'"""([A-Z`_].*\.)(?:""")?', first)
    return sentence is not None and re.search(r"\. [A-Z]", sentence[1]) is None


def _lines_with(pattern: re.Pattern[str], but: str = "") -> list[str]:
    return [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path, text in published_files()
        if name_of(path) != but
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]
