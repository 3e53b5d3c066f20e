"""Wrong arguments, undos and signal values are errors in mypy and in pyright, and right ones are none."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT

HERE = Path(__file__).parent
MARK = re.compile(r"  # type: ignore\[[^\]]*\]")

if not (importlib.util.find_spec("celery-stubs") and importlib.util.find_spec("pyright")):
    pytest.skip("needs the extras test and types: celery-types, mypy and pyright", allow_module_level=True)


def mypy(path: Path) -> set[int]:
    """Numbers of the lines in which mypy finds an error."""
    words = ["--follow-imports=silent", "--no-error-summary", "--hide-error-context", "--no-pretty", str(path)]
    done = run("mypy", *words)
    return {int(line.split(":")[1]) for line in done.splitlines() if ": error:" in line}


def pyright(path: Path) -> set[int]:
    """Numbers of the lines in which pyright finds an error."""
    report = json.loads(run("pyright", "--pythonpath", sys.executable, "--outputjson", str(path)))
    assert report["summary"]["filesAnalyzed"] == 1
    return {each["range"]["start"]["line"] + 1 for each in report["generalDiagnostics"]}


def run(module: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", module, *words], cwd=ROOT, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("check", [mypy, pyright])
def test_right_uses_have_the_types_that_they_claim(check: Callable[[Path], set[int]]) -> None:
    assert check(HERE / "right.py") == set()


@pytest.mark.parametrize("check", [mypy, pyright])
def test_each_wrong_use_is_an_error_and_nothing_else_is(check: Callable[[Path], set[int]]) -> None:
    text = (HERE / "wrong.py").read_text()
    marked = {number for number, line in enumerate(text.splitlines(), start=1) if MARK.search(line)}
    assert len(marked) > 20
    # Beside the original, so that both checkers find the imports and their settings.
    bare = HERE / f"_bare_{check.__name__}.py"

    try:
        bare.write_text(MARK.sub("", text).replace('"""What', '"""Without marks: what'))
        found = check(bare)
    finally:
        bare.unlink(missing_ok=True)

    assert found == marked


@pytest.mark.parametrize("check", [mypy, pyright])
def test_each_mark_of_a_wrong_use_is_needed(check: Callable[[Path], set[int]]) -> None:
    assert check(HERE / "wrong.py") == set()
