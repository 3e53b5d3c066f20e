"""What is known after a chaos: rows of the ledger, of the sagas' tables, and what was done to whom. Plain values."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.trees import Node, from_plain, to_plain


@dataclass(frozen=True)
class Row:
    """Of the ledger. `what`: an attempt `begins`, has its `effect`, or `dies` by its own hand. Times: Unix seconds."""

    id: int
    what: str
    run: str
    step: str
    name: str
    token: str
    attempt: int
    pid: int
    at: float


@dataclass(frozen=True)
class StepRow:
    """Of the step table."""

    run: str
    key: str
    kind: str
    status: str
    attempt: int
    failures: int
    stalls: int
    maybe: bool
    seq: int | None
    ended_at: float | None
    leased: bool
    has_undo: bool


@dataclass(frozen=True)
class RunRow:
    """Of the run table; `result` only where it completed."""

    id: str
    order: str
    status: str
    reason: str | None
    error: str | None
    parent: str | None
    created_at: float
    ended_at: float | None
    leased: bool
    result: Any = None


@dataclass(frozen=True)
class Hit:
    """Something that was done, from when to when, to which processes; none: to a server."""

    kind: str
    at: float
    until: float
    pids: tuple[int, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Evidence:
    """All of it.

    Args:
        trees: by the order of each run that was started, children not among them.
        cancelled: orders of which a cancel was taken.
        books: rows of transactional steps: run, name, `book` or `unbook`, and how many.
        oks: how often the history says that a step succeeded: run, step, count.
        loads: what is left open at the end, in words: leases, transactions, messages.
        log: lines of workers in which the plug-in reports what nobody meant.
        lease_s: of the workers.
        troubles_over_at: when the last fault was over.
    """

    trees: dict[str, Node]
    cancelled: frozenset[str]
    rows: tuple[Row, ...]
    runs: tuple[RunRow, ...]
    steps: tuple[StepRow, ...]
    hits: tuple[Hit, ...]
    books: tuple[tuple[str, str, str, int], ...] = ()
    oks: tuple[tuple[str, str, int], ...] = ()
    loads: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    lease_s: float = 6.0
    troubles_over_at: float = 0.0
    unstarted: tuple[str, ...] = field(default=())

    def save(self, place: Path) -> None:
        """As JSON, to be checked again."""
        plain = asdict(self)
        plain["trees"] = {order: to_plain(tree) for order, tree in self.trees.items()}
        plain["cancelled"] = sorted(self.cancelled)
        place.write_text(json.dumps(plain, default=str))

    @classmethod
    def load(cls, place: Path) -> Evidence:
        """What `save` has written."""
        told = json.loads(place.read_text())
        made: dict[str, Any] = {
            **told,
            "trees": {order: from_plain(tree) for order, tree in told["trees"].items()},
            "cancelled": frozenset(told["cancelled"]),
            "rows": tuple(Row(**each) for each in told["rows"]),
            "runs": tuple(RunRow(**each) for each in told["runs"]),
            "steps": tuple(StepRow(**each) for each in told["steps"]),
            "hits": tuple(Hit(**{**each, "pids": tuple(each["pids"])}) for each in told["hits"]),
            **{name: tuple(map(tuple, told[name])) for name in ("books", "oks")},
            **{name: tuple(told[name]) for name in ("loads", "log", "unstarted")},
        }
        return cls(**made)
