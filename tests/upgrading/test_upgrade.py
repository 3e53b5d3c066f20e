"""docs/upgrading.md, in its order: runs that the release of before has begun end under this one, while both work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.upgrading.deploy import Deploy, deploy
from tests.upgrading.previous import FIXED, previous
from tests.workers import Worker

pytestmark = [pytest.mark.servers, pytest.mark.faults, pytest.mark.timeout(240)]

HELD = ("working0.c", "inline0.c", "undone0.b!undo", "several0.group[1]:b")
BEGUN = ("waiting=3", "sleeping=1", "working=2", "inline=1", "undone=1", "several=1", "parent=1")
MORE = ("working=3", "undone=1")


@pytest.mark.parametrize(
    "revisions",
    [(FIXED, "HEAD~1"), pytest.param(("HEAD~1",), marks=pytest.mark.heavy)],
    ids=["the release before", "the commit before"],
)
def test_runs_in_flight_end_under_the_next_release_while_both_work(
    revisions: tuple[str, ...], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    before = previous(tmp_path_factory.mktemp("previous"), *revisions)
    with deploy(tmp_path, before) as shop:
        shop.hold(*HELD)
        runs = shop.do("old", "migrate", *BEGUN)
        with shop.worker("old") as old:
            shop.wait_held(*HELD)
            shop.wait_for("waiting", *(runs[f"waiting{n}"] for n in range(3)), runs["parent0"])

            print(f"from {before.told}: {_migrate(shop)}")

            with shop.worker("new") as new:
                _both_work(shop, runs)
                old.stop()
                shop.migrate("post")
                _only_the_new_one_works(shop, runs)
                _check(shop, runs, old, new)


def _migrate(shop: Deploy) -> str:
    """The tables of before become those of now, as far as the old worker can live with that."""
    tables, applied = shop.tables(), shop.migrate("pre")
    if shop.tables() == tables:
        return "the tables are those of before, so only the code changes"
    return f"the tables changed: {', '.join(applied)}"


def _both_work(shop: Deploy, runs: dict[str, str]) -> None:
    """What is begun by either is worked on by both."""
    runs |= shop.do("old", f"go={runs['waiting0']}", *(f"old.{each}" for each in MORE))
    runs |= shop.do("new", f"go={runs['waiting1']}", *(f"new.{each}" for each in MORE))
    shop.release(*HELD)
    both = [run for order, run in runs.items() if order not in {"waiting2", "parent0"}]
    shop.wait_ended(*both)
    codes = [{code for _, code in shop.effects(run)} for order, run in runs.items() if "working" in order]
    assert {"old", "new"} in codes, codes


def _only_the_new_one_works(shop: Deploy, runs: dict[str, str]) -> None:
    ((child,),) = shop.ask("SELECT id FROM saga_run WHERE parent_id = %s", runs["parent0"])
    shop.do("new", f"go={runs['waiting2']}", f"go={child}")
    shop.wait_ended(*runs.values())
    assert shop.effects(runs["waiting2"]) == [("a", "old"), ("b", "new")]
    assert shop.effects(runs["parent0"]) == [("b", "new")]


def _check(shop: Deploy, runs: dict[str, str], *several: Worker) -> None:
    ends = dict(zip(runs, shop.statuses(*runs.values()), strict=True))
    assert {order: end for order, end in ends.items() if end != ("failed" if "undone" in order else "completed")} == {}
    shop.check_effects()
    for order, run in runs.items():
        keys = [key for key, _ in shop.effects(run)]
        if "undone" in order:
            assert keys == ["a", "b", "c", "c!undo", "b!undo", "a!undo"], order
        if "inline" in order:
            assert keys == [*"abcdef"], order
    assert shop.ask("SELECT key FROM saga_step WHERE status = 'running' OR lease_until IS NOT NULL") == []
    for worker in several:
        assert [line for line in worker.text.splitlines() if line.startswith(("[ERROR", "[CRITICAL"))] == []
