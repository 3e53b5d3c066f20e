"""The checker of a chaos can fail: it is fed bad ledgers, each of which differs from a good one in one thing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.checker import check
from tests.chaos.evidence import Evidence, Hit, Row, RunRow, StepRow
from tests.chaos.trees import Book, Caught, Child, Do, Race, Sequence, Wait

# Two steps and a refusal: `o0` was undone. Steps, one of a scope that was left, a signal, a race: `o1` completed.
REFUSED = Sequence((Do("a"), Do("b"), Do("c", fails=True, undo="none")))
LEFT = Caught("s", Sequence((Do("e"), Do("f", fails=True))), is_scope=True)
DONE = Sequence((Do("d"), LEFT, Wait("w", None), Race("r", (Do("g"), Do("h")), None), Book("k"), Child("m", Do("n"))))
RESULT = ["did d", ["caught", "f"], "w of o1", ["a0", "did g"], "did k", "did n"]
PIDS = {"a": 11, "b": 12}


def row(number: int, what: str, run: str, step: str, *, attempt: int = 1, pid: int = 11) -> Row:
    name = step.removesuffix("!undo").rpartition("/")[2]
    return Row(number, what, run, step, name, f"token of {run} {step}", attempt, pid, float(number))


def step(run: str, key: str, status: str, seq: int | None, ended: float, **more: Any) -> StepRow:
    kind = "undo" if key.endswith("!undo") else "step"
    plain = StepRow(run, key, kind, status, 1, 0, 0, False, seq, ended, leased=False, has_undo=kind == "step")
    return replace(plain, **more)


def good() -> Evidence:
    """A ledger with nothing wrong in it."""
    acts = ["a", "b", "b!undo", "a!undo"]
    rows = [row(2 * n + i, ("begins", "effect")[i], "r0", key) for n, key in enumerate(acts) for i in (0, 1)]
    inside = ["d", "s/e", "s/e!undo", "r[a0]/g", "r[a1]/h", "r[a1]/h!undo"]
    rows += [row(20 + 2 * n + i, ("begins", "effect")[i], "r1", key) for n, key in enumerate(inside) for i in (0, 1)]
    rows += [row(40, "begins", "r2", "n"), row(41, "effect", "r2", "n")]
    steps = [step("r0", key, "done", n + 1, 2 * n + 1.01) for n, key in enumerate(acts)]
    steps += [step("r1", key, "done", n + 1, 21.01 + 2 * n) for n, key in enumerate(inside)]
    steps.append(step("r2", "n", "done", 1, 41.01))
    runs = (
        RunRow("r0", "o0", "failed", None, "c", None, 0.0, 9.0, leased=False),
        RunRow("r1", "o1", "completed", None, None, None, 19.0, 42.0, leased=False, result=RESULT),
        RunRow("r2", "o1/m", "completed", None, None, "r1", 39.0, 41.5, leased=False, result="did n"),
    )
    trees = {"o0": REFUSED, "o1": DONE}
    return Evidence(trees, frozenset(), tuple(rows), runs, tuple(steps), (), books=(("r1", "k", "book", 1),))


def changed_run(id_: str, **what: Any) -> Callable[[Evidence], Evidence]:
    return lambda e: replace(e, runs=tuple(replace(each, **what) if each.id == id_ else each for each in e.runs))


def changed_step(run: str, key: str, **what: Any) -> Callable[[Evidence], Evidence]:
    def change(e: Evidence) -> Evidence:
        return replace(e, steps=tuple(replace(x, **what) if (x.run, x.key) == (run, key) else x for x in e.steps))

    return change


def without_rows(run: str, key: str) -> Callable[[Evidence], Evidence]:
    return lambda e: replace(e, rows=tuple(each for each in e.rows if (each.run, each.step) != (run, key)))


def with_rows(*more: Row) -> Callable[[Evidence], Evidence]:
    return lambda e: replace(e, rows=tuple(sorted((*e.rows, *more), key=lambda each: each.at)))


def swapped(run: str, one: str, other: str) -> Callable[[Evidence], Evidence]:
    """Each happened when the other did."""

    def change(e: Evidence) -> Evidence:
        mine = [[x for x in e.rows if (x.run, x.step) == (run, key)] for key in (one, other)]
        moved = {x.id: replace(y, id=x.id, at=x.at) for a, b in (mine, mine[::-1]) for x, y in zip(a, b, strict=True)}
        there = [[x for x in e.steps if (x.run, x.key) == (run, key)] for key in (one, other)]
        ends = {a[0]: replace(a[0], ended_at=b[0].ended_at) for a, b in (there, there[::-1])}
        steps = tuple(ends.get(x, x) for x in e.steps)
        return replace(e, rows=tuple(moved.get(x.id, x) for x in e.rows), steps=steps)

    return change


AGAIN = (row(1, "begins", "r0", "a", attempt=2, pid=13), row(1, "effect", "r0", "a", attempt=2, pid=13))
AGAIN_LATER = tuple(replace(each, id=100 + n, at=1.005 + n / 1000) for n, each in enumerate(AGAIN))

BAD: dict[str, tuple[Callable[[Evidence], Evidence], str]] = {
    "a run that is gone": (lambda e: replace(e, runs=e.runs[1:]), "lost: run o0 was started"),
    "a run that never ends": (changed_run("r0", status="waiting"), "lost: run o0 has not ended: waiting"),
    "a parked run": (changed_run("r0", status="suspended", reason="stalled"), "not ended: suspended, stalled"),
    "a run that nobody started": (changed_run("r1", order="o7"), "made up: run o7"),
    "a lease of a run": (changed_run("r0", leased=True), "left open: a lease of run o0"),
    "a lease of a step": (changed_step("r0", "a", leased=True), "left open: step a"),
    "a step that still runs": (changed_step("r0", "a", status="running"), "left open: step a"),
    "a step that waits in a run that ended": (changed_step("r0", "a", status="held"), "which has ended, is held"),
    "messages": (lambda e: replace(e, loads=("left open: 3 messages",)), "3 messages"),
    "an error in the log": (lambda e: replace(e, log=("[ERROR celery_saga] x",)), "logged: [ERROR"),
    "two tokens": (
        lambda e: replace(e, rows=(replace(e.rows[0], token="other"), *e.rows[1:])),  # noqa: S106
        "twice: step a of run r0 had 2 tokens",
    ),
    "one token of two steps": (
        lambda e: replace(e, rows=tuple(replace(x, token="same") if x.run == "r0" else x for x in e.rows)),  # noqa: S106
        "twice: the token same is one of",
    ),
    "two checkpoint rows": (lambda e: replace(e, steps=(*e.steps, e.steps[0])), "twice: step a of run r0 has 2 rows"),
    "two successes": (lambda e: replace(e, oks=(("r0", "a", 2),)), "2 times that step a"),
    "an attempt executed twice": (
        with_rows(replace(row(1, "effect", "r0", "a", pid=14), id=100, at=1.005)),
        "attempt 1 of step a of run r0 was executed more than once",
    ),
    "an effect again, without a reason": (
        lambda e: with_rows(*AGAIN_LATER)(changed_step("r0", "a", attempt=2)(e)),
        "twice: step a of run r0 had its effect in attempt 1 (pid 11), to which nothing was done",
    ),
    "an effect again, and another process was killed": (
        lambda e: replace(
            with_rows(*AGAIN_LATER)(changed_step("r0", "a", attempt=2)(e)), hits=(Hit("kill_child", 1.0, 1.0, (99,)),)
        ),
        "to which nothing was done",
    ),
    "an effect again, after a stop shorter than a lease": (
        lambda e: replace(
            with_rows(*AGAIN_LATER)(changed_step("r0", "a", attempt=2)(e)), hits=(Hit("freeze_child", 0.1, 1.0, (11,)),)
        ),
        "to which nothing was done",
    ),
    "two rows of a transactional step": (
        lambda e: replace(e, books=(("r1", "k", "book", 2),)),
        "transactional step k of run r1 has 2 rows",
    ),
    "an effect after its checkpoint": (changed_step("r0", "a", ended_at=0.5), "late: 'effect' of step a of run r0"),
    "an effect without a row": (
        lambda e: replace(e, steps=tuple(x for x in e.steps if (x.run, x.key) != ("r0", "a"))),
        "lost: step a of run r0 left 'begins' and has no row",
    ),
    "an effect that is not undone": (without_rows("r0", "a!undo"), "not undone: a of run o0, which is failed"),
    "a scope that is not undone": (without_rows("r1", "s/e!undo"), "not undone: e of run o1"),
    "a lost race that is not undone": (without_rows("r1", "r[a1]/h!undo"), "not undone: h of run o1"),
    "an undo that nobody needs": (
        lambda e: with_rows(replace(row(36, "effect", "r1", "d!undo"), at=36.0))(
            replace(e, steps=(*e.steps, step("r1", "d!undo", "done", 9, 36.5)))
        ),
        "undone without need: d of run o1",
    ),
    "an undo of what never was": (
        lambda e: without_rows("r0", "b")(changed_step("r0", "b", status="failed")(e)),
        "undone without need: b of run o0",
    ),
    "a transactional step that is not undone": (
        lambda e: changed_run("r1", status="cancelled")(replace(e, cancelled=frozenset({"o1"}))),
        "not undone: the transactional step k of run o1",
    ),
    "a child that is not undone": (
        lambda e: changed_run("r1", status="cancelled")(replace(e, cancelled=frozenset({"o1"}))),
        "not undone: the child o1/m, whose parent is cancelled",
    ),
    "undos in the order of their steps": (swapped("r0", "a!undo", "b!undo"), "order: a of run o0 was undone before b"),
    "undos that overlap": (
        lambda e: with_rows(replace(row(100, "effect", "r0", "b!undo", attempt=2), at=6.5))(
            changed_step("r0", "b!undo", ended_at=9.0)(e)
        ),
        "order: the undos of b and a of run o0 overlap",
    ),
    "an undo before the effect": (swapped("r0", "b", "b!undo"), "order: b of run o0 was undone before its effect"),
    "a cancelled run that completed": (
        lambda e: replace(e, cancelled=frozenset({"o1"})),
        "run o1 was told that it is cancelled, and completed",
    ),
    "a run that nobody cancelled": (changed_run("r0", status="cancelled"), "nobody cancelled run o0"),
    "a run that must fail": (changed_run("r0", status="completed", result=["did a", "did b", "did c"]), "must fail"),
    "an error that nothing raises": (changed_run("r0", error="zz"), "run o0 failed with zz, and can with ['c']"),
    "an undo that cannot fail": (changed_run("r0", status="compensation_failed"), "every undo of it succeeds"),
    "another's signal": (
        changed_run("r1", result=[*RESULT[:2], "w of o9", *RESULT[3:]]),
        "wrong result: Wait w of o1 gave 'w of o9'",
    ),
    "a result of another shape": (changed_run("r1", result=RESULT[:3]), "wrong result: Sequence"),
}


def test_a_good_ledger_has_nothing_wrong() -> None:
    assert check(good()) == []


@pytest.mark.parametrize("name", BAD)
def test_a_bad_ledger_is_found_out(name: str) -> None:
    worsen, finding = BAD[name]

    found = check(worsen(good()))

    assert any(finding in each for each in found), found


@pytest.mark.parametrize(
    "hit",
    [Hit("kill_worker", 1.0, 1.0, (11, 12)), Hit("freeze_child", -4.0, 1.0, (11,)), Hit("machine_stall", 0.0, 1.0)],
    ids=lambda hit: hit.kind,
)
def test_an_effect_may_happen_again_when_its_process_was_killed_or_stood_still(hit: Hit) -> None:
    again = with_rows(*AGAIN_LATER)(changed_step("r0", "a", attempt=2)(good()))

    assert check(replace(again, hits=(hit,))) == []


def test_what_a_process_does_after_it_stood_still_comes_late_and_is_no_finding() -> None:
    late = with_rows(replace(row(8, "effect", "r0", "a", attempt=1), id=100, at=8.0))(
        without_rows("r0", "a")(changed_step("r0", "a", attempt=2)(good()))
    )
    late = with_rows(row(0, "begins", "r0", "a"), *AGAIN_LATER)(late)

    assert [each for each in check(late) if "late" in each] != []
    assert check(replace(late, hits=(Hit("freeze_child", 0.5, 7.9, (11,)),))) == []


def test_evidence_comes_back_from_its_file(tmp_path: Path) -> None:
    good().save(tmp_path / "evidence.json")

    assert Evidence.load(tmp_path / "evidence.json") == good()
