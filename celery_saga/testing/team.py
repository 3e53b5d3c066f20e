"""Racers for tests: processes that do their work at the same moment, or threads where a store lives in one process."""

from __future__ import annotations

import multiprocessing
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any, Protocol

from celery_saga.store import SqlStore

Task = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function of a module, which gets a store and then these arguments; both travel to another process."""

ANSWER_TIMEOUT_S = 60.0


class Team(Protocol):
    """Runs tasks at once."""

    size: int

    def race(self, tasks: Sequence[Task]) -> list[Any]:
        """The tasks' answers, in their order.

        Raises:
            AssertionError: a racer failed or did not answer within 60 s.
        """


class ProcessTeam:
    """Racers in processes of their own, each with a store of its own; a context manager.

    Args:
        open_store: opens the store; travels to the processes.
        size: number of processes.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._opener: Callable[[], SqlStore] | None = None
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes = []
        for _ in range(size):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(there,), daemon=True)
            process.start()
            there.close()
            self._pipes.append(here)
            self._processes.append(process)

    def on(self, opener: Callable[[], SqlStore]) -> ProcessTeam:
        """From now on, race on this store."""
        self._opener = opener
        return self

    def race(self, tasks: Sequence[Task]) -> list[Any]:
        """See `Team`; more tasks than processes run as threads in them."""
        shares = [list(tasks[n :: self.size]) for n in range(self.size)]
        busy = [(pipe, share) for pipe, share in zip(self._pipes, shares, strict=True) if share]
        for pipe, share in busy:
            pipe.send((self._opener, share))
        for pipe, _ in busy:
            _receive(pipe)  # connected
        for pipe, _ in busy:
            pipe.send("go")
        answers: list[Any] = [None] * len(tasks)
        for number, (pipe, _) in enumerate(busy):
            answers[number :: self.size] = _receive(pipe)
        return answers

    def close(self) -> None:
        """End the processes."""
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            pipe.close()
            process.join(10)
            process.kill()
            process.join()
            process.close()


class ThreadTeam:
    """Racers as threads on one store, for a database in memory."""

    def __init__(self, store: SqlStore, size: int) -> None:
        self.size = size
        self._store = store

    def race(self, tasks: Sequence[Task]) -> list[Any]:
        """See `Team`."""
        return _at_once(self._store, tasks)


def _serve(pipe: Connection) -> None:
    try:
        while True:
            opener, tasks = pipe.recv()
            store: SqlStore = opener()
            try:
                store.now()
                pipe.send(("ok", None))
                pipe.recv()
                pipe.send(("ok", _at_once(store, tasks)))
            except BaseException:
                pipe.send(("failed", traceback.format_exc()))
                raise
            finally:
                store.close()
    except (EOFError, OSError):
        return


def _at_once(store: SqlStore, tasks: Sequence[Task]) -> list[Any]:
    start = threading.Barrier(len(tasks))

    def run(task: Task) -> Any:
        start.wait(10)
        function, arguments = task
        return function(store, *arguments)

    with ThreadPoolExecutor(len(tasks)) as pool:
        return [future.result(ANSWER_TIMEOUT_S) for future in [pool.submit(run, task) for task in tasks]]


def _receive(pipe: Connection) -> Any:
    if not pipe.poll(ANSWER_TIMEOUT_S):
        raise AssertionError(f"a racer did not answer within {ANSWER_TIMEOUT_S:g} s")
    word, answer = pipe.recv()
    if word != "ok":
        raise AssertionError(f"a racer failed:\n{answer}")
    return answer
