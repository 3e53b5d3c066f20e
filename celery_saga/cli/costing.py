"""The command that tells what runs cost: `cost`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from celery_saga.cli.prices import Price, prices
from celery_saga.cli.session import Session, command
from celery_saga.cli.tables import Cell, Table, counted
from celery_saga.store.costs import Left, left_by

__all__ = ["Cost", "cost", "cost_of"]

_NUMBERS = re.compile(r"(\[[^\]]*\])|(#\d+)")
_COLUMNS = ("step", "kind", "runs", "attempts", "statements", "commits", "messages", "bytes")


@dataclass(frozen=True, slots=True)
class Cost:
    """What one step, or all of a run, costs, on the average of some runs.

    Args:
        step: its key, without the numbers of parts and repeats; empty for what belongs to no step.
        kind: as `StepKind`, or `run`.
        count: rows of it in a run.
        attempts: attempts of it in a run.
        price: statements, commits and messages in a run.
        stored_bytes: of its texts in a run, as stored.
    """

    step: str
    kind: str
    count: float
    attempts: float
    price: Price
    stored_bytes: float

    def document(self) -> dict[str, Any]:
        """As JSON values, rounded to hundredths."""
        price = self.price
        numbers = {
            "count": self.count,
            "attempts": self.attempts,
            "statements": price.statements,
            "commits": price.commits,
            "messages": price.messages,
            "bytes": self.stored_bytes,
        }
        return {"step": self.step, "kind": self.kind, **{name: round(value, 2) for name, value in numbers.items()}}


def cost_of(runs: int, left: Iterable[Left], price: Mapping[str, Price]) -> list[Cost]:
    """What `runs` runs have cost by what they have left: the run itself first, then its steps by key.

    Args:
        price: of each kind of row, as `prices()`.
    """
    steps: dict[tuple[str, str], list[Left]] = defaultdict(list)
    rest_bytes = 0
    for each in left:
        if each.kind in {"run", "signal", "history"}:
            rest_bytes += each.texts_bytes
        else:
            steps[_NUMBERS.sub("", each.key), each.kind].append(each)
    found = [Cost("", "run", 1.0, 0.0, price["run"], rest_bytes / runs)]
    for (key, kind), rows in sorted(steps.items()):
        total = Price()
        for each in rows:
            total += price[_kind_of(each)].times(each.rows)
            total += price["attempt"].times(max(0, each.attempts - each.rows)) if each.attempts else Price()
        count, attempts = sum(x.rows for x in rows), sum(x.attempts for x in rows)
        size = sum(x.texts_bytes for x in rows)
        found.append(Cost(key, kind, count / runs, attempts / runs, total.times(1 / runs), size / runs))
    return found


def _kind_of(left: Left) -> str:
    """Whose price it has."""
    if left.kind in {"undo", "chord"}:
        return "undo"
    if left.in_join and left.kind in {"step", "part"}:
        return "item"
    if left.kind == "step":
        return "step" if left.sent else "inline"
    return left.kind if left.kind in {"signal", "timer", "join", "child"} else "record"


@command("cost", short_help="Tell what runs cost: statements, commits, messages, bytes.")
@click.argument("saga", required=False)
@click.option("--runs", default=100, show_default=True, type=click.IntRange(1, 10_000), help="So many, the last ended.")
def cost(session: Session, saga: str | None, runs: int) -> None:
    """Tell what the last ended runs of a saga, or of each, have cost on the average, by step.

    Rows, attempts and bytes are counted in the database. What a row of each kind takes in statements, commits and
    messages is measured now, with this code, on a database in memory. No task of yours is executed.
    """
    session.check_saga(saga)
    price = prices()
    names = [saga] if saga is not None else sorted({each.name for each in session.registry})
    documents = []
    for name in names:
        number, left = left_by(session.store, name, runs=runs)
        costs = cost_of(number, left, price) if number else []
        documents.append(_document(name, number, costs))
        if not session.out.as_json:
            _show(session, name, number, costs)
    if session.out.as_json:
        measured = {
            kind: {"statements": x.statements, "commits": x.commits, "messages": x.messages}
            for kind, x in price.items()
        }
        session.out.document({"sagas": documents, "prices": measured})


def _total(costs: Iterable[Cost]) -> Cost:
    all_of = list(costs)
    price = Price()
    for each in all_of:
        price += each.price
    return Cost("", "all", 1.0, sum(x.attempts for x in all_of), price, sum(x.stored_bytes for x in all_of))


def _document(name: str, number: int, costs: list[Cost]) -> dict[str, Any]:
    total = {} if not costs else _total(costs).document()
    names = ("attempts", "statements", "commits", "messages", "bytes")
    return {
        "saga": name,
        "runs": number,
        "per_run": {each: total[each] for each in names} if total else None,
        "steps": [each.document() for each in costs],
    }


def _show(session: Session, name: str, number: int, costs: list[Cost]) -> None:
    session.out.say(f"{name}: {counted(number, 'ended run')}")
    if costs:
        session.out.table(Table(_COLUMNS, [_cells(each) for each in (*costs, _total(costs))]))


def _cells(of: Cost) -> Sequence[Cell | str]:
    price = of.price
    numbers = (of.count, of.attempts, price.statements, price.commits, price.messages, of.stored_bytes)
    return [Cell(of.step or "-"), Cell(of.kind), *(Cell(f"{number:.4g}") for number in numbers)]
