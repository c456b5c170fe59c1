"""Predictions drawn: parts of the step, memory by stage; searches drawn: memory against time. Needs matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from podsim.answers.prediction import PARTS, PlanResult, Prediction
from podsim.report.chart_marks import BLUE, COLOURS, INK, MUTED
from podsim.report.columns import quantity_text
from podsim.report.plots import STYLE, load_matplotlib, set_log_ticks
from podsim.units import format_quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_WIDTH, _HEIGHT = 10.4, 4.2
_LEAST = 0.002
"""share of the step below which a part is left out"""


def prediction_figure(prediction: Prediction) -> Figure:
    """A figure: left the parts of the step, the longest first, right the memory of each stage by kind."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
        title = (
            f"{prediction.model} on {prediction.cluster}: {format_quantity(prediction.step_time, 's')} a step"
        )
        figure.suptitle(title[:110], x=0.012, ha="left", fontsize=11, fontweight="bold")
        left, right = figure.subplots(1, 2)
        _parts(left, prediction)
        _memory(right, prediction)
        return figure


def _parts(axes: Axes, prediction: Prediction) -> None:
    parts = [
        (PARTS.get(name, name).partition(" (")[0], seconds)
        for name, seconds in sorted(prediction.parts.items(), key=lambda part: part[1])
        if seconds > _LEAST * prediction.step_time
    ]
    seconds = [part[1] for part in parts]
    axes.barh(range(len(parts)), seconds, color=BLUE, height=0.66)
    axes.set_yticks(range(len(parts)), [name for name, _ in parts])
    for number, value in enumerate(seconds):
        text = f"{format_quantity(value, 's', digits=3)}, {value / prediction.step_time:.0%}"
        axes.annotate(
            text, (value, number), xytext=(3, 0), textcoords="offset points", va="center", fontsize=7.5
        )
    axes.margins(x=0.28)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.set_title("where the step goes", fontsize=9.5, loc="left")
    axes.tick_params(labelsize=8, length=0)


def _memory(axes: Axes, prediction: Prediction) -> None:
    """A stacked bar for each class of stages, and the GPU's memory."""
    stages = prediction.stages
    names = [name for name in prediction.memory_kinds if any(stage.kinds[name] > 0 for stage in stages)]
    below = [0.0] * len(stages)
    for number, name in enumerate(names):
        sizes = [stage.kinds[name] / 1e9 for stage in stages]
        axes.bar(
            range(len(stages)),
            sizes,
            bottom=below,
            width=0.6,
            color=COLOURS[number % len(COLOURS)],
            label=name,
        )
        below = [low + size for low, size in zip(below, sizes, strict=True)]
    limit = prediction.memory_limit / 1e9
    axes.axhline(limit, color=INK, lw=1.2, ls=(0, (4, 2)), label=f"a GPU: {limit:.1f} GB")
    labels = [
        f"{stage.first}" if stage.count == 1 else f"{stage.first} to {stage.first + stage.count - 1}"
        for stage in stages
    ]
    axes.set_xticks(range(len(stages)), labels)
    axes.set_xlim(-0.6, len(stages) - 0.4)
    axes.set_xlabel("stage", fontsize=8.5)
    axes.set_title("memory, GB", fontsize=9.5, loc="left")
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.tick_params(labelsize=8)


def plans_figure(result: PlanResult) -> Figure:
    """A figure: the front of memory against time, and the ranked plans."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(_WIDTH * 0.75, _HEIGHT), layout="constrained")
        figure.suptitle(
            f"{result.model} on {result.cluster}"[:90], x=0.012, ha="left", fontsize=11, fontweight="bold"
        )
        axes = figure.add_subplot()
        if result.pareto:
            times, sizes = [p.step_time for p in result.pareto], [p.memory / 1e9 for p in result.pareto]
            label = f"front: {len(times)} of {result.fitting:,} plans that fit"
            axes.plot(times, sizes, color=MUTED, lw=1.2, marker=".", ms=4, label=label)
        for ranked in result.ranked:
            plan, step = ranked.prediction.plan, ranked.prediction.step_time
            degrees = " ".join(f"{name}={plan[name]}" for name in ("tp", "pp", "dp"))
            colour = COLOURS[(ranked.rank - 1) % len(COLOURS)]
            axes.plot(
                step, ranked.prediction.memory / 1e9, "o", color=colour, label=f"{ranked.rank}: {degrees}"
            )
        axes.set_xscale("log")
        set_log_ticks(axes.xaxis, lambda value: quantity_text(value, "s"))
        axes.set(xlabel="time of a step", ylabel="memory of the fullest stage, GB")
        axes.grid(color=MUTED, alpha=0.25, lw=0.6)
        axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
        axes.tick_params(labelsize=8)
        return figure
