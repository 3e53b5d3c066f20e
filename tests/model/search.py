"""Breadth first through every state of a scenario; a rule that does not hold is told with the shortest way to it."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from celery_saga.core.status import RunStatus, StepStatus
from tests.model import rules
from tests.model.moves import Moves
from tests.model.sagas import Scenario
from tests.model.state import Broken, State


@dataclass(frozen=True)
class Counterexample:
    """A rule that does not hold, and the shortest way to it: (what was done, what the state was then)."""

    scenario: str
    rule: str
    trace: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        width = max(len(label) for label, _ in self.trace)
        lines = [f"{n:3} {label:{width}}  {state}".rstrip() for n, (label, state) in enumerate(self.trace)]
        return "\n".join([f"{self.scenario}: {self.rule}", *lines])


@dataclass(frozen=True)
class Walk:
    """What a search has seen. `ends`: statuses in which the run came to rest."""

    states: int
    moves: int
    tables: int
    ends: frozenset[str]
    counterexample: Counterexample | None


class Search:
    """One walk through a scenario.

    For each state the first fair move is kept: following them is the calm continuation, in which nothing more goes
    wrong. It must come to an end from everywhere.
    """

    def __init__(self, scenario: Scenario, moves: type[Moves] = Moves) -> None:
        self._scenario = scenario
        self._moves = moves(scenario)
        self._reached_by: dict[State, tuple[State, str] | None] = {}
        self._calmly: dict[State, tuple[State, str] | None] = {}
        self._ends: set[str] = set()
        self._count = 0

    def walk(self, *, at_most: int = 1_000_000) -> Walk:
        """All states, or those up to the first rule that does not hold. Once only.

        Raises:
            AssertionError: there are more than `at_most` states.
        """
        gc.disable()  # nothing is garbage before the end, and looking for it takes half of the time
        try:
            found = self._explore(at_most) or self._calm()
            tables = len({x.tables for x in self._reached_by})
            return Walk(len(self._reached_by), self._count, tables, frozenset(self._ends), found)
        finally:
            self._reached_by.clear()
            self._calmly.clear()
            self._moves.forget()
            gc.enable()

    def _explore(self, at_most: int) -> Counterexample | None:
        first = self._moves.first()
        self._reached_by[first] = None
        queue = deque([first])
        while queue:
            state = queue.popleft()
            try:
                self._check(state)
                self._calmly[state] = None
                for move in self._moves.of(state):
                    self._count += 1
                    if move.is_fair and self._calmly[state] is None:
                        self._calmly[state] = move.after, move.label
                    if move.after not in self._reached_by:
                        self._reached_by[move.after] = state, move.label
                        queue.append(move.after)
            except Broken as broken:
                return self._told(state, broken)
            assert len(self._reached_by) <= at_most, f"{self._scenario.name}: more than {at_most} states"
        return None

    @staticmethod
    def _check(state: State) -> None:
        rules.check_tables(state.tables)
        rules.check_outside(state)

    def _calm(self) -> Counterexample | None:
        """The first state from which the calm continuation goes in circles, or ends where nothing may end."""
        good: set[State] = set()
        for start in self._reached_by:  # in the order of their distance
            path: dict[State, None] = {}
            state = start
            while state not in good:
                if state in path:
                    return self._told(start, Broken("from here on the run goes in circles"), self._onwards(start))
                path[state] = None
                onwards = self._calmly[state]
                if onwards is None:
                    if rule := self._rests_wrongly(state):
                        return self._told(start, Broken(rule), self._onwards(start))
                    self._ends.add(str(state.tables.run.status))
                    break
                state = onwards[0]
            good.update(path)
        return None

    def _rests_wrongly(self, state: State) -> str | None:
        run = state.tables.run
        if str(run.status) not in self._scenario.ends:
            return f"the run comes to rest as {run.status}"
        if run.status.is_end or run.status is RunStatus.SUSPENDED:
            return None
        waits = any(x.status is StepStatus.WAITING and x.due_at is None for x in state.tables.steps)
        return None if run.status is RunStatus.WAITING and waits else f"nothing moves a run that is {run.status}"

    def _told(self, state: State, broken: Broken, onwards: Iterable[tuple[str, str]] = ()) -> Counterexample:
        trace: list[tuple[str, str]] = []
        at: State | None = state
        while at is not None:
            came = self._reached_by[at]
            trace.append(("the run is started" if came is None else came[1], str(at)))
            at = None if came is None else came[0]
        trace.reverse()
        trace += onwards
        if len(broken.args) > 1:
            trace.append((broken.args[1], ""))
        return Counterexample(self._scenario.name, broken.args[0], tuple(trace))

    def _onwards(self, state: State) -> Iterator[tuple[str, str]]:
        """The calm continuation up to its first repetition."""
        seen: set[State] = set()
        while state not in seen:
            seen.add(state)
            onwards = self._calmly[state]
            if onwards is None:
                return
            state = onwards[0]
            yield f"(calm) {onwards[1]}", str(state)
