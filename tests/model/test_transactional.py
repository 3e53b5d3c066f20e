"""The same of transactional steps: whatever happens, an effect is there exactly if its checkpoint is."""

from __future__ import annotations

import pytest

from tests.model.sagas import Scenario
from tests.model.search import Search
from tests.model.transactional import TRANSACTIONAL, TransactionalMoves


@pytest.mark.parametrize("scenario", TRANSACTIONAL, ids=lambda x: x.name)
def test_no_interleaving_parts_an_effect_from_its_checkpoint(scenario: Scenario) -> None:
    """Breadth first through all of them; a counterexample is told with the shortest way to it."""
    walk = Search(scenario, TransactionalMoves).walk()

    print(f"{scenario.name}: {walk.states} states, {walk.moves} moves, {walk.tables} contents of the tables")
    assert walk.counterexample is None, str(walk.counterexample)
    assert walk.ends == set(scenario.ends)
    assert walk.states >= scenario.least_states, "the search has become smaller"
