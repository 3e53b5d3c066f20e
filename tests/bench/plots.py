"""The plots of docs/performance, drawn of what was kept: throughput, cost by length, time to the next attempt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

COLOURS = {
    "celery_saga, broker": "#1f6feb",
    "celery_saga, inline": "#0a3069",
    "Celery chain, results in Redis": "#2da44e",
    "Celery chain, results in PostgreSQL": "#8fd19e",
    "DBOS": "#bf8700",
    "Absurd": "#cf222e",
}
OURS = "celery_saga"
PLOTS = {
    "workers": "Steps a second by processes",
    "length": "What a step costs, by its number in the run",
    "recovery": "Time from SIGKILL to the next attempt",
}


def draw(curves: dict[str, Any], directory: Path) -> list[Path]:
    """Those for which there is something; SVG files that are the same for the same curves.

    Raises:
        ImportError: matplotlib is not installed: pip install '.[bench]'.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams.update(
        {
            "svg.hashsalt": "celery_saga",
            "svg.fonttype": "none",
            "font.family": "sans-serif",
            "font.size": 10,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.color": "#e6e6e6",
            "axes.axisbelow": True,
            "legend.frameon": False,
        }
    )
    directory.mkdir(parents=True, exist_ok=True)
    drawn = []
    for name, drawing in zip(PLOTS, (_workers, _length, _recovery), strict=True):
        if curves.get(name):
            drawn.append(_saved(drawing, curves[name], directory / f"{name}.svg"))
    return drawn


def _saved(drawing: Any, lines: dict[str, Any], path: Path) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    drawing(figure, lines)
    figure.savefig(path, metadata={"Date": None}, facecolor="white")
    return path


def _workers(figure: Any, lines: dict[str, list[list[float]]]) -> None:
    axes = figure.subplots()
    for name, points in lines.items():
        style = "-" if name.startswith(OURS) else "--"
        xs, ys = zip(*points, strict=True)
        axes.plot(xs, ys, style, marker="o", color=COLOURS.get(name), label=name)
    axes.set(xlabel="processes that execute steps", ylabel="steps a second", ylim=(0, None))
    axes.set_xticks(sorted({point[0] for points in lines.values() for point in points}))
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _length(figure: Any, lines: dict[str, list[list[float]]]) -> None:
    axes = figure.subplots()
    for name, points in lines.items():
        xs, ys = zip(*points, strict=True)
        axes.plot(xs, ys, marker="o", color=COLOURS["celery_saga, " + name.removesuffix(" mode")], label=name)
    axes.set(xlabel="number of the step in its run", ylabel="ms a step", ylim=(0, None))
    axes.legend()


def _recovery(figure: Any, lines: dict[str, list[float]]) -> None:
    panels = figure.subplots(1, len(lines), sharey=True, squeeze=False)[0]
    for axes, (name, values) in zip(panels, lines.items(), strict=True):
        ordered = sorted(values)
        parts = [(n + 1) / len(ordered) * 100 for n in range(len(ordered))]
        axes.step(ordered, parts, where="post", marker=".", color="#1f6feb")
        axes.set(title=f"{name}, {len(ordered)} steps", xlabel="seconds to the next attempt", ylim=(0, 103))
        room = max(0.25, 0.2 * (ordered[-1] - ordered[0]))
        axes.set_xlim(max(0.0, ordered[0] - room), ordered[-1] + room)
    panels[0].set_ylabel("% of the steps")
