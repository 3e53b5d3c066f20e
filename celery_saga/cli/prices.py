"""What each kind of row costs with this code: measured now, on a database in memory, by runs that differ by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from celery import Celery

from celery_saga.definition.decorator import saga
from celery_saga.definition.retry import Retry
from celery_saga.definition.run import Run
from celery_saga.runtime.app import CelerySaga
from celery_saga.testing.lab import Lab

__all__ = ["Price", "measure", "prices"]


@dataclass(frozen=True, slots=True)
class Price:
    """Statements, commits and messages, on the average of some."""

    statements: float = 0.0
    commits: float = 0.0
    messages: float = 0.0

    def __add__(self, other: Price) -> Price:
        return Price(self.statements + other.statements, self.commits + other.commits, self.messages + other.messages)

    def times(self, count: float) -> Price:
        """Of so many."""
        return Price(self.statements * count, self.commits * count, self.messages * count)


INLINE = Price(statements=5, commits=1, messages=0)
"""Of an inline step, which a laboratory does not execute as such."""

Body = Callable[[Run, Any, int], Any]


def measure(lab: Lab, play: Callable[[], object]) -> Price:
    """What the store and the broker are asked for while something is played in a laboratory."""
    store: Any = lab.engine.store
    publisher: Any = lab.engine.publisher
    before, publish = store.trace, publisher.publish
    seen: list[str] = []
    messages: list[object] = []

    def trace(label: str) -> None:
        seen.append(label)
        before(label)

    def counting(several: Any) -> int:
        messages.extend(several)
        count: int = publish(several)
        return count

    store.trace, publisher.publish = trace, counting
    try:
        play()
    finally:
        store.trace, publisher.publish = before, publish
    started = [label.removeprefix("before:") for label in seen if label.startswith("before:")]
    # Looking what is due costs a statement now and then, whatever the runs do.
    commits = sum(label.startswith("commit") and label != "commit pick" for label in started)
    statements = sum(not label.startswith(("commit", "rollback", "peek")) for label in started)
    return Price(statements, commits, len(messages))


def prices() -> dict[str, Price]:
    """By kind of row; `run` is one without steps, `attempt` a further attempt of a step."""
    app = Celery("celery_saga_prices", set_as_current=False)
    CelerySaga(app, database_url="sqlite://")
    try:
        tasks = _tasks(app)
        empty = _play(app, tasks, lambda run, t, n: None, 0)
        found = {"run": empty}
        for kind, body in _BODIES.items():
            one, three = (_play(app, tasks, body, number) for number in (1, 3))
            found[kind] = (three + one.times(-1)).times(0.5)
            if kind == "item":
                found["join"] = one + empty.times(-1) + found[kind].times(-1)
        found["inline"] = INLINE
        found["undo"] = found["undo"] + found["step"].times(-1)
        again = _play(app, tasks, lambda run, t, n: run.step(t["again"].si(), retry=Retry(2, delay=0)), 1)
        found["attempt"] = again + empty.times(-1) + found["step"].times(-1)
        return found
    finally:
        app.close()


class _Stop(Exception):
    """Ends a body, so that its undos run."""


def _undone(run: Run, tasks: Any, number: int) -> None:
    for _ in range(number):
        run.step(tasks["work"].si(), undo=tasks["work"].si())
    raise _Stop


def _asleep(run: Run, tasks: Any, number: int) -> None:
    for _ in range(number):
        run.sleep(1)


_BODIES: dict[str, Body] = {
    "step": lambda run, t, n: [run.step(t["work"].si()) for _ in range(n)],
    "undo": _undone,
    "signal": lambda run, t, n: [run.wait_signal(f"s{number}") for number in range(n)],
    "timer": _asleep,
    "record": lambda run, t, n: [run.record(f"r{number}", lambda: 1) for number in range(n)],
    "item": lambda run, t, n: run.map(t["item"], list(range(n))),
    "child": lambda run, t, n: [run.child(t["child"]) for _ in range(n)],
}


def _tasks(app: Celery) -> dict[str, Any]:
    failed: set[str] = set()

    def work() -> int:
        return 1

    def item(number: int) -> int:
        return number

    def again() -> int:
        if "once" not in failed:
            failed.add("once")
            raise _Stop
        return 1

    def child(run: Run) -> None:
        pass

    make: Any = app.task
    made = {
        each.__name__: make(name=f"celery_saga_prices.{each.__name__}", shared=False)(each)
        for each in (work, item, again)
    }
    return {**made, "child": saga(name="celery_saga_prices.child")(child)}


def _play(app: Celery, tasks: dict[str, Any], body: Body, number: int) -> Price:
    def priced(run: Run) -> None:
        body(run, tasks, number)

    with Lab(app) as lab:
        lab.registry.put(tasks["child"])
        made = saga(name="celery_saga_prices.priced", errors=[_Stop])(priced)

        def play() -> None:
            run = lab.start(made)
            lab.drain()
            for waited in range(number if body is _BODIES["signal"] else 0):
                run.signal(f"s{waited}", 1)
                lab.drain()
            for _ in range(number if body is _asleep else 0):
                lab._move(lab.now + timedelta(seconds=1))  # not `advance`, which looks for what is due next

        return measure(lab, play)
