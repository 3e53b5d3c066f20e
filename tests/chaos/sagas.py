"""The tasks and sagas of a chaos: each run performs the tree that is its input."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from celery import shared_task
from sqlalchemy import text

from celery_saga import Retry, Run, current_step, saga, step
from celery_saga.definition.results import Collected
from tests.chaos import ledger
from tests.chaos.trees import Book, Caught, Child, Do, Join, Node, Race, Sequence, Sleep, Wait, from_plain, to_plain

BOOKS = "CREATE TABLE chaos_books (run VARCHAR(64), name VARCHAR(64), what VARCHAR(8))"
"""Made in the sagas' own database."""
_BOOK = text("INSERT INTO chaos_books VALUES (:run, :name, :what)")


class Refused(Exception):
    """What the business says; declared by every saga here."""


class Shaky(Exception):
    """What goes away when it is tried again."""


def _work(seconds: float) -> None:
    if seconds:
        threading.Event().wait(seconds)


def _die(name: str) -> None:
    ledger.append("dies", name)
    os.kill(os.getpid(), signal.SIGKILL)


@shared_task(name="chaos.do", bind=True, throws=(Refused,))
def do(self: Any, plain: dict[str, Any]) -> str:
    node = from_plain(plain)
    assert isinstance(node, Do)
    ledger.append("begins", node.name)
    dies = node.dies if current_step.attempt == 1 else ""
    _work(node.work_s / 2)
    if node.fails:
        raise Refused(node.name)
    if self.request.retries < node.flaky:
        raise Shaky(node.name)
    if dies == "before":
        _die(node.name)
    ledger.append("effect", node.name)
    if dies == "after":
        _die(node.name)
    _work(node.work_s / 2)
    return f"did {node.name}"


@shared_task(name="chaos.undo", bind=True)
def undo(self: Any, name: str, how: str) -> None:
    ledger.append("begins", name)
    if how == "broken" or (how == "flaky" and self.request.retries < 2):
        raise Shaky(name)
    ledger.append("effect", name)


@shared_task(name="chaos.book")
def book(name: str) -> str:
    current_step.connection.execute(_BOOK, {"run": current_step.run_id, "name": name, "what": "book"})
    return f"did {name}"


@shared_task(name="chaos.unbook")
def unbook(name: str) -> None:
    current_step.connection.execute(_BOOK, {"run": current_step.run_id, "name": name, "what": "unbook"})


UNDO_RETRY = Retry(max_attempts=4, delay=0.1, factor=1.0, jitter=False)


def _options(dispatch: str) -> dict[str, Any]:
    return {
        "name": f"chaos.{dispatch}",
        "key": "{order}",
        "errors": [Refused],
        "undo_retry": UNDO_RETRY,
        "dispatch": dispatch,
    }


@saga(**_options("broker"))
def by_broker(run: Run, order: str, tree: dict[str, Any]) -> Any:
    return _Body(order, by_broker).perform(run, from_plain(tree))


@saga(**_options("inline"))
def inline(run: Run, order: str, tree: dict[str, Any]) -> Any:
    return _Body(order, inline).perform(run, from_plain(tree))


SAGAS = {"broker": by_broker, "inline": inline}


class _Body:
    """Performs the tree of one order; a child is of the same saga, and its key says which node it performs."""

    def __init__(self, order: str, mine: Any) -> None:
        self._order, self._saga = order, mine

    def perform(self, run: Run, node: Node) -> Any:
        match node:
            case Do() | Book():
                return run.step(self._signature(node))
            case Child():
                return run.child(self._saga, *self._input(node))
            case Sleep():
                run.sleep(node.seconds)
                return None
            case Wait(name=name, timeout_s=None):
                return run.wait_signal(name)
            case Wait():
                return run.wait_signal(node.name, timeout=node.timeout_s, default="late")
            case Sequence():
                return [self.perform(run, each) for each in node.nodes]
            case Join():
                return self._join(run, node)
            case Race():
                arms: dict[str, Any] = {f"a{number}": self._part(each) for number, each in enumerate(node.arms)}
                won = run.race(**arms, **({} if node.late_s is None else {"late": node.late_s}))
                return [won.name, won.value]
            case Caught():
                return self._caught(run, node)

    def _caught(self, run: Run, node: Caught) -> list[Any]:
        try:
            if node.is_scope:
                with run.scope(node.name):
                    return ["went", self.perform(run, node.node)]
            return ["went", self.perform(run, node.node)]
        except Refused as error:
            return ["caught", str(error)]

    def _join(self, run: Run, node: Join) -> list[Any]:
        how: Any = {"concurrency": node.concurrency, "on_failure": "collect" if node.collects else "abort"}
        if node.is_map:
            got: Any = run.map(self.perform, list(node.parts), **how)
        else:
            got = run.group([self._part(each) for each in node.parts], **how)
        if isinstance(got, Collected):
            return [["ok", each.output] if each.ok else ["error", str(each.error)] for each in got.results]
        return list(got)

    def _part(self, node: Node) -> Any:
        if isinstance(node, Do | Book):
            return self._signature(node)
        if isinstance(node, Child):
            return self._saga.s(*self._input(node))
        return lambda run: self.perform(run, node)

    def _input(self, node: Child) -> tuple[str, dict[str, Any]]:
        return f"{self._order}/{node.name}", to_plain(node.node)

    def _signature(self, node: Do | Book) -> Any:
        if isinstance(node, Book):
            return step(book.si(node.name), name=node.name, undo=unbook.si(node.name), transactional=True)
        retry = Retry(max_attempts=node.flaky + 1, delay=0.1, factor=1.0, jitter=False) if node.flaky else None
        return step(
            do.si(to_plain(node)),
            name=node.name,
            undo=None if node.undo == "none" else undo.si(node.name, node.undo),
            retry=retry,
        )
