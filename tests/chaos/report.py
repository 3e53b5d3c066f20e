"""A chaos on one page: what broke, how runs ended, how long it took to recover, what was found."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from statistics import median
from typing import Any

from tests.chaos.evidence import Evidence, Hit
from tests.chaos.run import Outcome

_PROCESSES = ("kill_child", "kill_worker", "freeze_child", "freeze_worker", "dies")


def figures(outcome: Outcome) -> dict[str, Any]:
    """What the report says, as plain values; seconds."""
    evidence = outcome.evidence
    effects = [row for row in evidence.rows if row.what == "effect"]
    attempts = Counter((row.run, row.step) for row in effects)
    return {
        "command": outcome.command,
        "verdict": "nothing found" if not outcome.findings else f"{len(outcome.findings)} findings",
        "runs": dict(Counter(run.status for run in evidence.runs if run.parent is None)),
        "children": dict(Counter(run.status for run in evidence.runs if run.parent is not None)),
        "steps": len(evidence.steps),
        "effects": len(effects),
        "effects that happened again": sum(count - 1 for count in attempts.values()),
        "faults": dict(Counter(hit.kind for hit in evidence.hits)),
        "recovery": _recoveries(evidence),
        "all ended after": outcome.settled_s,
        "findings": outcome.findings,
        "notes": outcome.notes,
    }


def _recoveries(evidence: Evidence) -> dict[str, dict[str, Any]]:
    found: dict[str, list[float]] = defaultdict(list)
    for hit in evidence.hits:
        if hit.kind in _PROCESSES:
            found[hit.kind] += _next_attempts(evidence, hit)
        else:
            later = [row.at - hit.until for row in evidence.rows if row.what == "effect" and row.at >= hit.until]
            found[hit.kind] += later[:1]
    for row in evidence.rows:
        if row.what == "dies":
            found["dies"] += _next_attempts(evidence, Hit("dies", row.at, row.at, (row.pid,)))
    return {
        kind: {"of": len(times), "median": round(median(times), 2), "longest": round(max(times), 2)}
        for kind, times in sorted(found.items())
        if times
    }


def _next_attempts(evidence: Evidence, hit: Hit) -> Iterator[float]:
    """From the hit to the next attempt of each step that was being executed there."""
    ended = {(step.run, step.key): step.ended_at for step in evidence.steps}
    last: dict[tuple[str, str], Any] = {}
    for row in evidence.rows:
        place = row.run, row.step
        if row.at <= hit.at and row.what == "begins":
            last[place] = row
        elif row.what == "begins" and place in last:
            begun = last.pop(place)
            end = ended.get(place)
            if begun.pid in hit.pids and (end is None or end > hit.at) and row.attempt > begun.attempt:
                yield row.at - hit.at


def to_json(outcome: Outcome) -> str:
    """The figures, for machines."""
    return json.dumps(figures(outcome), indent=2, default=str)


def to_markdown(outcome: Outcome) -> str:
    """The figures, for people."""
    told = figures(outcome)
    plan = outcome.plan
    lines = [
        f"### {outcome.broker}, {outcome.database}, seed {plan.seed}, {plan.seconds:g} s: {told['verdict']}",
        "",
        f"`{outcome.command}`",
        "",
        "| what | how many |",
        "|---|---|",
        f"| runs | {_counted(told['runs'])} |",
        f"| their children | {_counted(told['children'])} |",
        f"| step rows | {told['steps']} |",
        f"| effects | {told['effects']}, {told['effects that happened again']} of them again under the same token |",
        f"| faults | {_counted(told['faults'])} |",
        f"| all had ended after the last fault | {_seconds(told['all ended after'])} |",
        "",
        "| after | times | median s | longest s |",
        "|---|---|---|---|",
        *(f"| {kind} | {its['of']} | {its['median']} | {its['longest']} |" for kind, its in told["recovery"].items()),
    ]
    if outcome.findings:
        lines += ["", "**Found:**", "", *(f"- {each}" for each in outcome.findings[:50])]
    return "\n".join(lines) + "\n"


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in sorted(counts.items())) or "none"


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f} s"
