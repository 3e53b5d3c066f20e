"""What a part of a join costs does not depend on how many there are, nor what follows on how many there were."""

from __future__ import annotations

from collections import Counter
from typing import Any

from celery_saga import Run, saga
from celery_saga.core.snapshot import Snapshot
from tests.scenarios.house import House

_WIDTH = 150


class Meter:
    """Counts the statements of each message, and how many steps each pass was given."""

    def __init__(self, house: House) -> None:
        self.statements: list[int] = []
        self.seen: list[int] = []
        self._house = house
        decide = house.registry.decide

        def counted(snapshot: Snapshot, *args: Any, **kwargs: Any) -> Any:
            self.seen.append(len(snapshot.steps))
            return decide(snapshot, *args, **kwargs)

        house.registry.decide = counted  # type: ignore[method-assign]

    def drain(self) -> None:
        """Deliver until nothing is left, counting for each message."""
        while self._house.messages:
            labels: list[str] = []
            self._house.store.trace = labels.append
            self._house.deliver(self._house.messages.pop(0))
            self._house.store.trace = None
            self.statements.append(sum(label.startswith("before:") for label in labels))


def test_each_item_of_a_map_takes_the_same_statements_and_a_pass_over_one_sees_only_that(house: House) -> None:
    @house.task("cost.double")
    def double(number: int) -> int:
        return 2 * number

    @saga(name="cost-map")
    def body(run: Run) -> int:
        def item(run: Run, number: int) -> int:
            return run.step(double.si(run.step(double.si(number))))

        return sum(run.map(item, range(_WIDTH), concurrency=10))

    house.add(body)
    handle = body.start()
    house.deliver(house.messages.pop(0))
    meter = Meter(house)

    meter.drain()

    assert handle.wait(1) == 2 * _WIDTH * (_WIDTH - 1)
    first, last = meter.statements[60:120], meter.statements[-120:-60]
    assert Counter(first) == Counter(last) or abs(sum(first) - sum(last)) <= len(first) // 10
    # the join, the part, its steps; but for the pass over the body at the end, and its first message's second delivery
    assert sum(x > 5 for x in meter.seen) <= 2


def test_the_steps_after_a_map_see_one_row_of_it(house: House) -> None:
    @house.task("cost.one")
    def one(number: int) -> int:
        return number

    @saga(name="cost-after")
    def body(run: Run) -> int:
        got = run.map(one, range(_WIDTH))
        for number in range(5):
            run.step(one.si(number), name=f"after {number}")
        return len(got)

    house.add(body)
    handle = body.start()
    house.deliver(house.messages.pop(0))
    meter = Meter(house)

    meter.drain()

    assert handle.wait(1) == _WIDTH
    assert meter.seen[-5:] == [2, 3, 4, 5, 6]


def test_parts_that_there_was_no_time_to_send_are_sent_by_the_next_sweep(house: House) -> None:
    @house.task("cost.sent")
    def one(number: int) -> int:
        return number

    @saga(name="cost-sent")
    def body(run: Run) -> int:
        return len(run.map(one, range(_WIDTH)))

    house.add(body)
    handle = body.start()
    publish = house.publish
    house.publish = lambda messages: publish(messages[:7]) and min(7, len(messages))  # type: ignore[method-assign]
    house.drain()
    waiting = sum(x.status.value == "scheduled" for x in house.store.steps(handle.id))
    house.publish = publish  # type: ignore[method-assign]

    house.sweep()

    assert waiting == _WIDTH - 7
    assert handle.wait(1) == _WIDTH
