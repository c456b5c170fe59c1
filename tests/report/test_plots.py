"""Plots: the same bytes for the same rows, every class in the legend, and no role mixed with another."""

from __future__ import annotations

import sys
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from podsim.answers.comparison import ComparedRow, Comparison
from podsim.errors import PodsimError, TableError
from podsim.report import plot, plot_png, plot_svg


def many(count: int, classes: int) -> Comparison:
    rows = tuple(
        ComparedRow(
            id=f"r{index}",
            role="test" if index % 2 else "calibrate",
            table="many",
            predicted=1.07**index,
            measured=1.06**index,
            group=f"tp={index % classes}",
        )
        for index in range(count)
    )
    return Comparison(table="many", title="Many rows " * 20, what="seconds", rows=rows)


def words(comparison: Comparison) -> list[str]:
    return [
        text.get_text()
        for text in plot(comparison).findobj(Text)
        if isinstance(text, Text) and text.get_text()
    ]


def points(figure: Figure) -> list[Line2D]:
    """The marks of rows, without those of the legend."""
    return [line for line in figure.axes[0].lines if line.get_marker() != "None" and len(line.get_xydata())]


def test_svg_is_reproducible_and_well_formed(steps: Comparison) -> None:
    svg = plot_svg(steps)
    assert svg == plot_svg(steps)
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert b"Steps of" in svg
    assert b"Steps of" not in plot_svg(steps, titled=False)


def test_png(steps: Comparison) -> None:
    assert plot_png(steps, dpi=40).startswith(b"\x89PNG")


def test_title_and_legend_say_what_is_shown(steps: Comparison, rates: Comparison) -> None:
    found = words(steps)
    assert "test: MAE 4.7 %, n=3 · calibrate: MAE 5.0 %, n=1" in found
    assert {"recompute", "full (3)", "none (1)", "hollow: calibrate", "filled: test", "within 10 %"} <= set(
        found
    )
    assert "measured (seconds per step)" in found
    only = words(rates)
    assert "calibrate: MAE 5.0 %, n=2" in only
    assert "filled: test" not in only


def test_calibrate_rows_are_hollow(steps: Comparison) -> None:
    drawn = [line for line in points(plot(steps)) if line.get_markerfacecolor() == "none"]
    assert [tuple(map(float, line.get_xydata()[0])) for line in drawn] == [(1.0, 0.95)]


@pytest.mark.parametrize(("classes", "named"), [(1, 1), (7, 7), (8, 6), (40, 6)])
def test_classes_beyond_the_palette_are_one(classes: int, named: int) -> None:
    found = words(many(80, classes))
    labels = [text for text in found if text.endswith(")") and text[0].isdigit()]
    assert len(labels) == named
    assert any(text.startswith("others (") for text in found) == (classes > 7)
    assert "tp" in found


def test_no_two_classes_look_alike() -> None:
    marks = points(plot(many(14, 7)))
    looks = {(line.get_color(), line.get_marker()) for line in marks}
    assert len(marks) == 14
    assert len(looks) == 7


def test_nothing_leaves_the_figure_or_overlaps_the_axes() -> None:
    figure = plot(many(80, 40))
    figure.draw_without_rendering()
    axes = figure.axes[0]
    legend = axes.get_legend()
    assert legend is not None
    inside, box = figure.bbox, axes.get_window_extent()
    assert legend.get_window_extent().x0 > box.x1
    for text in figure.findobj(Text):
        if isinstance(text, Text) and text.get_text() and text.get_visible():
            extent = text.get_window_extent()
            assert inside.x0 <= extent.x0 <= extent.x1 <= inside.x1, text.get_text()
            assert inside.y0 <= extent.y0 <= extent.y1 <= inside.y1, text.get_text()


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (1e-9, 1e9), (0.99, 1.01), (3.0, 2e4)])
def test_any_range_has_some_ticks_but_not_many(low: float, high: float, rates: Comparison) -> None:
    ends = tuple(
        replace(row, predicted=v, measured=v) for row, v in zip(rates.rows, (low, high), strict=True)
    )
    axes = plot(replace(rates, rows=ends)).axes[0]
    assert 2 <= len(axes.get_xticks()) <= 10
    assert axes.get_xlim() == axes.get_ylim()


def test_a_dense_plot_stays_small() -> None:
    row = many(1, 1).rows[0]
    rows = tuple(replace(row, id=str(index), predicted=1 + index / 3000) for index in range(3000))
    assert len(plot_svg(Comparison(table="t", title="T", what="seconds", rows=rows))) < 100_000


def test_what_cannot_be_plotted(
    nothing: Comparison, steps: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TableError, match="no rows to plot"):
        plot(nothing)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(PodsimError, match=r"pip install '\.\[report\]'"):
        plot(steps)
