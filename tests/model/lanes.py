"""Every order of what can happen to runs in one capped lane: the real engine on real SQL, breadth first.

A state is the database in memory, copied, with the messages under way, the attempts that run, and the faults that are
left. Two states count as one where rows, messages and attempts say the same, whatever the ids and instants are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from celery_saga import Lane, Retry, Run, RunHandle
from celery_saga.core.attempts import Failed
from celery_saga.core.failure import capture
from celery_saga.core.lanes import SlotState
from celery_saga.core.ports import Claimed
from celery_saga.engine.ports import Message, RunMessage
from tests.lanes.yard import Yard
from tests.scenarios.house import House

LANE = "lane:model"
_GRANTED = (SlotState.HELD.value, SlotState.USED.value)
_QUEUED = (SlotState.QUEUED.value, SlotState.BACK.value)
_PAUSE_S = 40.0  # longer than a lease and a look
_SLOTS = "SELECT id, run_id, turn, state FROM saga_slot WHERE lane = 'lane:model' ORDER BY turn, id"


class Died(BaseException):
    """A process has died right after a commit."""


class Broken(AssertionError):
    """A rule does not hold."""


@dataclass(frozen=True)
class Faults:
    """How many of each may still happen."""

    deaths: int = 0
    lost: int = 0
    cancels: int = 0
    parks: int = 0
    failures: int = 0


@dataclass(frozen=True)
class State:
    """All there is, and how it was reached."""

    database: bytes
    now: datetime
    messages: tuple[Message, ...]
    held: tuple[Claimed, ...]
    faults: Faults
    trace: tuple[str, ...] = ()


Move = tuple[str, Callable[[], object], Faults]


class Lanes:
    """One search.

    Args:
        house: in memory, empty.
        priorities: of the runs that are started, one each.
        cap: of their lane.
        allowed: how many may be let in; None: as many as `cap` says.
    """

    def __init__(
        self, house: House, priorities: tuple[int, ...], faults: Faults, *, cap: int = 1, allowed: int | None = None
    ) -> None:
        self.house, self.allowed = house, cap if allowed is None else allowed
        self.deaths = 0
        self.held: list[Claimed] = []
        yard = Yard(house)

        def body(run: Run, name: str) -> str:
            return run.step(yard.do.si(name), retry=Retry(3, delay=5, jitter=False))

        made = yard.saga(body, name="model_lanes", lane=Lane("model", cap=cap))
        self.runs: list[RunHandle[Any]] = [
            made.options(priority=priority).start(f"r{number}") for number, priority in enumerate(priorities)
        ]
        self._numbers = {run.id: number for number, run in enumerate(self.runs)}
        self._raw = house.store.sessions.engine.raw_connection()
        self._database: Any = self._raw.driver_connection
        self._first = self._state(faults)
        self.moves = 0

    # -- states ------------------------------------------------------------------------------------------------
    def _state(self, faults: Faults, trace: tuple[str, ...] = ()) -> State:
        house = self.house
        return State(self._database.serialize(), house.now, tuple(house.messages), tuple(self.held), faults, trace)

    def _restore(self, state: State) -> None:
        self._database.rollback()
        self._database.deserialize(state.database)
        self.house.now, self.house.messages, self.held = state.now, list(state.messages), list(state.held)

    def _rows(self, statement: str) -> list[Any]:
        return list(self._database.execute(statement))

    def _seen(self, faults: Faults) -> object:
        now = self.house.now.strftime("%Y-%m-%d %H:%M:%S.%f")

        def when(at: Any) -> str:
            return "never" if at is None else "due" if str(at) <= now else "later"

        runs = [
            (self._numbers[row[0]], *row[1:-2], when(row[-2]), when(row[-1]))
            for row in self._rows(
                "SELECT id, status, admission, reason, outcome, sends > 0, wake_at, not_before_at FROM saga_run"
            )
        ]
        steps = [
            (self._numbers[row[0]], *row[1:-1], when(row[-1]))
            for row in self._rows('SELECT run_id, "key", status, attempt, sends > 0, wake_at FROM saga_step')
        ]
        slots = [
            (self._numbers[row[0]], row[1], row[2], when(row[3]))
            for row in self._rows("SELECT run_id, state, kept, wake_at FROM saga_slot ORDER BY turn, id")
        ]
        lane = [when(row[0]) for row in self._rows("SELECT wake_at FROM saga_lane")]
        messages = sorted(self._named(message) for message in self.house.messages)
        held = sorted((self._numbers[each.step.run_id], each.step.attempt) for each in self.held)
        return repr((sorted(map(repr, runs)), sorted(map(repr, steps)), slots, lane, messages, held, faults))

    def _named(self, message: Message) -> tuple[int, str]:
        if isinstance(message, RunMessage):
            return self._numbers[message.run.id], "run"
        return self._numbers[message.step.run_id], f"{message.step.key} {message.step.attempt}"

    # -- moves: the first is the fair one ----------------------------------------------------------------------
    def _moves(self, faults: Faults) -> Iterator[Move]:
        house = self.house
        for place, message in enumerate(house.messages):
            yield f"deliver {self._named(message)}", lambda place=place: self._deliver(place), faults
        for place, each in enumerate(self.held):
            yield f"finish {self._numbers[each.step.run_id]}", lambda place=place: self._finish(place), faults
        if not house.messages and not self.held:
            parked = [run for run in self.runs if house.engine.run_of(run.id).status == "suspended"]
            if parked:
                yield "resume", lambda: parked[0].resume(by="model"), faults
            yield "time passes", self._pass, faults
        yield from self._faulty(faults)

    def _faulty(self, faults: Faults) -> Iterator[Move]:
        live = [run for run in self.runs if not _status(self.house, run).is_end]
        if faults.lost:
            for place, message in enumerate(self.house.messages):
                left = replace(faults, lost=faults.lost - 1)
                yield f"lose {self._named(message)}", lambda place=place: self.house.messages.pop(place), left
        for place, each in enumerate(self.held):
            number = self._numbers[each.step.run_id]
            if faults.deaths:
                left = replace(faults, deaths=faults.deaths - 1)
                yield f"attempt of {number} dies", lambda place=place: self.held.pop(place), left
            if faults.failures:
                left = replace(faults, failures=faults.failures - 1)
                yield f"attempt of {number} fails", lambda place=place: self._fail(place), left
        for run in live:
            number = self._numbers[run.id]
            if faults.cancels:
                left = replace(faults, cancels=faults.cancels - 1)
                yield f"cancel {number}", lambda run=run: run.cancel(), left
            if faults.parks and _status(self.house, run).is_forward:
                left = replace(faults, parks=faults.parks - 1)
                yield f"park {number}", lambda run=run: run.suspend(), left

    def _deliver(self, place: int) -> None:
        message = self.house.messages.pop(place)
        if isinstance(message, RunMessage):
            self.house.deliver(message)
        elif (claimed := self.house.claim(message.step, "model:1")) is not None:
            self.held.append(claimed)

    def _finish(self, place: int) -> None:
        self.house.finish(self.held.pop(place))

    def _fail(self, place: int) -> None:
        claimed = self.held.pop(place)
        self.house.engine.check_in(claimed, Failed(capture(ValueError("again")), 5.0))

    def _pass(self) -> None:
        self.house.now += timedelta(seconds=_PAUSE_S)
        self.house.engine.sweep()

    # -- the search --------------------------------------------------------------------------------------------
    def walk(self, *, at_most: int) -> int:
        """How many states there are.

        Raises:
            Broken: a rule does not hold; the way to it is told.
        """
        self._restore(self._first)
        seen = {self._seen(self._first.faults)}
        calmly: dict[object, object] = {}
        queue = deque([self._first])
        while queue:
            state = queue.popleft()
            self._restore(state)
            key = self._seen(state.faults)
            if self._is_over():
                calmly[key] = None
                continue
            for number, (next_key, after) in enumerate(self._from(state)):
                if number == 0:
                    calmly[key] = next_key
                if next_key not in seen:
                    seen.add(next_key)
                    queue.append(after)
                    assert len(seen) <= at_most, "there are more states than expected"
        self._all_end(calmly)
        return len(seen)

    def _from(self, state: State) -> Iterator[tuple[object, State]]:
        for number, (label, _, left) in enumerate(list(self._moves(state.faults))):
            yield self._made(state, number, label, left)
            death = 1
            while left.deaths:
                made = self._made(state, number, label, replace(left, deaths=left.deaths - 1), dies_at=death)
                if made is None:
                    break
                yield made
                death += 1

    def _made(self, state: State, number: int, label: str, left: Faults, *, dies_at: int = 0) -> Any:
        """One move from a state; None: it makes fewer commits than those after which it was to die."""
        self._restore(state)
        before = self._rows(_SLOTS)
        move = list(self._moves(state.faults))[number][1]
        commits = 0

        def trace(told: str) -> None:
            nonlocal commits
            if told.startswith("after:commit"):
                commits += 1
                if commits == dies_at:
                    raise Died

        self.house.store.trace = trace if dies_at else None
        try:
            move()
            if dies_at:
                return None
        except Died:
            label += f", dies after commit {dies_at}"
            self.deaths += 1
        finally:
            self.house.store.trace = None
        self.moves += 1
        way = (*state.trace, label)
        self._check(before, way)
        return self._seen(left), self._state(left, way)

    def _check(self, before: list[Any], way: tuple[str, ...]) -> None:
        after = self._rows(_SLOTS)
        granted = [row for row in after if row[3] in _GRANTED]
        if len(granted) > self.allowed:
            raise Broken(f"{len(granted)} slots of {self.allowed}: {way}")
        was = {row[0]: row[3] for row in before}
        waits = [row for row in after if row[3] in _QUEUED and was.get(row[0]) in _QUEUED]
        for each in granted:
            overtaken = [row for row in waits if (row[2], row[0]) < (each[2], each[0])]
            if was.get(each[0]) not in _GRANTED and overtaken:
                raise Broken(f"{each} is let in before {overtaken}: {way}")

    def _is_over(self) -> bool:
        if not all(_status(self.house, run).is_end for run in self.runs):
            return False
        self.house.messages.clear()
        self.held.clear()
        self._pass()
        left = [row for row in self._rows(_SLOTS) if row[3] != SlotState.GONE.value]
        if left:
            raise Broken(f"slots were not returned: {left}")
        return True

    def _all_end(self, calmly: dict[object, object]) -> None:
        """Nobody waits for ever: from every state the fair moves alone lead to the end."""
        ends = {key for key, after in calmly.items() if after is None}
        for start in calmly:
            path, key = [], start
            while key not in ends:
                path.append(key)
                key = calmly[key]
                if key in path:
                    raise Broken(f"it never ends: {start}")
            ends.update(path)


def _status(house: House, run: RunHandle[Any]) -> Any:
    """As stored now."""
    return house.engine.run_of(run.id).status
