"""A long run in charts: effective time over the checkpoint interval, and the days to finish."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from podsim.answers.runs import Goodput
from podsim.report.chart_marks import INK, Axis, Boxes, Chart, Mark, Rule, Series, Sheet, Span
from podsim.units import duration, format_quantity

_DAY = 86400.0
_TICKS = (1, 10, 60, 600, 3600, 6 * 3600, 86400, 10 * 86400)


def goodput_figure(run: Goodput) -> Sheet:
    """Left the effective time over the interval, right the histogram of the days."""
    tokens = format_quantity(run.tokens, "")
    title = f"{run.model}, {tokens} tokens on {run.gpus:,} GPUs of {run.cluster.partition(' (')[0]}"
    about = (
        f"a failure every {duration(run.mtbf)}, restart {duration(run.restart)}, a checkpoint stops training for "
        f"{duration(run.checkpoint.stall)}; {run.runs:,} simulated runs"
    )
    return Sheet(title, [_intervals(run), _days(run)], about, (10.4, 4.9), columns=2)


def _intervals(run: Goodput) -> Chart:
    """The efficiency as a curve, with the three optima and the interval in use."""
    times, shares = [point.interval for point in run.curve], [point.efficiency for point in run.curve]
    marks: list[Mark] = [Series(times, shares, colour=INK, width=2.0)]
    optima = (("Young", run.young, 1, "v"), ("Daly", run.daly, 2, "s"), ("exact", run.best, 0, "o"))
    for index, (name, at, colour, shape) in enumerate(optima):
        if times[0] <= at <= times[-1]:
            share = float(np.interp(math.log(at), np.log(times), shares))
            label = f"{name}: {duration(at)}"
            marks.append(Series([at], [share], label, colour, "", shape, size=11 - 3 * index))
    marks.append(Rule(run.interval, f"in use: {duration(run.interval)}", 3))
    ticks = [tick for tick in _TICKS if times[0] <= tick <= times[-1]]
    along = Axis(
        "training between checkpoints",
        "log",
        duration,
        ticks=ticks if len(ticks) > 1 else [times[0], times[-1]],
    )
    up = Axis("effective share of the time", text=lambda share: f"{share * 100:.6g} %")
    return Chart(marks, x=along, y=up, legend="above", legend_columns=2)


def _days(run: Goodput) -> Chart:
    """The histogram, the band that holds 90 % of the runs, their mean, and the run without failures."""
    marks: list[Mark] = []
    if run.counts:
        edges = [edge / _DAY for edge in run.edges]
        if edges[0] == edges[-1]:
            edges = [edges[0] - 0.005, edges[0] + 0.005]
        bins = zip(pairwise(edges), run.counts, strict=False)
        marks.append(Boxes([(left, right, 0.0, count) for (left, right), count in bins], opacity=0.45))
    low, high = run.seconds.low / _DAY, run.seconds.high / _DAY
    if high < math.inf:
        marks.append(Span(low, high, f"90 %: {low:,.4g} to {high:,.4g} d"))
    lines = (
        ("training alone", run.work, 2, ":"),
        ("with checkpoints, no failure", run.failure_free, 1, "--"),
        ("mean with failures", run.seconds.mean, INK, "-"),
    )
    marks += [
        Rule(at / _DAY, f"{name}: {at / _DAY:,.4g} d", colour, line)
        for name, at, colour, line in lines
        if at < math.inf
    ]
    beyond = run.runs - sum(run.counts)
    along = Axis(f"days to finish ({beyond:,} runs lie beyond)")
    up = Axis("simulated runs", low=0.0, high=max(run.counts, default=1) * 1.05)
    return Chart(marks, x=along, y=up, legend="above", legend_columns=2)
