"""Tasks that write down what they did, fail as told, and are undone: what most scenarios of steps are made of."""

from __future__ import annotations

from collections import Counter
from typing import Any

from celery_saga import step
from tests.scenarios.house import House


class Boom(Exception):
    """What the tasks raise; declared where a test declares it."""


class Bench:
    """A task that does and one that undoes, in one house.

    `calls` holds `do NAME` and `undo NAME` in order; `fail` says how often a name, or `undo NAME`, raises `error`.
    """

    def __init__(self, house: House) -> None:
        self.calls: list[str] = []
        self.fail: Counter[str] = Counter()
        self.error: type[Exception] = Boom

        @house.task("bench.do")
        def do(name: str) -> str:
            return self._called(name, f"do {name}")

        @house.task("bench.undo")
        def undo(name: str) -> None:
            self._called(f"undo {name}", f"undo {name}")

        self.do, self.undo = do, undo

    def step(self, name: str, **options: Any) -> Any:
        """A signature of `do` with its undo."""
        return step(self.do.si(name), undo=self.undo, **options)

    def since(self) -> list[str]:
        """What was called since this was asked last."""
        calls, self.calls[:] = list(self.calls), []
        return calls

    def _called(self, name: str, what: str) -> str:
        self.calls.append(what)
        if self.fail[name] > 0:
            self.fail[name] -= 1
            raise self.error(name)
        return name
