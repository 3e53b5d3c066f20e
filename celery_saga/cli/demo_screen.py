"""Shows the demo: live on a terminal, line by line elsewhere."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from celery_saga.cli.tables import STATUS_STYLES, Cell, Table, duration, plain, rich_table, status
from celery_saga.cli.views import error_line, steps_table
from celery_saga.core.status import RunStatus
from celery_saga.demo.checkout import checkout
from celery_saga.demo.play import Outcome, View
from celery_saga.demo.scenes import SCENES, Scene
from celery_saga.demo.world import Entry

__all__ = ["PlainScreen", "Quiet", "RichScreen", "Screen"]

_INDENT = 3
_TITLE = "A shop's checkout as a saga. Its steps are ordinary Celery tasks:"
_BODY = inspect.getsource(checkout.body).rstrip()
_PLACE = (
    "No broker and no database server: messages are files, runs are rows of an SQLite file, and a",
    "real Celery worker does the work. Payment gateway and warehouse keep books of their own; the",
    "calls shown are what reached them.",
)


def _where(place: Path, *, keep: bool) -> str:
    told = "kept at the end" if keep else "deleted at the end; --keep keeps it"
    return f"Everything lives in {place} ({told})"


def _heard(entry: Entry) -> tuple[str, str]:
    """A call as people read it, with its style."""
    if not entry.reached:
        return f"{entry.call} (does not get through)", "yellow"
    if entry.hangs:
        return f"{entry.call} (its answer hangs)", "yellow"
    if entry.answer in {"timeout", "out of stock"}:
        return f"{entry.call} ✗ {'no answer' if entry.answer == 'timeout' else entry.answer}", "red"
    return entry.call, "magenta" if entry.call.startswith(("refund", "release")) else "green"


def _end(view: View, outcome: Outcome) -> tuple[str, str]:
    """How a scene ended, with its style."""
    word = outcome.status.value
    if outcome.status is RunStatus.COMPLETED:
        told = f"{word}, receipt {outcome.charge_id}"
    else:
        told = f"{word} with {error_line(view.run.error)}" if view.run.error else word
    verdict = "as expected" if outcome.is_as_expected else "NOT as expected"
    return f"{told} · {duration(outcome.took_s)} · {verdict}", STATUS_STYLES.get(word, "")


def _summary(outcomes: Sequence[Outcome]) -> Table:
    table = Table(("", "scene", "end", "took", "calls"))
    for outcome in outcomes:
        mark = Cell("✔", "bold green") if outcome.is_as_expected else Cell("✘", "bold red")
        end = status(outcome.status.value)
        table.rows.append((mark, outcome.scene.title, end, duration(outcome.took_s), _short_calls(outcome.calls)))
    return table


def _short_calls(calls: Iterable[str]) -> str:
    """The calls' names alone, and repeats counted, so that the summary fits on a screen."""
    names = [(name, len(list(same))) for name, same in groupby(call.partition(" ")[0] for call in calls)]
    return " › ".join(name if count == 1 else f"{name} ×{count}" for name, count in names)


def _closing(outcomes: Sequence[Outcome], took_s: float) -> str:
    good = sum(outcome.is_as_expected for outcome in outcomes)
    return f"{good} of {len(outcomes)} scenes ended as expected, in {duration(took_s)}"


class Quiet:
    """Shows nothing: for programs that read the outcomes."""

    def open(self, place: Path, *, keep: bool) -> None:
        """The demo begins."""

    def begin(self, scene: Scene) -> None:
        """A scene begins."""

    def tell(self, text: str) -> None:
        """Somebody does something."""

    def see(self, view: View) -> None:
        """This is how it is now."""

    def end(self, view: View, outcome: Outcome) -> None:
        """The scene is over."""

    def close(self, outcomes: Sequence[Outcome], took_s: float, advice: Iterable[str]) -> None:
        """The demo is over."""


class PlainScreen(Quiet):
    """One line for each thing that happens."""

    def __init__(self) -> None:
        self._shown = 0
        self._number = 0

    def open(self, place: Path, *, keep: bool) -> None:
        """Say what is going to be seen."""
        print(f"{_TITLE}\n\n{_BODY}\n")
        for line in _PLACE:
            print(line)
        print(_where(place, keep=keep), flush=True)

    def begin(self, scene: Scene) -> None:
        """Title and story."""
        self._shown = 0
        self._number += 1
        print(f"\n{self._number}/{len(SCENES)} {scene.title}: order {scene.order.id}, {_price(scene)}")
        print(f"    {scene.story}", flush=True)

    def tell(self, text: str) -> None:
        """Say it."""
        print(f"    > {text}", flush=True)

    def see(self, view: View) -> None:
        """Print the calls that are new."""
        for entry in view.entries[self._shown :]:
            print(f"      {_heard(entry)[0]}", flush=True)
        self._shown = len(view.entries)

    def end(self, view: View, outcome: Outcome) -> None:
        """Steps, end, and what is not as it has to be."""
        self.see(view)
        for line in plain(steps_table(view.steps)):
            print(f"    {line}")
        print(f"    {_end(view, outcome)[0]}")
        for difference in outcome.differences:
            print(f"    ! {difference}")

    def close(self, outcomes: Sequence[Outcome], took_s: float, advice: Iterable[str]) -> None:
        """The summary."""
        print()
        for line in plain(_summary(outcomes)):
            print(line)
        print(f"\n{_closing(outcomes, took_s)}")
        for line in advice:
            print(line)


class RichScreen(Quiet):
    """Each scene is drawn while it goes on, and stays on the screen."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._told: list[tuple[int, str]] = []  # after how many calls, and what
        self._scene: Scene | None = None
        self._view: View | None = None
        self._number = 0

    def open(self, place: Path, *, keep: bool) -> None:
        """Say what is going to be seen."""
        self._console.print()
        self._console.print(Text(f"{_TITLE}\n", style="bold"))
        self._console.print(Syntax(_BODY, "python", background_color="default", word_wrap=True))
        self._console.print()
        for line in _PLACE:
            self._console.print(Text(line))
        self._console.print(Text(_where(place, keep=keep), style="dim"))

    def begin(self, scene: Scene) -> None:
        """Start to draw."""
        self._scene, self._view, self._told = scene, None, []
        self._number += 1
        self._live = Live(self._drawn(None), console=self._console, refresh_per_second=12)
        self._live.start()

    def tell(self, text: str) -> None:
        """Say it below the calls that there are."""
        self._told.append((0 if self._view is None else len(self._view.entries), text))
        self._draw(None)

    def see(self, view: View) -> None:
        """Draw it anew."""
        self._view = view
        self._draw(None)

    def end(self, view: View, outcome: Outcome) -> None:
        """Draw it for the last time, and leave it there."""
        self._view = view
        self._draw(outcome)
        self.stop()

    def stop(self) -> None:
        """Give the terminal back."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def close(self, outcomes: Sequence[Outcome], took_s: float, advice: Iterable[str]) -> None:
        """The summary."""
        self.stop()
        self._console.rule("[bold]what happened[/bold]")
        self._console.print(rich_table(_summary(outcomes)))
        style = "bold green" if all(outcome.is_as_expected for outcome in outcomes) else "bold red"
        self._console.print(Text(_closing(outcomes, took_s), style=style))
        for line in advice:
            self._console.print(Text(line), soft_wrap=True)

    def _draw(self, outcome: Outcome | None) -> None:
        if self._live is not None:
            self._live.update(self._drawn(outcome))

    def _drawn(self, outcome: Outcome | None) -> RenderableType:
        scene, view = self._scene, self._view
        if scene is None:
            return Text()
        parts: list[RenderableType] = [Text(scene.story), *self._events(() if view is None else view.entries)]
        if view is not None:
            parts += [Text(), rich_table(steps_table(view.steps))] if view.steps else []
            parts += [self._last_line(view, outcome)]
        if outcome is not None:
            parts += [Text(f"! {difference}", style="bold red") for difference in outcome.differences]
        title = Text(f"\n{self._number}/{len(SCENES)} {scene.title}", style="bold")
        title.append(f"   order {scene.order.id}, {_price(scene)}", style="not bold dim")
        return Group(title, Padding(Group(*parts), (0, 0, 0, _INDENT)))

    def _events(self, entries: Sequence[Entry]) -> Iterable[Text]:
        """Calls, and between them what was done, as it happened."""
        shown = 0
        for count, line in (*self._told, (len(entries), "")):
            if count > shown:
                calls = (Text(*_heard(entry)) for entry in entries[shown:count])
                yield Text("calls  ", style="bold").append_text(Text("  ›  ", style="dim").join(calls))
                shown = count
            if line:
                yield Text(f"▸ {line}", style="cyan")

    def _last_line(self, view: View, outcome: Outcome | None) -> Text:
        if outcome is None:
            word = view.run.status.value
            return Text(f"… {word}", style=STATUS_STYLES.get(word, ""))
        mark = "✔ " if outcome.is_as_expected else "✘ "
        told, style = _end(view, outcome)
        return Text(mark, style="bold green" if outcome.is_as_expected else "bold red").append(told, style=style)


Screen = Quiet
"""What every screen can do."""


def _price(scene: Scene) -> str:
    return f"{scene.order.cents} cents"
