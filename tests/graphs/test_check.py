"""Good graphs are taken, bad ones refused; and the published schema says what the code says."""

from __future__ import annotations

import copy
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from celery_saga import DefinitionError, Saga
from celery_saga.definition.graph.check import all_faults, checked
from celery_saga.definition.graph.shape import faults, schema
from tests.architecture.tree import PACKAGES, ROOT
from tests.graphs.corpus import BAD, END, GOOD, graph, step

ROUNDS = 1500
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 1.5, 2.0, 1e300, "", " ", "x", "done", "input", "$.input", "$5", "a\n", "x" * 201),
    *([], {}, [1], {"else": "done"}, {"step": "x"}, {"end": True}, "failed", "2026-01-01T00:00:00Z", 2**40),
]
KEYS = ["step", "wait", "end", "on", "undo", "undo_retry", "retry", "timeout_s", "args", "choice", "signal", "nonsense"]


@pytest.mark.parametrize("name", GOOD)
def test_a_good_graph_is_taken(name: str) -> None:
    assert all_faults(GOOD[name]) == []


@pytest.mark.parametrize("name", BAD)
def test_a_bad_graph_is_refused_with_the_place_and_the_reason(name: str) -> None:
    bad = BAD[name]
    where, what = bad.told

    found = [str(fault) for fault in all_faults(bad.graph)]

    assert any(text.startswith(f"{where} ") and what in text for text in found), found


def test_a_graph_is_refused_once_with_all_its_faults() -> None:
    bad = graph(
        {
            "charge": step("shp", args=["$.nothing.id"], timeout_s=-1),
            "ship": {**step("done", args=["$5"]), "wait": 3},
            "ask": {"signal": "approve", "on": {"signal": "done", "timeout": "nowhere"}},
            "done": END,
        },
        version=0,
    )

    with pytest.raises(DefinitionError) as caught:
        Saga.from_graph(bad)

    lines = str(caught.value).splitlines()
    assert lines[0] == "graph 'corpus' has 5 faults; nothing was registered:"
    assert [line.partition(" must ")[0].partition(" is ")[0].partition(" names ")[0] for line in lines[1:]] == [
        "- version",
        "- states.charge.timeout_s",
        "- states.ship",
        "- states.ask.on.timeout",
        "- states.ask.on.timeout",
    ]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("{", "is no JSON"),
        ('{"name": NaN}', "is no JSON"),
        ('{"deadline_s": 1e999}', "is no JSON"),
        ('{"states": {"a": 1, "a": 2}}', "the key 'a' comes twice"),
        ({"name": float("nan")}, "is no JSON"),
        ({"name": Decimal(1)}, "Decimal"),
        ({"states": {1: {}}}, "states.1 is a key that is no text"),
        ("[]", "must be"),
        (None, "must be"),
    ],
)
def test_what_is_no_json_is_refused(given: Any, told: str) -> None:
    with pytest.raises(DefinitionError, match="nothing was registered") as caught:
        checked(given)

    assert told in str(caught.value)


def test_equal_graphs_have_one_digest_whatever_the_order_of_their_keys() -> None:
    given = GOOD["everything of a step"]
    turned = {name: given[name] for name in reversed(given)}

    assert checked(given).digest == checked(turned).digest == checked(json.dumps(given)).digest


def test_the_order_of_branches_is_kept() -> None:
    given = copy.deepcopy(GOOD["branches"])
    branches = given["states"]["both"]["parallel"]["branches"]
    given["states"]["both"]["parallel"]["branches"] = dict(reversed(branches.items()))

    kept = json.loads(checked(given).text)

    assert list(kept["states"]["both"]["parallel"]["branches"]) == ["b", "a"]
    assert checked(given).digest != checked(GOOD["branches"]).digest


# -- the published schema ------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def published() -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(schema())
    return jsonschema.Draft202012Validator(schema())


@pytest.mark.parametrize("name", GOOD)
def test_the_schema_takes_a_good_graph(published: jsonschema.Draft202012Validator, name: str) -> None:
    assert list(published.iter_errors(GOOD[name])) == []


@pytest.mark.parametrize("name", BAD)
def test_the_schema_finds_what_a_schema_can_find(published: jsonschema.Draft202012Validator, name: str) -> None:
    assert published.is_valid(BAD[name].graph) is not BAD[name].by_schema


def test_schema_and_code_agree_on_damaged_graphs(published: jsonschema.Draft202012Validator) -> None:
    draw = random.Random(20261129)
    told = {True: 0, False: 0}
    for _ in range(ROUNDS):
        damaged = copy.deepcopy(GOOD[draw.choice(list(GOOD))])
        for _ in range(draw.choice((1, 1, 2))):
            damage(damaged, draw)

        is_valid = published.is_valid(damaged)

        assert is_valid is not bool(faults(damaged)), damaged
        all_faults(damaged)
        told[is_valid] += 1
    assert min(told.values()) > ROUNDS / 20


def test_the_schema_is_part_of_the_package_that_is_built(tmp_path: Path) -> None:
    source, built = tmp_path / "source", tmp_path / "built"
    source.mkdir()
    for name in ("setup.cfg", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    words = [sys.executable, "-c", "import setuptools; setuptools.setup()", "build_py", "--build-lib", str(built)]
    subprocess.run(words, cwd=source, capture_output=True, timeout=100, check=True)

    text = (built / "celery_saga" / "definition" / "graph" / "graph.schema.json").read_text()

    assert json.loads(text) == schema()


def damage(whole: Any, draw: random.Random) -> None:
    """Change, add, rename or remove something anywhere in a graph."""
    place, key = draw.choice(list(_places(whole)))
    match draw.randrange(4):
        case 0:
            del place[key]
        case 1 if isinstance(place, dict):
            place[draw.choice(KEYS)] = copy.deepcopy(draw.choice(VALUES))
        case 2 if isinstance(place, dict):
            place[str(draw.choice(VALUES))[:120]] = place.pop(key)
        case _:
            place[key] = copy.deepcopy(draw.choice(VALUES))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key in range(len(value)) if isinstance(value, list) else list(value):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])
