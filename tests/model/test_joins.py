"""The same of joins: whatever their parts do, and whatever is lost, late, repeated or dead meanwhile."""

from __future__ import annotations

import pytest

from tests.model.joins import JOINS
from tests.model.sagas import Scenario
from tests.model.search import Search


@pytest.mark.parametrize("scenario", JOINS, ids=lambda x: x.name)
def test_no_interleaving_of_a_join_breaks_a_promise(scenario: Scenario) -> None:
    """Breadth first through all of them; a counterexample is told with the shortest way to it."""
    walk = Search(scenario).walk()

    print(f"{scenario.name}: {walk.states} states, {walk.moves} moves, {walk.tables} contents of the tables")
    assert walk.counterexample is None, str(walk.counterexample)
    assert walk.ends == set(scenario.ends)
    assert walk.states >= scenario.least_states, "the search has become smaller"
