"""Short forms of `python -m tests.chaos`, and that a seed decides everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.plan import plan_of
from tests.chaos.report import to_markdown
from tests.chaos.run import chaos
from tests.chaos.trees import from_plain, to_plain

pytestmark = [pytest.mark.servers, pytest.mark.faults]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("broker", "database", "seconds"),
    [
        ("redis", "postgresql", 12),
        pytest.param("rabbitmq", "postgresql", 60, marks=pytest.mark.heavy),
        pytest.param("redis", "mariadb", 60, marks=pytest.mark.heavy),
    ],
    ids=str,
)
def test_nothing_is_lost_or_doubled_while_everything_breaks(
    broker: str, database: str, seconds: int, tmp_path: Path
) -> None:
    outcome = chaos(5, seconds, tmp_path, broker=broker, database=database)

    print(to_markdown(outcome))
    assert outcome.findings == [], outcome.command
    assert len(outcome.evidence.hits) >= seconds / 5


@pytest.mark.parametrize("seed", [1, 2])
def test_a_seed_decides_who_comes_and_what_breaks(seed: int) -> None:
    assert plan_of(seed, 60) == plan_of(seed, 60)
    assert plan_of(seed, 60) != plan_of(seed + 1, 60)
    assert {fault.kind for fault in plan_of(seed, 60).faults} == {fault.kind for fault in plan_of(seed + 1, 60).faults}


def test_a_tree_comes_back_from_json() -> None:
    trees = [arrival.tree for arrival in plan_of(3, 60).arrivals]

    assert [from_plain(to_plain(tree)) for tree in trees] == trees
