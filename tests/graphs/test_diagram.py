"""Graphs and runs are drawn as Mermaid text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from celery_saga import DefinitionError, Run, Saga, saga
from celery_saga.definition.graph.check import checked
from celery_saga.definition.graph.drawing import drawn
from celery_saga.definition.mermaid import Area, Arrow, Node, Shape, flowchart
from tests.cli.database import with_tables
from tests.cli.program import Program
from tests.graphs.corpus import END, GOOD, graph, step
from tests.scenarios.house import House

NODE = re.compile(r"^ *(n\d+)[\[({>]+\".*\"[\])}]+$")
ARROW = re.compile(r"^    (n\d+) (?:-->|-\.->)(?:\|\".*\"\|)? (n\d+)$")


def test_a_graph_is_drawn_in_the_order_in_which_one_comes_to_its_states() -> None:
    states = {
        "charge": step("ask", undo="shop.refund", timeout_s=30, on={"fail": "lost"}),
        "ask": {"signal": "approve", "timeout_s": 60, "on": {"signal": "fork", "timeout": "lost"}},
        "fork": {"choice": [{"path": "$.input.n", "gt": 5, "to": "pause"}, {"else": "done"}]},
        "pause": {"wait": 60, "on": {"ok": "done"}},
        "done": END,
        "lost": {"end": "failed"},
    }

    assert Saga.from_graph({**graph(states), "name": "d-all"}).diagram() == (
        "flowchart TD\n"
        '    n0(("start"))\n'
        '    n1["charge<br/>step shop.charge<br/>undo shop.refund<br/>at most 30 s"]\n'
        '    n2(["lost<br/>failed"])\n'
        '    n3>"ask<br/>signal approve<br/>at most 1 min"]\n'
        '    n4{"fork<br/>choice"}\n'
        '    n5("pause<br/>wait 1 min")\n'
        '    n6(["done<br/>completed"])\n'
        "    n0 --> n1\n"
        '    n1 -.->|"fail"| n2\n'
        '    n1 -->|"ok"| n3\n'
        '    n3 -->|"signal"| n4\n'
        '    n3 -.->|"timeout"| n2\n'
        '    n4 -->|"$.input.n #62; 5"| n5\n'
        '    n4 -->|"else"| n6\n'
        '    n5 -->|"ok"| n6\n'
    )


@pytest.mark.parametrize("name", GOOD)
def test_every_arrow_joins_two_nodes_and_every_node_is_joined(name: str) -> None:
    lines = drawn(checked(GOOD[name])).splitlines()[1:]

    nodes = {found[1] for line in lines if (found := NODE.match(line))}
    ends = {end for line in lines if (found := ARROW.match(line)) for end in found.groups()}

    assert nodes == ends
    others = [line.strip() for line in lines if not NODE.match(line) and not ARROW.match(line)]
    assert [line for line in others if line != "end" and not line.startswith("subgraph ")] == []


def test_branches_have_frames_of_their_own() -> None:
    text = drawn(checked(GOOD["branches"]))

    assert re.findall(r'subgraph a\d+\["(.*)"\]', text) == ["both: a", "both: b"]


def test_a_label_is_never_taken_for_mermaid() -> None:
    text = flowchart([Node("a b", 'say "hi" <b>#1;</b>\n|x| _y_ a_b', Shape.ROUND)], [Arrow("a b", "a b", 'if "x"')])

    assert text == (
        "flowchart TD\n"
        '    n0("say #34;hi#34; #60;b#62;#35;1;#60;/b#62;<br/>#124;x#124; #95;y#95; a_b")\n'
        '    n0 -->|"if #34;x#34;"| n0\n'
    )


def test_areas_nest() -> None:
    inner = Area("inner", [Node("b", "b")])

    text = flowchart([Node("a", "a")], [Arrow("a", "b", is_dotted=True)], [Area("outer", [], [inner])])

    assert text.splitlines()[2:] == [
        '    subgraph a0["outer"]',
        '        subgraph a1["inner"]',
        '            n1["b"]',
        "        end",
        "    end",
        "    n0 -.-> n1",
    ]


def test_a_run_is_drawn_with_what_became_of_its_steps(house: House) -> None:
    @house.task("d.charge")
    def charge() -> str:
        return "ch_1"

    @house.task("d.ship")
    def ship() -> None:
        raise LookupError("none left")

    @house.task("d.refund")
    def refund(charge_id: str) -> None: ...

    @saga(name="d-function")
    def function(run: Run) -> None:
        run.step(charge.si(), undo=refund)
        run.step(ship.si())

    house.add(function)
    handle = function.start()
    house.drain()

    assert function.diagram(handle) == (
        "flowchart TD\n"
        '    n0["charge<br/>step d.charge<br/>done"]\n'
        '    n1["ship<br/>step d.ship<br/>failed"]\n'
        '    n2(["charge!undo<br/>undo d.refund<br/>done"])\n'
        "    n0 --> n1\n"
        '    n0 -.->|"undo"| n2\n'
    )


def test_parts_of_a_run_hang_on_their_join_and_many_are_counted(house: House) -> None:
    @house.task("d.work")
    def work(item: object) -> object:
        return item

    chain = {
        "start": "b1",
        "states": {
            "b1": {"step": "d.work", "on": {"ok": "b2"}},
            "b2": {"step": "d.work", "on": {"ok": "b3"}},
            "b3": END,
        },
    }
    states = {
        "all": {"map": {"task": "d.work", "items": "$.input"}, "on": {"ok": "both"}},
        "both": {"parallel": {"branches": {"y": chain}}, "on": {"ok": "last"}},
        "last": {"step": "d.work", "on": {"ok": "done"}},
        "done": END,
    }
    many = Saga.from_graph({**graph(states), "name": "d-many"})
    house.add(many)
    handle = many.start(list(range(15)))
    house.drain()

    text = many.diagram(handle)

    names = dict(re.findall(r"^    (n\d+)\W+(.*?)<br/>", text, re.M))
    arrows = {(names[a], names[b]) for a, b in re.findall(r"^    (n\d+) -->.* (n\d+)$", text, re.M)}
    parts = {("all", f"all[{number}]") for number in range(12)}
    assert arrows == parts | {
        ("all", "3 more parts"),
        ("all", "both"),
        ("both", "both[y]"),
        ("both[y]", "both[y]/b1"),
        ("both[y]/b1", "both[y]/b2"),
        ("both", "last"),
    }
    assert "3 more parts<br/>3 done" in text


def test_a_function_is_drawn_by_its_runs_only() -> None:
    @saga(name="d-plain")
    def plain(run: Run) -> None: ...

    with pytest.raises(DefinitionError, match=r"plain\.diagram\(run\)"):
        plain.diagram()


# -- the command -----------------------------------------------------------------------------------------------------
@pytest.fixture
def program(tmp_path: Path) -> Program:
    url = with_tables(f"sqlite:///{tmp_path / 'saga.db'}")
    return Program("celery-saga", "tests.graphs.project", url, tmp_path)


def test_the_command_draws_graphs_and_runs(program: Program) -> None:
    program.ok("start", "d-project", "--args", "[{}]")

    of_saga = program.ok("diagram", "d-project").out
    of_run: Any = program.ok("diagram", "d-project:one", "--json").document

    assert of_saga.startswith("flowchart TD\n") and "signal go" in of_saga
    assert "signal go" in of_run["mermaid"] and "waiting" in of_run["mermaid"]


def test_the_command_draws_a_stored_graph_that_the_app_does_not_know(program: Program) -> None:
    program.ok("start", "d-project", "--args", "[{}]")
    other = Program("celery-saga", "tests.graphs.empty_project", program.database_url, program.switches)

    drawn_there = other.ok("diagram", "d-project", "--version", "1").out
    unknown = other("diagram", "d-project")

    assert drawn_there == program.ok("diagram", "d-project").out
    assert (unknown.code, unknown.err.partition(":")[0]) == (1, "UNKNOWN_SAGA")


def test_the_doctor_misses_nobody_who_knows_a_stored_graph(program: Program) -> None:
    program.ok("start", "d-project", "--args", "[{}]")
    other = Program("celery-saga", "tests.graphs.empty_project", program.database_url, program.switches)

    examined = other("doctor", "--json")

    assert "d-project" not in examined.out + examined.err
