"""Scaling in charts: IsoFLOP curves and the front over days, fitted against measured losses, what named laws advise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any

from podsim.answers.answer import Answer
from podsim.answers.losses import count_text
from podsim.answers.scaling_answers import ScaleBest, ScaleFit, ScaleLadder, ScaleLaws, ScaleLoss, SizePoint
from podsim.report.chart_marks import INK, Axis, Band, Chart, Mark, Rule, Series, Sheet

_LOSS = Axis("loss (nats)")
_ERROR = Axis("predicted over measured loss (%)")
_MANY = 1500


def scale_figure(answer: Answer) -> Sheet:
    """The charts of an answer about scaling."""
    return _SHEETS[type(answer)](answer)


def _sheet(title: str, about: str, left: Chart, right: Chart) -> Sheet:
    return Sheet(title, [left, right], about, (10.4, 4.9), columns=2)


def _along(label: str) -> Axis:
    """A logarithmic axis of quantities."""
    return Axis(label, "log", count_text if label in ("parameters", "tokens") else None)


def _best(answer: ScaleBest) -> Sheet:
    """Left the loss by size at the compute of some days, right the best loss by days, with its band."""
    marks: list[Mark] = []
    for colour, (days, group) in enumerate(groupby(answer.curve, key=lambda point: point.days), 1):
        points: list[SizePoint] = list(group)
        is_asked = abs(days / (answer.seconds / 86400.0) - 1) < 0.05 or len(points) == len(answer.curve)
        shade = 0 if is_asked else colour
        sizes = [point.parameters for point in points]
        if is_asked:
            marks.append(
                Band(sizes, [point.low for point in points], [point.high for point in points], "", shade)
            )
        marks.append(Series(sizes, [point.loss for point in points], f"{days:.3g} days", shade, width=2))
        least = min(points, key=lambda point: point.loss)
        marks.append(Series([least.parameters], [least.loss], "", shade, "", "o"))
    marks.append(Series([answer.parameters], [answer.loss], "the network taken", INK, "", "D", size=7))
    days_of = [point.days for point in answer.front]
    labels = [count_text(point.parameters) for point in answer.front]
    front: list[Mark] = [
        Band(
            days_of,
            [point.low for point in answer.front],
            [point.high for point in answer.front],
            "80 % band",
        ),
        Series(
            days_of, [point.loss for point in answer.front], "best network", mark="o", width=2, labels=labels
        ),
    ]
    return _sheet(
        f"{count_text(answer.parameters)} parameters, {count_text(answer.tokens)} tokens: loss {answer.loss:.3f}",
        f"{answer.cluster.partition(' (')[0]}, {answer.gpus:,} GPUs; IsoFLOP curves and what more days bring",
        Chart(marks, x=_along("parameters"), y=_LOSS, legend="upper center"),
        Chart(front, x=_along(f"days on {answer.gpus:,} GPUs"), y=_LOSS, legend="upper right"),
    )


def _fit(answer: ScaleFit) -> Sheet:
    """Left the runs with the law's curves by tokens, right the predicted over the measured loss by compute."""
    rows = [row for row in answer.rows if row.use == "fitted"]
    shown = rows[:: max(1, len(rows) // _MANY)]
    runs: list[Mark] = [
        Series([row.parameters for row in shown], [row.loss for row in shown], "", 0, "", ".")
    ]
    for colour, (tokens, group) in enumerate(groupby(answer.curves, key=lambda point: point.tokens), 1):
        points = list(group)
        sizes, losses = [point.parameters for point in points], [point.loss for point in points]
        runs.append(Series(sizes, losses, f"{count_text(tokens)} tokens", colour))
    flops, errors = [6 * row.parameters * row.tokens for row in shown], [100 * row.error for row in shown]
    apart: list[Mark] = [Rule(0.0, line="-", is_level=True), Series(flops, errors, "", 0, "", ".")]
    held = answer.held_out
    checked = f"; {held.error:.2%} on the {held.runs} largest, held out" if held else ""
    return _sheet(
        f"{answer.file}: {answer.law.equation}",
        f"{len(rows)} runs, mean error {answer.error:.2%}{checked}",
        Chart(runs, x=_along("parameters"), y=_LOSS),
        Chart(apart, x=_along("FLOPs of training"), y=_ERROR),
    )


def _ladder(answer: ScaleLadder) -> Sheet:
    """Left the loss of each network by tokens, right predicted over measured losses."""
    sizes = sorted({row.parameters for row in answer.rows})
    losses, errors = list[Mark](), list[Mark]([Rule(0.0, line="-", is_level=True)])
    for colour, size in enumerate(sizes):
        rows = [row for row in answer.rows if row.parameters == size]
        tokens, mark = [row.tokens for row in rows], "D" if size == sizes[-1] else "o"
        label = f"{count_text(size)} parameters{', foretold' if size == sizes[-1] else ''}"
        losses.append(Series(tokens, [row.loss for row in rows], label, colour, "", mark))
        losses.append(Series(tokens, [row.predicted for row in rows], "", colour))
        errors.append(Series(tokens, [100 * row.error for row in rows], "", colour, "", mark))
    return _sheet(
        f"A ladder of {len(sizes)} networks: {answer.law.equation}",
        f"the largest was foretold within {answer.held_out.error:.2%}",
        Chart(losses, x=_along("tokens"), y=_LOSS),
        Chart(errors, x=_along("tokens"), y=_ERROR),
    )


def _loss(answer: ScaleLoss) -> Sheet:
    """Left the loss by tokens with its band, right by parameters at the same tokens."""
    half, charts = len(answer.curves) // 2, []
    for label, points in (("tokens", answer.curves[:half]), ("parameters", answer.curves[half:])):
        along = [getattr(point, label) for point in points]
        marks: list[Mark] = []
        if answer.law.fitted is not None:
            marks.append(
                Band(along, [point.low for point in points], [point.high for point in points], "80 % band")
            )
            ends = getattr(answer.law.fitted, label)
            marks += [Rule(end) for end in ends if along[0] < end < along[-1]]
        marks.append(Series(along, [point.loss for point in points], width=2))
        marks.append(Series([getattr(answer, label)], [answer.loss], "", INK, "", "D"))
        charts.append(Chart(marks, x=_along(label), y=_LOSS))
    return _sheet(
        f"{answer.model}, {count_text(answer.tokens)} tokens: loss {answer.loss:.3f} nats",
        f"law {answer.law.name}; dashed: ends of the range that it was fitted to",
        *charts,
    )


def _laws(answer: ScaleLaws) -> Sheet:
    """Left the parameters that each law advises by compute, right the tokens a parameter."""
    by_law = sorted(answer.rows, key=lambda row: row.law != "podsim")
    sizes, ratios = list[Mark](), list[Mark]()
    for colour, name in enumerate(dict.fromkeys(row.law for row in by_law if row.against is not None)):
        rows = sorted((row for row in by_law if row.law == name), key=lambda row: row.flops)
        flops = [row.flops for row in rows]
        sizes.append(Series(flops, [row.parameters for row in rows], name, colour, mark="o"))
        ratios.append(Series(flops, [row.tokens / row.parameters for row in rows], "", colour, mark="o"))
    return _sheet(
        "What named laws advise",
        "the best parameters, and tokens a parameter, for some compute",
        Chart(sizes, x=_along("FLOPs of training"), y=Axis("parameters", "log", count_text)),
        Chart(ratios, x=_along("FLOPs of training"), y=Axis("tokens a parameter", "log")),
    )


_SHEETS: Mapping[type, Callable[[Any], Sheet]] = {
    ScaleBest: _best, ScaleFit: _fit, ScaleLadder: _ladder, ScaleLoss: _loss, ScaleLaws: _laws,
}  # fmt: skip
