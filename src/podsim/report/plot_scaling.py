"""Scaling drawn: IsoFLOP curves and the front over days, fitted against measured losses, what named laws advise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

from podsim.answers.answer import Answer
from podsim.answers.losses import count_text
from podsim.answers.scaling_answers import ScaleBest, ScaleFit, ScaleLadder, ScaleLaws, ScaleLoss, SizePoint
from podsim.report.chart_marks import BLUE, COLOURS, INK, MUTED
from podsim.report.plots import STYLE, load_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT = 10.4, 4.9
_LEFT, _RIGHT = (0.075, 0.125, 0.395, 0.68), (0.565, 0.125, 0.42, 0.68)
_MANY = 1500


def scale_figure(answer: Answer) -> Figure:
    """The figure of an answer about scaling."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(_WIDTH, _HEIGHT))
        left, right = figure.add_axes(_LEFT), figure.add_axes(_RIGHT)
        title, subtitle = _DRAWN[type(answer)](left, right, answer)
        figure.text(0.012, 0.955, title[:120], fontsize=11, fontweight="bold", va="center")
        figure.text(0.012, 0.9, subtitle[:160], fontsize=8.5, va="center")
        return figure


def _best(left: Axes, right: Axes, answer: ScaleBest) -> tuple[str, str]:
    """Left the loss by size at the compute of some days, right the best loss by days, with its band."""
    for colour, (days, group) in zip(
        COLOURS[1:], groupby(answer.curve, key=lambda point: point.days), strict=False
    ):
        points: list[SizePoint] = list(group)
        is_asked = abs(days / (answer.seconds / 86400.0) - 1) < 0.05 or len(points) == len(answer.curve)
        shade = BLUE if is_asked else colour
        sizes = [point.parameters for point in points]
        left.plot(sizes, [point.loss for point in points], color=shade, lw=2, label=f"{days:.3g} days")
        least = min(points, key=lambda point: point.loss)
        left.plot(least.parameters, least.loss, "o", color=shade)
        if is_asked:
            left.fill_between(
                sizes,
                [point.low for point in points],
                [point.high for point in points],
                color=shade,
                alpha=0.12,
                lw=0,
            )
    left.plot(answer.parameters, answer.loss, "D", color=INK, ms=7, label="the network taken", zorder=5)
    _log_axes(left, "parameters", "loss (nats)")
    left.legend(fontsize=8.5, loc="upper center")
    days_of = [point.days for point in answer.front]
    right.fill_between(
        days_of, [point.low for point in answer.front], [point.high for point in answer.front], color=BLUE, alpha=0.12,
        lw=0, label="80 % band",
    )  # fmt: skip
    right.plot(days_of, [point.loss for point in answer.front], "o-", color=BLUE, lw=2, label="best network")
    for point in answer.front[::2]:
        right.annotate(
            count_text(point.parameters),
            (point.days, point.loss),
            textcoords="offset points",
            xytext=(0, 8),
            ha="left" if point is answer.front[0] else "right" if point is answer.front[-1] else "center",
            fontsize=8.5,
        )
    _log_axes(right, f"days on {answer.gpus:,} GPUs", "loss (nats)", plain=True)
    right.legend(fontsize=8.5, loc="upper right")
    return (
        f"{count_text(answer.parameters)} parameters, {count_text(answer.tokens)} tokens: loss {answer.loss:.3f}",
        f"{answer.cluster.partition(' (')[0]}, {answer.gpus:,} GPUs; IsoFLOP curves and what more days bring",
    )


def _fit(left: Axes, right: Axes, answer: ScaleFit) -> tuple[str, str]:
    """Left the runs with the law's curves by tokens, right the predicted over the measured loss by compute."""
    rows = [row for row in answer.rows if row.use == "fitted"]
    for row in rows[:: max(1, len(rows) // _MANY)]:
        left.plot(row.parameters, row.loss, ".", color=BLUE, alpha=0.6)
        right.plot(6 * row.parameters * row.tokens, 100 * row.error, ".", color=BLUE, alpha=0.6)
    for colour, (tokens, group) in zip(
        COLOURS[1:], groupby(answer.curves, key=lambda point: point.tokens), strict=False
    ):
        points = list(group)
        sizes, losses = [point.parameters for point in points], [point.loss for point in points]
        left.plot(sizes, losses, color=colour, lw=1.5, label=f"{count_text(tokens)} tokens")
    _log_axes(left, "parameters", "loss (nats)")
    left.legend(fontsize=8.5)
    _log_axes(right, "FLOPs of training", "predicted over measured loss (%)")
    right.axhline(0.0, color=MUTED, lw=1)
    held = answer.held_out
    checked = f"; {held.error:.2%} on the {held.runs} largest, held out" if held else ""
    return (
        f"{answer.file}: {answer.law.equation}",
        f"{len(rows)} runs, mean error {answer.error:.2%}{checked}",
    )


def _ladder(left: Axes, right: Axes, answer: ScaleLadder) -> tuple[str, str]:
    """Left the loss of each network by tokens, right predicted over measured losses."""
    sizes = sorted({row.parameters for row in answer.rows})
    for colour, size in zip((*COLOURS, INK), sizes, strict=False):
        rows = [row for row in answer.rows if row.parameters == size]
        is_largest = size == sizes[-1]
        tokens = [row.tokens for row in rows]
        label = f"{count_text(size)}{', held out' if is_largest else ''}"
        left.plot(tokens, [row.loss for row in rows], "D" if is_largest else "o", color=colour, label=label)
        left.plot(tokens, [row.predicted for row in rows], color=colour, lw=1.5)
        right.plot(tokens, [100 * row.error for row in rows], "D" if is_largest else "o", color=colour)
    _log_axes(left, "tokens", "loss (nats)")
    left.legend(fontsize=8.5, title="parameters")
    _log_axes(right, "tokens", "predicted over measured loss (%)")
    right.axhline(0.0, color=MUTED, lw=1)
    held = answer.held_out
    return (
        f"A ladder of {len(sizes)} networks: {answer.law.equation}",
        f"the largest is predicted within {held.error:.2%}",
    )


def _loss(left: Axes, right: Axes, answer: ScaleLoss) -> tuple[str, str]:
    """Left the loss by tokens with its band, right by parameters at the same tokens."""
    half = len(answer.curves) // 2
    for axes, label, points in (
        (left, "tokens", answer.curves[:half]), (right, "parameters", answer.curves[half:]),
    ):  # fmt: skip
        along = [getattr(point, label) for point in points]
        if answer.law.fitted is not None:
            lows, highs = [point.low for point in points], [point.high for point in points]
            axes.fill_between(along, lows, highs, color=BLUE, alpha=0.12, lw=0, label="80 % band")
            for end in getattr(answer.law.fitted, label):
                if along[0] < end < along[-1]:
                    axes.axvline(end, color=MUTED, lw=1, ls="--")
        axes.plot(along, [point.loss for point in points], color=BLUE, lw=2)
        axes.plot(getattr(answer, label), answer.loss, "D", color=INK)
        _log_axes(axes, label, "loss (nats)")
    return (
        f"{answer.model}, {count_text(answer.tokens)} tokens: loss {answer.loss:.3f} nats",
        f"law {answer.law.name}; dashed: ends of the range that it was fitted to",
    )


def _laws(left: Axes, right: Axes, answer: ScaleLaws) -> tuple[str, str]:
    """Left the parameters that each law advises by compute, right the tokens a parameter."""
    by_law = sorted(answer.rows, key=lambda row: row.law != "podsim")
    names = list(dict.fromkeys(row.law for row in by_law if row.against is not None))
    for colour, name in zip(COLOURS, names, strict=False):
        rows = sorted((row for row in by_law if row.law == name), key=lambda row: row.flops)
        flops = [row.flops for row in rows]
        left.plot(flops, [row.parameters for row in rows], "o-", color=colour, label=name)
        right.plot(flops, [row.tokens / row.parameters for row in rows], "o-", color=colour)
    _log_axes(left, "FLOPs of training", "parameters")
    left.set_yscale("log")
    _log_axes(right, "FLOPs of training", "tokens a parameter")
    right.set_yscale("log")
    left.legend(fontsize=8.5)
    return "What named laws advise", "the best parameters, and tokens a parameter, for some compute"


def _log_axes(axes: Axes, along: str, up: str, *, plain: bool = False) -> None:
    """Labels, a logarithmic axis of quantities, and a grid."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    low, high = axes.get_xlim()
    if high < 100 * low:
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.set_xlabel(along)
    axes.set_ylabel(up)
    if along in ("parameters", "tokens"):
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: count_text(value)))
    elif plain:
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(color=MUTED, alpha=0.25, lw=0.6)


_DRAWN: Mapping[type, Callable[[Any, Any, Any], tuple[str, str]]] = {
    ScaleBest: _best, ScaleFit: _fit, ScaleLadder: _ladder, ScaleLoss: _loss, ScaleLaws: _laws,
}  # fmt: skip
"""kind of answer -> draws both axes and gives title and subtitle"""
