"""Compares the outside world with the step table: each finding is one sentence about something that must not be.

What an at-least-once window allows is known from what was done to whom: an attempt may be repeated when its process
was killed, or stood still for most of a lease, before the next one began; and what such a process still does
afterwards comes late. Everything else is a finding.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations, pairwise

from tests.chaos.evidence import Evidence, Hit, Row, RunRow, StepRow
from tests.chaos.model import Fate, Reading, broken, errors, must_fail, part_of, regions
from tests.chaos.trees import Book, Do, Node, walk

ENDS = ("completed", "failed", "cancelled", "compensation_failed")
UNDO = "!undo"
KILLS = ("kill_child", "kill_worker", "dies")
SLACK_S = 0.05
"""Between the clock of a database and the one by which a fault is noted."""


def check(evidence: Evidence) -> list[str]:
    """What is wrong; nothing, if all is well."""
    return [
        *evidence.loads,
        *(f"logged: {line}" for line in evidence.log),
        *_lost(evidence),
        *_twice(evidence),
        *_late(evidence),
        *_each(evidence),
    ]


def _each(evidence: Evidence) -> Iterator[str]:
    rows, steps = defaultdict(list), defaultdict(list)
    for row in evidence.rows:
        rows[row.run].append(row)
    for step in evidence.steps:
        steps[step.run].append(step)
    for run in evidence.runs:
        yield from _Run(evidence, run, rows[run.id], steps[run.id]).findings()


# -- nothing is lost -----------------------------------------------------------------------------------------------
def _lost(evidence: Evidence) -> Iterator[str]:
    known = {run.order: run for run in evidence.runs}
    for order in evidence.trees.keys() - known.keys():
        yield f"lost: run {order} was started, and there is no such run"
    for run in evidence.runs:
        if run.status not in ENDS:
            yield f"lost: run {run.order} has not ended: {run.status}, {run.reason or run.error or 'no reason'}"
        if run.leased:
            yield f"left open: a lease of run {run.order}"
    for step in evidence.steps:
        if step.leased or step.status in {"running", "scheduled"}:
            yield f"left open: step {step.key} of run {step.run} is {step.status}"
    ended = {run.id for run in evidence.runs if run.status in ENDS}
    for step in evidence.steps:
        if step.run in ended and step.status in {"held", "waiting"}:
            yield f"left open: step {step.key} of run {step.run}, which has ended, is {step.status}"


# -- nothing counts twice ------------------------------------------------------------------------------------------
def _twice(evidence: Evidence) -> Iterator[str]:
    places: dict[str, set[tuple[str, str]]] = defaultdict(set)
    tokens: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in evidence.rows:
        tokens[row.run, row.step].add(row.token)
        places[row.token].add((row.run, row.step))
    for place, several in tokens.items():
        if len(several) > 1:
            yield f"twice: step {place[1]} of run {place[0]} had {len(several)} tokens"
    for token, steps in places.items():
        if len(steps) > 1:
            yield f"twice: the token {token} is one of {sorted(steps)}"
    rows = Counter((step.run, step.key) for step in evidence.steps)
    for (run, key), count in rows.items():
        if count > 1:
            yield f"twice: step {key} of run {run} has {count} rows"
    for run, key, count in evidence.oks:
        if count > 1:
            yield f"twice: the history says {count} times that step {key} of run {run} succeeded"
    yield from _attempts(evidence)
    yield from _books(evidence)


def _attempts(evidence: Evidence) -> Iterator[str]:
    """Each attempt once; a second one only after what allows it."""
    attempts = _by_attempt(evidence.rows)
    undoable = {(step.run, step.key) for step in evidence.steps if step.has_undo}
    kills = [hit for hit in evidence.hits if hit.kind == "kill_database"]
    for (run, key), several in attempts.items():
        for number, rows in several.items():
            if len({row.pid for row in rows}) > 1 or Counter(row.what for row in rows).most_common(1)[0][1] > 1:
                # A claim of a step without an undo may be gone with the database that had taken it.
                forgotten = (run, key) not in undoable and any(rows[0].at <= hit.until for hit in kills)
                if not forgotten:
                    yield f"twice: attempt {number} of step {key} of run {run} was executed more than once"
        acted = {number: rows for number, rows in several.items() if any(row.what == "effect" for row in rows)}
        numbers = sorted(several)
        for one in sorted(acted)[:-1] if acted else []:
            after = several[next(number for number in numbers if number > one)]
            if not _hit(evidence, acted[one][0], until=after[0].at):
                yield (
                    f"twice: step {key} of run {run} had its effect in attempt {one} (pid {acted[one][0].pid}), "
                    f"to which nothing was done, and again in attempt {max(acted)}"
                )


def _by_attempt(rows: Iterable[Row]) -> dict[tuple[str, str], dict[int, list[Row]]]:
    found: dict[tuple[str, str], dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row.run, row.step][row.attempt].append(row)
    return found


def _hit(evidence: Evidence, begun: Row, *, until: float) -> bool:
    """Its process was killed, or stood still for most of a lease, in this time."""
    return any(_explains(hit, begun, until, evidence.lease_s) for hit in evidence.hits) or any(
        row.what == "dies" and row.pid == begun.pid and begun.at <= row.at <= until for row in evidence.rows
    )


def _explains(hit: Hit, begun: Row, until: float, lease_s: float) -> bool:
    if hit.until < begun.at - lease_s or hit.at > until + SLACK_S:
        return False
    if hit.kind == "machine_stall":
        return True
    if begun.pid not in hit.pids:
        return False
    return hit.kind in KILLS or hit.until - hit.at >= 0.6 * lease_s


def _books(evidence: Evidence) -> Iterator[str]:
    for run, name, what, count in evidence.books:
        if count > 1:
            yield f"twice: the transactional step {name} of run {run} has {count} rows that say {what}"


# -- nothing comes after its checkpoint ----------------------------------------------------------------------------
def _late(evidence: Evidence) -> Iterator[str]:
    steps = {(step.run, step.key): step for step in evidence.steps}
    for row in evidence.rows:
        step = steps.get((row.run, row.step))
        if step is None:
            yield f"lost: step {row.step} of run {row.run} left {row.what!r} and has no row"
        elif _is_late(row, step) and not _excused(evidence, row, step):
            yield f"late: {row.what!r} of step {row.step} of run {row.run}, attempt {row.attempt}, after its checkpoint"


def _is_late(row: Row, step: StepRow) -> bool:
    return step.ended_at is not None and row.at > step.ended_at + SLACK_S


def _excused(evidence: Evidence, row: Row, step: StepRow) -> bool:
    """It stood still, or was cut off from a step that ended without it."""
    begun = min(
        (each for each in evidence.rows if (each.run, each.step, each.attempt) == (row.run, row.step, row.attempt)),
        key=lambda each: each.at,
    )
    return (row.attempt < step.attempt or step.status != "done") and _hit(evidence, begun, until=row.at)


# -- what one run did ----------------------------------------------------------------------------------------------
class _Run:
    """Its end against its tree, its effects against its end, its undos against each other."""

    def __init__(self, evidence: Evidence, run: RunRow, rows: Iterable[Row], steps: Iterable[StepRow]) -> None:
        self._evidence, self._run = evidence, run
        self._steps = {step.key: step for step in steps}
        self._rows = [row for row in rows if row.step in self._steps and not _is_late(row, self._steps[row.step])]
        self._books = {(name, what) for of, name, what, _ in evidence.books if of == run.id}
        self._tree: Node | None = None
        root = evidence.trees.get(run.order.partition("/")[0])
        if root is not None:
            self._tree = part_of(root, run.order)

    def findings(self) -> Iterator[str]:
        if self._run.status not in ENDS:
            return
        if self._tree is None:
            yield f"made up: run {self._run.order} was never asked for"
            return
        fates: dict[str, Fate] = {}
        yield from self._end(self._tree, fates)
        yield from self._undone(self._tree, fates)
        yield from self._order(self._tree)

    def _end(self, tree: Node, fates: dict[str, Fate]) -> Iterator[str]:
        run, is_cancelled = self._run, self._run.order.partition("/")[0] in self._evidence.cancelled
        if run.status == "completed":
            reading = Reading(run.order, fates, [])
            try:
                reading.read(tree, run.result)
            except (TypeError, ValueError, IndexError, KeyError) as error:
                reading.problems.append(f"run {run.order} gave {run.result!r}: {error!r}")
            yield from (f"wrong result: {problem}" for problem in reading.problems)
            if is_cancelled and run.parent is None:
                yield f"wrong end: run {run.order} was told that it is cancelled, and completed"
        elif run.status == "failed" and run.error not in errors(tree):
            yield f"wrong end: run {run.order} failed with {run.error}, and can with {sorted(errors(tree))}"
        elif run.status == "cancelled" and run.parent is None and not is_cancelled:
            yield f"wrong end: nobody cancelled run {run.order}"
        elif run.status == "compensation_failed" and not broken(tree):
            yield f"wrong end: run {run.order} is {run.status}, and every undo of it succeeds in the end"
        if run.status == "completed" and must_fail(tree):
            yield f"wrong end: run {run.order} completed, and must fail"

    # -- every effect that may have happened is undone, or kept ----------------------------------------------------
    def _undone(self, tree: Node, fates: dict[str, Fate]) -> Iterator[str]:
        keeps, run = self._run.status == "completed", self._run
        effects = [row for row in self._rows if row.what == "effect"]
        done = {row.name: row.step for row in effects if not row.step.endswith(UNDO)}
        undone = {row.name: row.step.removesuffix(UNDO) for row in effects if row.step.endswith(UNDO)}
        for node in walk(tree, into_children=False):
            if not isinstance(node, Do) or node.undo == "none":
                continue
            name = node.name
            step = self._steps.get(done.get(name) or undone.get(name) or "")
            fate: Fate = fates.get(name, "kept") if keeps else "undone"
            if fate == "kept" and step is not None and step.status != "done":
                fate = "either"  # a part of a join that was not waited for
            if name in undone and (fate == "kept" or step is None or not (step.status == "done" or step.maybe)):
                yield f"undone without need: {name} of run {run.order}"
            if name in done and name not in undone and fate == "undone" and node.undo != "broken":
                yield f"not undone: {name} of run {run.order}, which is {run.status}"
        yield from self._books_undone(tree, fates)
        yield from self._children_undone(fates)

    def _books_undone(self, tree: Node, fates: dict[str, Fate]) -> Iterator[str]:
        keeps = self._run.status == "completed"
        for node in walk(tree, into_children=False):
            if not isinstance(node, Book):
                continue
            fate: Fate = fates.get(node.name, "kept") if keeps else "undone"
            booked, unbooked = (node.name, "book") in self._books, (node.name, "unbook") in self._books
            if unbooked and not booked:
                yield f"undone without need: the transactional step {node.name} of run {self._run.order}"
            elif booked != unbooked and fate == "undone":
                yield f"not undone: the transactional step {node.name} of run {self._run.order}"
            elif unbooked and fate == "kept":
                yield f"undone without need: the transactional step {node.name} of run {self._run.order}"

    def _children_undone(self, fates: dict[str, Fate]) -> Iterator[str]:
        keeps = self._run.status == "completed"
        for child in self._evidence.runs:
            if child.parent != self._run.id:
                continue
            fate: Fate = fates.get(child.order.rpartition("/")[2], "kept") if keeps else "undone"
            if fate == "undone" and child.status == "completed":
                yield f"not undone: the child {child.order}, whose parent is {self._run.status}"

    # -- last in, first out ----------------------------------------------------------------------------------------
    def _order(self, tree: Node) -> Iterator[str]:
        places = dict(regions(tree))
        undos: dict[str, list[Row]] = defaultdict(list)
        for row in self._rows:
            if row.step.endswith(UNDO) and row.name in places:
                undos[row.name].append(row)
        steps = {name: self._steps.get(rows[0].step.removesuffix(UNDO)) for name, rows in undos.items()}
        for first, second in combinations(sorted(undos, key=lambda name: undos[name][0].at), 2):
            before, after = steps[first], steps[second]
            if before is None or after is None or places[second][: len(places[first])] != places[first]:
                continue
            begun = undos[first][0].at
            was_there = after.ended_at is not None and after.ended_at < begun
            if was_there and before.seq is not None and after.seq is not None and before.seq < after.seq:
                yield f"order: {first} of run {self._run.order} was undone before {second}, which was done after it"
        yield from self._overlaps(undos, places)
        yield from self._undone_before(undos)

    def _overlaps(self, undos: dict[str, list[Row]], places: dict[str, tuple[str, ...]]) -> Iterator[str]:
        for region in {places[name] for name in undos}:
            spans = [(rows[0].at, rows[-1].at, name) for name, rows in undos.items() if places[name] == region]
            for one, other in pairwise(sorted(spans)):
                if other[0] < one[1]:
                    yield f"order: the undos of {one[2]} and {other[2]} of run {self._run.order} overlap"

    def _undone_before(self, undos: dict[str, list[Row]]) -> Iterator[str]:
        for row in self._rows:
            is_effect = row.what == "effect" and not row.step.endswith(UNDO)
            if is_effect and row.name in undos and row.at > undos[row.name][0].at:
                yield f"order: {row.name} of run {self._run.order} was undone before its effect"
