"""Minutes to a target against GPUs, drawn. Needs matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from podsim.answers.minutes import BenchmarkMinutes, MinutesTable, TargetPlan
from podsim.report.chart_marks import BLUE, COLOURS, INK, MUTED
from podsim.report.plots import STYLE, load_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_APART = 1.4
"""factor between numbers of GPUs whose labels do not overlap"""


def minutes_figure(table: MinutesTable) -> Figure:
    """A figure: predicted and published minutes of each benchmark, on a logarithmic axis."""
    matplotlib = load_matplotlib()
    rows = [row for row in reversed(table.rows) if row.run]
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.6, 1.4 + 0.34 * len(rows)), layout="constrained")
        title = f"MLPerf Training {table.round} on {table.cluster}: minutes to the target"
        figure.suptitle(title[:90], x=0.012, ha="left", fontsize=11, fontweight="bold")
        _draw_minutes(figure.subplots(), rows)
        return figure


def _draw_minutes(axes: Axes, rows: list[BenchmarkMinutes]) -> None:
    """A line from a lucky to an unlucky run, the expected run, and what was published."""
    for height, row in enumerate(rows):
        assert row.run is not None
        low, expected, high = (
            seconds / 60 for seconds in (row.run.seconds_low, row.run.seconds, row.run.seconds_high)
        )
        axes.plot([low, high], [height, height], color=BLUE, lw=4, alpha=0.3, solid_capstyle="butt")
        axes.plot(
            [expected], [height], color=BLUE, marker="o", ms=6, ls="", label="predicted" if not height else ""
        )
    published = [(row.published / 60, height) for height, row in enumerate(rows) if row.published]
    axes.plot(
        [minutes for minutes, _ in published], [height for _, height in published], color=COLOURS[1], marker="D", ms=6,
        mfc="none", mew=1.6, ls="", label="published",
    )  # fmt: skip
    axes.set_yticks(
        range(len(rows)), [f"{row.title}, {row.run.gpus:,} GPUs" for row in rows if row.run], fontsize=8
    )
    axes.set_xscale("log")
    axes.set_xlabel("minutes")
    axes.grid(axis="x", color=MUTED, lw=0.4, alpha=0.5)
    axes.xaxis.set_major_formatter(lambda minutes, _: f"{minutes:g}")
    axes.figure.legend(fontsize=8, loc="outside lower right", ncols=2)


def target_figure(plan: TargetPlan) -> Figure:
    """A figure: minutes against GPUs on logarithmic axes, with its band, ideal scaling, and the best choice."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.6, 4.6), layout="constrained")
        figure.suptitle(
            f"{plan.title} to {plan.target} on {plan.cluster}"[:90],
            x=0.012,
            ha="left",
            fontsize=11,
            fontweight="bold",
        )
        axes = figure.subplots()
        _draw(axes, plan)
        return figure


def _draw(axes: Axes, plan: TargetPlan) -> None:
    runs = [choice.run for choice in plan.choices]
    gpus = [run.gpus for run in runs]
    minutes = [run.seconds / 60 for run in runs]
    ideal = [minutes[0] * gpus[0] / count for count in gpus]
    axes.plot(gpus, ideal, color=MUTED, lw=1.2, ls=(0, (4, 2)), label="ideal")
    low, high = ([getattr(run, name) / 60 for run in runs] for name in ("seconds_low", "seconds_high"))
    axes.fill_between(gpus, low, high, color=BLUE, alpha=0.15, lw=0, label="8 of 10 runs")
    axes.plot(gpus, minutes, color=BLUE, marker="o", ms=4, lw=1.6, label="predicted")
    apart = [
        run
        for run, after in zip(runs, [*runs[1:], None], strict=True)
        if after is None or after.gpus >= _APART * run.gpus
    ]
    for run in apart:
        axes.annotate(
            f"{run.batch:,.0f}", (run.gpus, run.seconds / 60), xytext=(0, 9), textcoords="offset points", ha="center",
            fontsize=7, color=INK,
        )  # fmt: skip
    for choice, name, colour in (
        (plan.best, "best", COLOURS[1]),
        (plan.end, "strong scaling ends", COLOURS[2]),
    ):
        axes.plot(
            [choice.run.gpus], [choice.run.seconds / 60], marker="o", ms=9, mfc="none", mec=colour, mew=1.8, ls="",
            label=f"{name}: {choice.run.gpus:,} GPUs",
        )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks([run.gpus for run in apart], [f"{run.gpus:,}" for run in apart], fontsize=8)
    axes.minorticks_off()
    ticks = [10.0**power * step for power in range(-2, 6) for step in (1, 2, 5)]
    least, most = min(*low, *ideal), max(high)
    shown = [tick for tick in ticks if least <= tick <= most]
    axes.set_yticks(shown, [f"{tick:g}" for tick in shown], fontsize=8)
    axes.set_xlabel("GPUs; labels are batches")
    axes.set_ylabel("minutes to the target")
    axes.legend(fontsize=8, loc="upper right")
