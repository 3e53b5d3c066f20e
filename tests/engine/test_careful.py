"""A careful advance: a counted claim on the run is committed before its body is executed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from celery_saga import Run, saga
from celery_saga.core.decision import Decision
from celery_saga.core.failure import Failure
from celery_saga.core.records import RunRecord
from celery_saga.core.snapshot import Snapshot
from celery_saga.core.status import RunStatus
from celery_saga.engine.engine import Engine
from tests.scenarios.house import House


class Disturbed:
    """The definitions of a house; while the first decision is taken, a signal moves the run."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.decisions = 0

    def decide(self, snapshot: Snapshot, now: datetime) -> Decision | None:
        self.decisions += 1
        if self.decisions == 1:
            self._house.engine.signal(snapshot.run.id, "news")
        return self._house.registry.decide(snapshot, now)

    def known(self) -> Iterable[tuple[str, int]]:
        return self._house.registry.known()

    def is_declared(self, run: RunRecord, error: Failure) -> bool:
        return False


def test_a_careful_advance_that_comes_too_late_decides_anew_under_its_own_claim() -> None:
    """Nothing died, so nothing is counted, and its claim does not keep it out until the lease ends."""
    with House("sqlite://") as house:

        @house.task("careful.noop")
        def noop() -> int:
            return 1

        @saga(name="careful")
        def careful(run: Run) -> None:
            run.step(noop.si())

        house.add(careful)
        handle = careful.start()
        for _ in range(2):  # nobody takes the wake-up, so that it is repeated
            house.now += timedelta(seconds=30)
            house.engine.sweep()
        definitions = Disturbed(house)

        Engine(house.store, house, definitions).coordinate(handle.id)

        after = house.engine.run_of(handle.id)
        assert (after.status, after.stalls, definitions.decisions) == (RunStatus.RUNNING, 0, 2)
        assert [step.key for step in house.store.steps(handle.id)] == ["noop"]
