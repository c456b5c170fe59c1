"""What the axes of charts say can be read: no number lies on another, and none outside the picture."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

import podsim
from podsim.report.plots import set_log_ticks

CHARTS: dict[str, Callable[[], Any]] = {
    "predict": lambda: podsim.predict("gpt2", on="dgx-a100-80gb").plot(),
    "plan": lambda: podsim.plan("llama-3.1-8b", on="h100", gpus=64).plot(),
    "collective": lambda: podsim.collective("all-reduce", on="dgx-a100-80gb").plot(),
    "schedule": lambda: podsim.schedule("1f1b", pp=4, micro_batches=8).plot(),
    "target": lambda: podsim.plan("bert", on="dgx-a100-40gb", to_target=True, gpus=64).plot(),
}


def log_figure(low: float, high: float) -> Figure:
    figure = Figure(figsize=(7.8, 4.2))
    axes = figure.add_subplot()
    axes.set(xscale="log", xlim=(low, high))
    set_log_ticks(axes.xaxis)
    return figure


def overlaps(figure: Figure) -> list[str]:
    """Pairs of numbers of one axis whose boxes meet, and texts of axes that leave the figure."""
    figure.draw_without_rendering()
    wrong = []
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
            shown = [
                tick.label1 for tick in ticks if low <= tick.get_loc() <= high and tick.label1.get_text()
            ]
            boxes: list[tuple[Text, Any]] = [
                (text, text.get_window_extent()) for text in shown if text.get_visible()
            ]
            wrong += [
                f"{a.get_text()} on {b.get_text()}"
                for (a, first), (b, second) in combinations(boxes, 2)
                if first.overlaps(second)
            ]
            wrong += [
                f"{text.get_text()} leaves the figure"
                for text, box in boxes
                if not (figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1)
                or not (figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1)
            ]
    return wrong


@pytest.mark.parametrize("name", CHARTS)
def test_no_number_of_a_chart_lies_on_another(name: str) -> None:
    assert overlaps(CHARTS[name]()) == []


@pytest.mark.parametrize(
    "ends", [(8.7, 104.0), (90.0, 100.0), (1.0, 9.0), (9.1, 9.4), (1e-6, 1e6), (20.0, 210.0)]
)
def test_a_logarithmic_axis_of_any_range_names_some_values_apart(ends: tuple[float, float]) -> None:
    figure = log_figure(*ends)
    assert overlaps(figure) == []
    assert 3 <= len(figure.axes[0].get_xticks()) <= 8
