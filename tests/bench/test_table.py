"""What the measurements are told by: ratios, verdicts, and what is kept."""

from __future__ import annotations

import json

import pytest

from tests.bench import table
from tests.bench.measures.profile import shares
from tests.bench.rows import Row, Series, Target, at_least, at_most, percentile

OURS = Series("ours", "steps/s", (10.0, 40.0, 90.0))
THEIRS = Series("theirs", "steps/s", (10.0, 20.0, 30.0))


def test_a_ratio_is_the_median_of_those_of_turns_side_by_side() -> None:
    assert Row("x", None, OURS, THEIRS).ratio == 2.0
    assert Row("x", None, OURS, Series("theirs", "steps/s", (20.0,))).ratio == 2.0


@pytest.mark.parametrize(
    ("target", "theirs", "said"),
    [
        (at_least(2.0), THEIRS, "yes"),
        (at_least(4.0), THEIRS, "no, 0.5 of it"),
        (at_most(1.5), THEIRS, "no, 1.33 times it"),
        (at_most(40, "steps/s"), None, "yes"),
        (at_most(20, "steps/s"), None, "no, 2 times it"),
        (at_most(0, "steps/s"), None, "no, 40 steps/s"),
        (None, THEIRS, ""),
    ],
    ids=["at-least", "too-little", "too-much", "at-most", "figure", "nothing-allowed", "no-target"],
)
def test_a_row_says_by_how_much_a_target_is_not_reached(
    target: Target | None, theirs: Series | None, said: str
) -> None:
    assert table.verdict(Row("x", target, OURS, theirs)) == said


def test_what_cannot_be_measured_says_why() -> None:
    row = Row("x", at_least(1), OURS, None, why_not="dbos is not installed")

    assert row.is_reached is None
    assert table.cells(row)[-1] == "not measured: dbos is not installed"


def test_a_row_is_kept_and_read_as_it_was() -> None:
    for row in (Row("x", at_least(2), OURS, THEIRS, note="n"), Row("y", None, None, None, "why")):
        assert Row.from_json(json.loads(json.dumps(row.as_json()))) == row


def test_a_percentile_is_one_of_the_readings() -> None:
    assert percentile(range(100), 99) == 98
    assert percentile([3.0, 1.0], 50) == 1.0


def test_a_sample_belongs_to_who_wrote_its_innermost_function() -> None:
    stacks = [
        "process 7:celery worker;Worker.run (celery/apps/worker.py:1);go (celery_saga/store/rows.py:4) 2",
        "process 7:celery worker;go (celery_saga/store/rows.py:4);execute (sqlalchemy/engine/base.py:9);x (re.py:1) 1",
        "process 7:celery worker;wait (threading.py:3) 1",
    ]

    assert shares(stacks) == {"celery_saga.store": 0.5, "sqlalchemy": 0.25, "all else": 0.25}
