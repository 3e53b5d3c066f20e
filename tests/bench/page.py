"""docs/performance.md says what was measured last: `python -m tests.bench.page` writes its tables and plots anew.

They come from docs/performance/measured.json, which `python -m tests.bench --out docs/performance/measured.json` makes.
"""

from __future__ import annotations

import re
from typing import Any

from tests.bench import kept, plots, table
from tests.bench.measures import MEASURES
from tests.workers import ROOT

PAGE = ROOT / "docs" / "performance.md"
DIRECTORY = ROOT / "docs" / "performance"
MEASURED = DIRECTORY / "measured.json"


def main() -> None:
    """Write the page and the plots."""
    PAGE.write_text(filled(PAGE.read_text()))
    plots.draw(kept.read(MEASURED, MEASURES)[1].curves, DIRECTORY)


def filled(page: str) -> str:
    """The page with its generated parts as the kept measurement makes them."""
    document, outcome = kept.read(MEASURED, MEASURES)
    parts = {
        "measured": table.as_markdown(outcome.rows),
        "cpu": _cpu(outcome.curves.get("cpu_ms", {})),
        "profile": _profile(outcome.curves.get("profile", {})),
        "plots": _plots(outcome.curves),
        "machine": _machine(document),
    }
    for name, text in parts.items():
        page = re.sub(
            rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)",
            lambda found, text=text: f"{found[1]}{text}{found[2]}",
            page,
            flags=re.DOTALL,
        )
    return page


def _cpu(cpu_ms: dict[str, list[float]]) -> str:
    lines = ["| contestant | its processes, ms a step | PostgreSQL for it, ms a step |\n", "|---|---|---|\n"]
    lines += [f"| {name} | {own:.2f} | {sql:.2f} |\n" for name, (own, sql) in cpu_ms.items() if own or sql]
    return "".join(lines)


def _plots(curves: dict[str, Any]) -> str:
    return "".join(f"![{says}](performance/{name}.svg)\n" for name, says in plots.PLOTS.items() if curves.get(name))


def _profile(shares: dict[str, dict[str, float]]) -> str:
    if not shares:
        return ""
    names = dict.fromkeys(name for each in shares.values() for name in each)
    lines = [f"| Python's time in | {' | '.join(shares)} |\n", f"|---|{'---|' * len(shares)}\n"]
    for name in names:
        parts = [each.get(name, 0.0) for each in shares.values()]
        if max(parts) >= 0.01:
            lines.append(f"| {name} | {' | '.join(f'{part:.0%}' for part in parts)} |\n")
    return "".join(lines)


def _machine(document: dict[str, Any]) -> str:
    """Where and when; measures that were taken on different machines are told apart."""
    measures: dict[str, dict[str, Any]] = document["measures"]
    machines: dict[str, list[str]] = {}
    for name, each in measures.items():
        has = each["machine"]
        told = f"{has['processors']} processors ({has['model']}), {has['memory_gib']:g} GiB, {has['system']}"
        machines.setdefault(told, []).append(f"`{name}`")
    days = sorted({each["measured_at"][:10] for each in measures.values()})
    sizes = sorted({each["size"] for each in measures.values()})
    loads = [load for each in measures.values() for load in each["load"]]
    where = [told if len(machines) == 1 else f"{told}: {', '.join(names)}" for told, names in machines.items()]
    named = ", ".join(f"{name} {number}" for name, number in document["versions"].items())
    return (
        f"Measured {' and '.join(days)} ({', '.join(sizes)}) on {'; on '.join(where)}. The load of the machine, which "
        f"others used too, was {min(loads):g} to {max(loads):g}. {named}.\n"
    )


if __name__ == "__main__":
    main()
