"""While the broker is away nothing is put off for longer than a lease, so that its return is noticed soon."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from celery_saga import Run, saga
from celery_saga.core.status import RunStatus
from celery_saga.engine.ports import Limits, Message
from tests.scenarios.house import House

LEASE_S = 30.0
_SECOND = timedelta(seconds=1)


class Outage(House):
    """A house whose broker can be away."""

    away = False

    def publish(self, messages: Sequence[Message]) -> int:
        return 0 if self.away else super().publish(messages)

    def depth(self, message: Message, *, sent_s: float | None = None) -> int:
        return -1 if self.away else len(self.messages)


@pytest.mark.parametrize("wakes", ["run", "step"])
def test_after_a_long_time_without_a_broker_a_wake_up_goes_out_within_a_lease(wakes: str) -> None:
    with Outage("sqlite://", limits=Limits(lease_s=LEASE_S)) as house:

        @house.task(f"outage.noop_{wakes}")
        def noop() -> int:
            return 1

        @saga(name=f"outage_{wakes}")
        def outage(run: Run) -> int:
            return run.step(noop.si())

        house.add(outage)
        house.away = wakes == "run"
        handle = outage.start()
        if wakes == "step":
            house.away = True
            house.drain()  # decides, and cannot send what it ordered
        for _ in range(100):
            house.advance(LEASE_S)
        assert house.messages == []

        house.away = False
        house.advance(LEASE_S)

        assert handle.refresh().status is RunStatus.COMPLETED


def test_a_backlog_is_told_from_an_outage() -> None:
    """A message that waits in its queue is not sent again, and is looked for less and less often."""
    with Outage("sqlite://", limits=Limits(lease_s=LEASE_S)) as house:

        @saga(name="backlog")
        def backlog(run: Run) -> None:
            pass

        house.add(backlog)
        backlog.start()
        for _ in range(120):
            house.now += (LEASE_S + 1) * _SECOND
            house.engine.sweep()

        assert len(house.messages) == 1
        (run,) = (message.run for message in house.messages)
        assert 4 <= house.engine.run_of(run.id).sends <= 12
