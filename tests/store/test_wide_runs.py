"""What a part of a wide join costs does not grow with its siblings, whatever the other runs are like."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from sqlalchemy import Engine, event

from celery_saga import Run, Saga, saga
from tests.bench.multiplied import multiply
from tests.faults.asking import libpq
from tests.scenarios.house import House

ITEMS, OTHERS = 300, 2000


@pytest.mark.servers
def test_an_item_of_a_map_reads_a_handful_of_rows_among_many_short_runs(postgresql_url: str) -> None:
    with House(postgresql_url) as house, _connected(postgresql_url) as connection:
        short, wide = _sagas(house)
        one = short.start()
        house.drain()
        multiply(connection, one.id, OTHERS, "-1 second")  # and ANALYZE: no run is wide yet
        run = wide.start()

        for question, given in _asked_in_the_middle(house):
            rows = _rows_read(connection, question, given)
            assert rows < 50, f"{rows} rows are read by {question}"

        house.drain()
        assert run.wait(1) == ITEMS


def test_on_sqlite_each_alternative_of_an_item_is_looked_up_by_an_index(tmp_path: Path) -> None:
    file = tmp_path / "saga.db"
    with House(f"sqlite:///{file}") as house, closing(sqlite3.connect(file)) as connection:
        _, wide = _sagas(house)
        run = wide.start()

        for question, given in _asked_in_the_middle(house):
            plan = [told for *_, told in connection.execute(f"EXPLAIN QUERY PLAN {question}", given)]
            searches = [told for told in plan if "saga_step" in told]
            assert searches
            for told in searches:  # what is not folded is nearly all of a run
                assert re.search(r"(region|key|status)[=<>]", told), f"{told}: {question}"

        house.drain()
        assert run.wait(1) == ITEMS


def _sagas(house: House) -> tuple[Saga[[], Any], Saga[[], int]]:
    """A short one, and a wide one."""
    double = house.task("wide.double")(_double)

    @saga(name="wide-short")
    def short(run: Run) -> Any:
        return run.step(double.si(1))

    @saga(name="wide-map")
    def wide(run: Run) -> int:
        return len(run.map(double, range(ITEMS), concurrency=20))

    house.add(short)
    house.add(wide)
    return short, wide


def _asked_in_the_middle(house: House) -> list[tuple[str, Any]]:
    """What is read of steps for one item, when half of them are done."""
    for _ in range(ITEMS // 2):
        house.deliver(house.messages.pop(0))
    with _asked() as questions:
        house.deliver(house.messages.pop(0))
    assert questions
    return questions


def _double(number: int) -> int:
    return 2 * number


@contextmanager
def _connected(url: str) -> Iterator[Any]:
    with closing(psycopg2.connect(libpq(url))) as connection:
        connection.autocommit = True
        yield connection


@contextmanager
def _asked() -> Iterator[list[tuple[str, Any]]]:
    """What is read of steps meanwhile; what writes is not, for it would write once more."""
    asked: list[tuple[str, Any]] = []

    def listen(_connection: Any, _cursor: Any, statement: str, given: Any, _context: Any, _many: bool) -> None:
        if statement.startswith("SELECT") and "saga_step" in statement:
            asked.append((statement, given))

    event.listen(Engine, "before_cursor_execute", listen)
    try:
        yield asked
    finally:
        event.remove(Engine, "before_cursor_execute", listen)


def _rows_read(connection: Any, statement: str, given: Any) -> int:
    """Of tables: what was found, and what was looked at in vain."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", given)
        (told,) = cursor.fetchone()
    plan = (json.loads(told) if isinstance(told, str) else told)[0]["Plan"]
    return sum(_read_by(node) for node in _nodes(plan))


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for each in plan.get("Plans", ()):
        yield from _nodes(each)


def _read_by(node: dict[str, Any]) -> int:
    if "Relation Name" not in node:
        return 0
    vain = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return int((node["Actual Rows"] + vain) * node["Actual Loops"])
