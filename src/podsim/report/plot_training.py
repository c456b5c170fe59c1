"""Training in charts: losses, precisions, batches, pruned tensors, and workers that wait for each other."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from podsim.answers.batch_sizes import BatchAdvice, Sharpness
from podsim.answers.exchanged import ExchangeRun, Tradeoff
from podsim.answers.pruned import Pruned
from podsim.answers.trained import MeasuredTraining
from podsim.answers.trained_precisions import PrecisionCurve, TrainedPrecisions
from podsim.answers.transferred import Transferred
from podsim.report.chart_marks import INK, Axis, Band, Bars, Chart, Mark, Rule, Series, Sheet, Span
from podsim.report.training_tables import run_name
from podsim.report.worker_tables import bound_name
from podsim.units import format_quantity

_NORMAL = 0.763
"""share. What 2:4 keeps of weights that are normally distributed."""
_MOST = 40
"""tensors of a chart"""


def loss_figure(runs: MeasuredTraining | Sequence[MeasuredTraining]) -> Sheet:
    """The loss of each run over its steps, and its seconds below."""
    runs = [runs] if isinstance(runs, MeasuredTraining) else runs
    losses: list[Mark] = [Rule(step) for run in runs for step in run.resumed]
    times: list[Mark] = []
    for index, run in enumerate(runs):
        steps = [row.step for row in run.rows]
        width = 1.8 - 0.3 * min(index, 3)
        losses.append(Series(steps, [row.loss for row in run.rows], run_name(run), index, width=width))
        times.append(Series(steps, [1e3 * row.seconds for row in run.rows], colour=index, width=1.0))
    charts = [
        Chart(losses, "loss", x=Axis(is_whole=True)),
        Chart(times, "milliseconds of a step", x=Axis("step", is_whole=True), y=Axis(low=0.0)),
    ]
    return Sheet(f"{runs[0].model}, {runs[0].data}", charts, size=(8.4, 5.2), heights=(2.3, 1.0))


def precision_figure(runs: TrainedPrecisions) -> Sheet:
    """The mean loss of each precision, the range of its seeds, and differences from the first precision."""
    losses, apart = list[Mark](), list[Mark]()
    groups = [_curves(runs, row.precision, row.loss_scale) for row in runs.rows]
    for index, (row, curves) in enumerate(zip(runs.rows, groups, strict=True)):
        name = row.precision + (f", loss scale {row.loss_scale}" if row.loss_scale != "none" else "")
        steps = list(zip(*(curve.losses for curve in curves), strict=False))
        along = range(len(steps))
        losses.append(
            Band(along, [min(values) for values in steps], [max(values) for values in steps], "", index)
        )
        losses.append(Series(along, [fmean(values) for values in steps], name, index))
        losses += [
            Series([len(curve.losses) - 1], [curve.losses[-1]], colour=index, mark="x")
            for curve in curves
            if curve.diverged is not None and curve.losses
        ]
        if index:
            pairs = [
                [mine - theirs for mine, theirs in zip(run.losses, base.losses, strict=False)]
                for run, base in zip(curves, groups[0], strict=True)
            ]
            mean = [fmean(values) for values in zip(*pairs, strict=False)]
            apart.append(Series(range(len(mean)), mean, colour=index, width=1.1))
    if runs.noise:
        apart.insert(0, Span(-runs.noise, runs.noise, is_level=True))
    noise = ", grey: seed noise at the end" if runs.noise else ""
    charts = [
        Chart(losses, "loss: mean and range of the seeds", x=Axis(is_whole=True)),
        Chart(apart, f"difference from {runs.rows[0].precision}{noise}", x=Axis("step", is_whole=True)),
    ]
    return Sheet(f"{runs.model}, {runs.data}", charts, size=(8.4, 5.2), heights=(2.0, 1.0))


def _curves(runs: TrainedPrecisions, precision: str, scale: str) -> list[PrecisionCurve]:
    return [curve for curve in runs.curves if (curve.precision, curve.loss_scale) == (precision, scale)]


def batch_figure(advice: BatchAdvice) -> Sheet:
    """Steps and samples over the batch, with the critical batch marked."""
    relative = "" if advice.target else ", relative to the fewest"
    batches = [row.batch for row in advice.rows]
    measured = [row for row in advice.rows if row.measured is not None]
    charts = []
    for name in ("steps", "samples"):
        marks: list[Mark] = [
            Rule(advice.critical), Series(batches, [getattr(row, name) for row in advice.rows], mark="o"),
        ]  # fmt: skip
        if measured:
            values = [(row.measured or 0) * (row.batch if name == "samples" else 1) for row in measured]
            marks.append(Series([row.batch for row in measured], values, "measured", INK, "", "x"))
        charts.append(Chart(marks, f"{name}{relative}", x=Axis("batch, samples", "log"), y=Axis(scale="log")))
    title = f"critical batch {advice.critical:,.0f} samples, {advice.source}"
    return Sheet(title, charts, size=(9.6, 4.2), columns=2)


def transfer_figure(answer: Transferred) -> Sheet:
    """Accuracy, bytes and rate after each step of transfer learning, and what was predicted."""
    names = [row.stage for row in answer.rows]
    texts = {"accuracy": ":.1%", "bytes": ":,.0f", "answered": ":,.0f"}
    titles = ("accuracy", "bytes", "images/s of one core")
    charts: list[Chart] = []
    for (name, text), title in zip(texts.items(), titles, strict=True):
        values = [getattr(row, name) for row in answer.rows]
        said = [getattr(row, f"predicted_{name}") for row in answer.rows]
        bars = Bars(values, lines=said, texts=[format(value, text[1:]) for value in values])
        side = Axis(names=names if not charts else [""] * len(names), is_reversed=True)
        charts.append(Chart([bars], title, x=Axis(is_bare=True, low=0.0), y=side))
    title = "A small network, step by step; a line across a bar is what was predicted"
    return Sheet(title, charts, size=(9.6, 3.6), columns=3)


def sharpness_figure(answer: Sharpness) -> Sheet:
    """Validation loss and sharpness over the batch, a line for each rule of the learning rate."""
    charts, rules = [], dict.fromkeys(row.rule for row in answer.rows)
    titles = {"validation": "validation loss, nats", "sharpness": "largest eigenvalue of the Hessian"}
    for name, title in titles.items():
        marks: list[Mark] = []
        for colour, rule in enumerate(rules):
            rows = [row for row in answer.rows if row.steps and (row.rule == rule or row is answer.rows[0])]
            label = "same rate" if rule == "none" else f"rate by {rule}"
            batches, values = [row.batch for row in rows], [getattr(row, name) for row in rows]
            marks.append(Series(batches, values, label, colour, mark="o"))
        charts.append(Chart(marks, title, x=Axis("batch, samples", "log"), y=Axis(low=0.0)))
    title = f"{answer.seeds} seeds, all at a training loss of {answer.target:g}"
    return Sheet(title, charts, size=(9.6, 4.2), columns=2)


def prune_figure(pruned: Pruned) -> Sheet:
    """The kept share of each tensor, before and after a permutation; those that keep least, of a large file."""
    chosen = [tensor for tensor in pruned.tensors if tensor.kept is not None]
    if len(chosen) > _MOST:
        chosen = sorted(chosen, key=lambda tensor: tensor.kept or 0.0)[:_MOST]
    rows = range(len(chosen))
    marks: list[Mark] = [
        Rule(100 * _NORMAL, "of a normal distribution"),
        Series([100 * (tensor.kept or 0) for tensor in chosen], rows, "own order", 0, "", "o"),
    ]
    if pruned.before is not None:
        shares = [100 * (tensor.permuted or 0) for tensor in chosen]
        marks.append(Series(shares, rows, "permuted", 1, "", "o", is_hollow=True))
    names = Axis(names=[tensor.name[-48:] for tensor in chosen], is_reversed=True)
    chart = Chart(marks, x=Axis("magnitude kept, %"), y=names, legend="above", legend_columns=3)
    return Sheet(f"{pruned.file}, 2:4", [chart], size=(9.6, 1.6 + 0.22 * len(chosen)))


def tradeoff_figure(compared: Tradeoff) -> Sheet:
    """Speed, idle time and staleness over the bound, all-reduce apart."""
    runs, first = compared.runs, compared.first
    speed = [run.to_loss.seconds if run.to_loss else run.steps_per_second for run in runs]
    title = (
        f"seconds to loss {first.to_loss.loss:g}" if first and first.to_loss else "steps/s of a worker, mean"
    )
    idle, waiting = [100 * run.idle for run in runs], [100 * run.waiting for run in runs]
    panels: tuple[tuple[str, list[Mark]], ...] = (
        (title, _over_bounds(runs, speed)),
        (
            "time without compute, %",
            _over_bounds(runs, idle, 0, "idle") + _over_bounds(runs, waiting, 1, "of it waiting for others"),
        ),
        (
            "staleness, others' updates",
            _over_bounds(runs, [run.staleness for run in runs], 0, "mean")
            + _over_bounds(runs, [run.staleness_p99 for run in runs], 1, "99 % within"),
        ),
    )
    names = [bound_name(run) for run in runs]
    along = Axis("rounds ahead of the slowest, at most", names=names)
    charts = [Chart(marks, name, x=along, y=Axis(low=0.0)) for name, marks in panels]
    return Sheet(compared.name, charts, _workers_text(compared), (11.0, 4.2), columns=3)


def _workers_text(compared: Tradeoff) -> str:
    run = [run for run in compared.runs if run.servers][-1]
    servers = f"{run.servers:,} parameter server{'s' if run.servers > 1 else ''}"
    return (
        f"{run.workers:,} workers, {format_quantity(run.compute, 's')} of compute a step; {servers}; each sends "
        f"{format_quantity(run.gradients, 'B')}, gets {format_quantity(run.weights, 'B')}"
    )


def _over_bounds(
    runs: Sequence[ExchangeRun], values: Sequence[float], colour: int = 0, name: str = ""
) -> list[Mark]:
    """A line over the bounds; an all-reduce is a hollow mark, no part of the line."""
    served = [index for index, run in enumerate(runs) if run.servers]
    alone = [index for index, run in enumerate(runs) if not run.servers]
    return [
        Series(served, [values[at] for at in served], name, colour, mark="o"),
        Series(alone, [values[at] for at in alone], "", colour, "", "o", is_hollow=True, size=6),
    ]
