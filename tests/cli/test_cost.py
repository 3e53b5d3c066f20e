"""`cost`: what it says that runs have cost is what they have cost."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from celery_saga import Retry, Run, saga
from celery_saga.cli.costing import Cost, cost_of
from celery_saga.cli.prices import INLINE, Price, measure, prices
from celery_saga.engine.ports import Limits
from celery_saga.store.costs import left_by
from tests.cli.database import with_tables
from tests.cli.program import Program
from tests.inline.parlour import Parlour
from tests.inline.test_costs import played
from tests.sealing.keys import lab_with, store_of


@pytest.fixture(scope="module")
def price() -> dict[str, Price]:
    return prices()


class Refused(Exception):
    pass


def _played(price: dict[str, Price], play: Any) -> tuple[Price, list[Cost]]:
    """What was asked of store and broker in fact, and what is told of it."""
    with lab_with() as lab:
        seen = measure(lab, lambda: play(lab))
        runs, left = left_by(store_of(lab), "priced", runs=10)
        assert runs == 1
        return seen, cost_of(runs, left, price)


def _added(costs: list[Cost]) -> Price:
    total = Price()
    for each in costs:
        total += each.price
    return total


def test_of_steps_and_their_repeats_it_tells_each_statement_commit_and_message(price: dict[str, Price]) -> None:
    def play(lab: Any) -> None:
        @lab.app.task(name="cost.work", shared=False)
        def work() -> str:
            return "done"

        @saga(name="priced")
        def priced(run: Run) -> None:
            for _ in range(4):
                run.step(work.si())
            run.step(work.si(), name="twice", retry=Retry(2, delay=0))

        lab.fail("twice", Refused("by the test"))
        lab.start(priced)
        lab.drain()

    seen, costs = _played(price, play)

    told = {each.step: each for each in costs}
    assert (told["work"].count, told["twice"].attempts) == (4, 2)
    assert told["work"].stored_bytes >= 4 * len('"done"')
    added = _added(costs)
    assert added.messages == seen.messages
    assert (added.statements, added.commits) == (seen.statements, seen.commits)


def test_of_a_run_of_all_kinds_it_is_off_by_little(price: dict[str, Price]) -> None:
    def play(lab: Any) -> None:
        @lab.app.task(name="cost.item", shared=False)
        def item(number: int) -> int:
            return number

        @saga(name="inner")
        def inner(run: Run) -> None:
            run.step(item.si(1))

        @saga(name="priced", errors=[Refused])
        def priced(run: Run) -> None:
            run.step(item.si(1), undo=item.s())
            run.map(item, list(range(8)))
            run.sleep(60)
            run.wait_signal("go")
            run.record("noted", lambda: 1)
            raise Refused

        run = lab.start(priced)
        lab.drain()
        lab._move(lab.now + timedelta(seconds=60))
        run.signal("go")
        lab.drain()
        assert run.refresh().status == "failed"

    seen, costs = _played(price, play)

    added = _added(costs)
    assert added.messages == pytest.approx(seen.messages, rel=0.15)
    assert added.commits == pytest.approx(seen.commits, rel=0.15)
    assert added.statements == pytest.approx(seen.statements, rel=0.15)
    assert [each.step for each in costs if each.kind == "undo"] == ["item!undo"]


def test_the_price_of_an_inline_step_is_what_one_takes() -> None:
    with Parlour("sqlite://", limits=Limits(inline_slice_s=600.0)) as house:
        each = played(house).between(10)

    commits = [label for label in each if label.startswith("commit")]
    assert Price(len(each) - len(commits), len(commits), 0) == INLINE


def test_the_command_tells_of_runs_that_have_ended_and_executes_nothing(tmp_path: Path) -> None:
    url = with_tables(f"sqlite:///{tmp_path / 'saga.db'}")
    program = Program("celery-saga", "tests.cli.project", url, tmp_path)
    for sku in ("b1", "a1"):
        program.ok("start", "order", "--arg", f'line={{"sku": "{sku}"}}')
        program.ok("cancel", f"order:{sku}")
        if sku == "b1":
            program.ok("purge", "--older-than", "0.001s")

    begun_s = time.monotonic()
    found = program.ok("cost", "order", "--json").document
    text = program.ok("cost").out

    assert time.monotonic() - begun_s < 60
    (of_order,) = found["sagas"]
    assert (of_order["saga"], of_order["runs"]) == ("order", 1)
    assert of_order["per_run"]["statements"] >= 5
    assert of_order["per_run"]["bytes"] > len('{"sku": "a1"}')
    assert found["prices"]["step"]["messages"] == 1
    assert "order: 1 ended run" in text
    assert program("cost", "nobody").code == 1
