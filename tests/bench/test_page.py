"""docs/performance.md: what is on it is what was measured."""

from __future__ import annotations

from tests.bench import page, plots
from tests.bench.measures import MEASURES


def test_the_page_shows_what_is_kept() -> None:
    assert page.filled(page.PAGE.read_text()) == page.PAGE.read_text()


def test_the_page_names_every_measure_and_shows_every_plot() -> None:
    text = page.PAGE.read_text()

    assert [name for name in MEASURES if f"`{name}`" not in text] == []
    shown = [name for name in plots.PLOTS if f"(performance/{name}.svg)" in text]
    assert sorted(path.stem for path in page.DIRECTORY.glob("*.svg")) == sorted(shown)
