"""The same of children: whoever dies between two transactions, what the two runs know of each other comes out right."""

from __future__ import annotations

import pytest

from tests.model.children import CHILDREN
from tests.model.family_moves import FamilySearch
from tests.model.sagas import Scenario


@pytest.mark.parametrize("scenario", CHILDREN, ids=lambda x: x.name)
def test_no_interleaving_of_parent_and_child_breaks_a_promise(scenario: Scenario) -> None:
    """Breadth first through all of them; a counterexample is told with the shortest way to it."""
    walk = FamilySearch(scenario).walk()

    print(f"{scenario.name}: {walk.states} states, {walk.moves} moves, {walk.tables} contents of the tables")
    assert walk.counterexample is None, str(walk.counterexample)
    assert walk.ends == set(scenario.ends)
    assert walk.states >= scenario.least_states, "the search has become smaller"
