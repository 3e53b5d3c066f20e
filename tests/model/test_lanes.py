"""Runs in one capped lane: whatever comes in between, the cap holds, nobody is overtaken, and nobody waits for ever."""

from __future__ import annotations

import pytest

from tests.model.lanes import Broken, Faults, Lanes
from tests.scenarios.house import House

SMALL = {
    "a death": ((0, 0), Faults(deaths=1)),
    "a lost message": ((0, 0), Faults(lost=1)),
    "a cancel": ((0, 0), Faults(cancels=1)),
    "a park": ((0, 5), Faults(parks=1)),
    "a back-off": ((0, 0), Faults(failures=1)),
}
LARGE = {
    "three runs and a death": ((0, 5, 0), Faults(deaths=1)),
    "a park and a cancel": ((0, 5), Faults(parks=1, cancels=1)),
    "a death and a back-off": ((0, 0), Faults(deaths=1, failures=1)),
    "a death and a park": ((0, 5), Faults(deaths=1, parks=1)),
}


def _walk(priorities: tuple[int, ...], faults: Faults) -> None:
    with House("sqlite://") as house:
        search = Lanes(house, priorities, faults)
        states = search.walk(at_most=20_000)
        print(f"{states} states, {search.moves} moves, {search.deaths} deaths right after a commit")
        assert states > 20 * len(priorities), "the search has become smaller"
        assert (search.deaths > 0) is (faults.deaths > 0)


def test_a_lane_that_lets_in_one_too_many_is_found() -> None:
    with House("sqlite://") as house, pytest.raises(Broken, match="2 slots of 1"):
        Lanes(house, (0, 0), Faults(), cap=2, allowed=1).walk(at_most=1000)


@pytest.mark.parametrize("name", SMALL)
def test_no_interleaving_in_a_lane_breaks_a_promise(name: str) -> None:
    _walk(*SMALL[name])


@pytest.mark.heavy
@pytest.mark.parametrize("name", LARGE)
def test_no_interleaving_of_more_runs_and_faults_breaks_a_promise(name: str) -> None:
    _walk(*LARGE[name])
