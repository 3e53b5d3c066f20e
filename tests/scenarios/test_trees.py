"""Trees of runs on real databases: threads that race, messages that come twice, failures, cancels."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from queue import Queue
from typing import Any

import pytest

from celery_saga import Run, Saga, saga, step
from celery_saga.core.ports import RunFilter
from celery_saga.core.status import RunStatus
from celery_saga.engine.ports import Message
from tests.scenarios.house import House
from tests.servers import fresh_mariadb_database, fresh_postgresql_database

pytestmark = pytest.mark.servers

THREADS, TREES, ROUNDS = 4, 8, 400


class Crowd(House):
    """A house whose messages are delivered by threads, every fifth of them twice."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.chance = random.Random(7)
        self.waiting: Queue[Message | None] = Queue()
        self.world: set[str] = set()
        self.errors: list[Exception] = []
        self.saga = _sagas(self)

    def publish(self, messages: Sequence[Message]) -> int:
        for message in messages:
            for _ in range(2 if self.chance.random() < 0.2 else 1):
                self.waiting.put(message)
        return len(messages)

    def work(self) -> None:
        """What one thread does until it is told to stop."""
        while (message := self.waiting.get()) is not None:
            try:
                self.deliver(message)
            except Exception as error:  # noqa: BLE001 - looked at in the end
                self.errors.append(error)
            finally:
                self.waiting.task_done()

    def come_to_rest(self, handles: list[Any]) -> None:
        """Cancel some while they go on, and sweep whenever nothing is delivered: no lease ends under a thread."""
        idle = self.waiting.all_tasks_done
        for _ in range(ROUNDS):
            with idle:
                is_idle = idle.wait_for(lambda: self.waiting.unfinished_tasks == 0, timeout=0.02)
            if is_idle:
                self.now += timedelta(seconds=31)
                self.engine.sweep()
            if self.chance.random() < 0.1:
                self.engine.cancel(self.chance.choice(handles).id)
            if all(each.refresh().status.is_end for each in handles):
                return

    def work_off(self) -> None:
        """Deliver what is left, now that nobody else does."""
        while not self.waiting.empty():
            message = self.waiting.get()
            if message is not None:
                self.deliver(message)


def _sagas(house: Crowd) -> Saga[Any, Any]:
    @house.task("trees.do")
    def do(name: str) -> None:
        if house.chance.random() < 0.04:
            raise ValueError(name)
        house.world.add(name)

    @house.task("trees.undo")
    def undo(name: str) -> None:
        house.world.discard(name)

    def one(name: str) -> Any:
        return step(do.si(name), undo=undo.si(name))

    @saga(name="trees-leaf", errors=[ValueError])
    def leaf(run: Run, name: str) -> None:
        run.step(one(f"{name}/1"))
        run.step(one(f"{name}/2"))

    @saga(name="trees-middle", errors=[ValueError])
    def middle(run: Run, name: str) -> None:
        run.child(leaf, f"{name}/a")
        try:
            run.group(leaf.s(f"{name}/b"), leaf.s(f"{name}/c"))
        except ValueError:
            run.step(one(f"{name}/instead"))
        run.step(one(f"{name}/last"))

    @saga(name="trees-top", errors=[ValueError])
    def top(run: Run, name: str) -> None:
        run.map(middle, [f"{name}.{number}" for number in range(2)], concurrency=1)

    house.add(leaf, middle, top)
    return top


@pytest.fixture(params=["postgresql", "mariadb"])
def crowd(request: pytest.FixtureRequest) -> Iterator[Crowd]:
    fresh = fresh_mariadb_database() if request.param == "mariadb" else fresh_postgresql_database("psycopg2")
    with fresh as url, Crowd(url) as house:
        yield house


def test_a_tree_that_did_not_complete_leaves_nothing_behind_and_nobody_alive(crowd: Crowd) -> None:
    threads = [threading.Thread(target=crowd.work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    try:
        handles = [crowd.saga.start(f"t{number}") for number in range(TREES)]
        crowd.come_to_rest(handles)
    finally:
        for _ in threads:
            crowd.waiting.put(None)
        for thread in threads:
            thread.join()

    crowd.work_off()
    assert crowd.errors == []
    assert [x.status for x in crowd.store.runs(RunFilter(limit=1000)) if not x.status.is_end] == []
    for number, handle in enumerate(handles):
        left = [name for name in crowd.world if name.startswith(f"t{number}.")]
        assert (left != []) == (handle.status is RunStatus.COMPLETED), (handle.status, left)
