"""`podsim train`: a small network trained for real, in one precision or in several with seeds side by side."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from podsim.answers.answer import View, call
from podsim.answers.saved_run import read_trained
from podsim.answers.trained import MeasuredTraining
from podsim.answers.trained_precisions import PrecisionCurve, PrecisionRow, TrainedPrecisions
from podsim.errors import PodsimError, raise_all
from podsim.lab.options import no_folder
from podsim.lab.processes import stopped_by_signals
from podsim.lab.ranks import started_rank
from podsim.lab.training.trained_run import trained_run
from podsim.learning.number_format_recipes import read_loss_scale, read_recipe
from podsim.options.measure_options import TrainOptions
from podsim.options.output_options import Output, SimulateOutput
from podsim.options.question import PLAN_FILE, like, option, question
from podsim.whole_files import write_whole

_MOST_RUNS = 100
Progress = Callable[..., None]
"""is called with (steps done, all, what a finished run gave)"""


@dataclass(frozen=True, kw_only=True)
class TrainOutput(Output):
    """Losses of this run, and of others."""

    csv: bool = like(Output, "csv", "Print CSV: a line for each step.")
    plot: Path | None = option(None, "Draw the losses, FILE.png or .svg.", suffixes=(".png", ".svg"))
    against: Sequence[Path] = option((), "A saved run whose losses are compared, and drawn. Repeatable.")
    timeline: Sequence[Path] = like(
        SimulateOutput,
        "timeline",
        "Write the last steps: FILE.pftrace or .json (Perfetto), .html, .png, .svg. Repeatable.",
    )


def _check_output(output: TrainOutput, options: Mapping[str, Any]) -> None:
    """Raise what reading the other runs, or writing the picture, would raise after the training."""
    _others(output)
    for path in output.timeline:
        call("timeline.timelines:check_suffix", path)
    raise_all(no_folder(output.plot, "--plot"))


def _write_files(
    run: MeasuredTraining | TrainedPrecisions, output: TrainOutput, options: Mapping[str, Any]
) -> None:
    """Write the timeline of a run, and draw it with others; or draw runs in several precisions."""
    drawn: Any = run
    if isinstance(run, MeasuredTraining):
        for path in output.timeline:
            timeline = call("timeline.trained_timeline:trained_timeline", run)
            call("timeline.timelines:write_timeline", timeline, path, title=run.model)
        drawn = [run, *_others(output).values()]
    if output.plot is not None:
        figure = call("report.matplotlib_charts:draw", call(run.view.figure, drawn))
        write_whole(output.plot, call("report.plots:figure_image", figure, output.plot.suffix.lower()[1:]))


def _view(
    run: MeasuredTraining | TrainedPrecisions, output: TrainOutput, options: Mapping[str, Any]
) -> View | None:
    """The losses of a run next to those of others."""
    if isinstance(run, TrainedPrecisions):
        return None
    others = _others(output)
    return replace(
        run.view, report=lambda answer: call("report.training_tables:training_report", answer, others)
    )


def _others(output: TrainOutput) -> dict[str, MeasuredTraining]:
    return {path.name: read_trained(path) for path in output.against}


@question(
    TrainOptions, fill=PLAN_FILE, output=TrainOutput, check=_check_output, write=_write_files, view=_view,
    progress="training", ranked=True,
    status=lambda run: 130 if getattr(run, "stopped", False) else int(getattr(run, "diverged", None) is not None),
)  # fmt: skip
def train(
    options: TrainOptions, *, progress: Progress = lambda done, steps, text="": None
) -> MeasuredTraining | TrainedPrecisions | None:
    """Losses and seconds of each step of a training run; None on every rank but the first of a job.

    With several precisions, loss scales or seeds, the curves of all runs side by side. The loss of a step is the same
    for every layout, but for rounding, except where gradients are exchanged asynchronously. Under torchrun or `podsim
    emulate` the ranks are theirs; else they are forked on this machine. `progress` is called with (steps done, steps).

    Raises PlanError with all that is wrong with the plan, PodsimError for what makes no sense, LabError, naming the rank,
    for a run that broke off, and CheckpointError.
    """
    if options.seeds != 1 or "," in f"{options.precision}{options.loss_scale}":
        return _compared_precisions(options, progress)
    return trained_run(options, progress=progress)


@question(TrainOptions, fill=PLAN_FILE)
def train_precisions(
    options: TrainOptions, *, progress: Progress = lambda done, steps, text="": None
) -> TrainedPrecisions:
    """Runs of every precision, loss scale and seed, one after the other on this machine; the first is the baseline.

    `save` has them as JSON from the end of the first run on. Ctrl-C, SIGTERM and SIGHUP keep the runs that ended.

    Raises the errors of `train`, and PodsimError under torchrun and for options of single runs.
    """
    return _compared_precisions(options, progress)


def _compared_precisions(options: TrainOptions, progress: Progress) -> TrainedPrecisions:
    pairs = _pairs(options)
    _check(options, len(pairs))
    runs = [
        _single(options, precision, scale, options.seed + seed)
        for precision, scale in pairs
        for seed in range(options.seeds)
    ]
    curves = list[PrecisionCurve]()
    with stopped_by_signals():
        try:
            for number, run in enumerate(runs):
                measured = trained_run(run, progress=partial(_count, progress, number, len(runs)))
                assert measured is not None
                curves.append(_curve(run, measured))
                if options.save is not None:
                    kept = _compared(options, curves, len(runs)).to_dict()
                    write_whole(options.save, json.dumps(kept, indent=2) + "\n")
                done = number + 1
                progress(done * options.steps, len(runs) * options.steps, _line(curves[-1], done, len(runs)))
        except KeyboardInterrupt:
            if not curves:
                raise
    return _compared(options, curves, len(runs))


def _single(options: TrainOptions, precision: str, scale: str, seed: int) -> TrainOptions:
    """The options of one of several runs, which has a log of its own."""
    log = options.metrics
    if log is not None:
        log = log.with_stem(f"{log.stem}-{precision}-{scale}-{seed}")
    return replace(options, precision=precision, loss_scale=scale, seed=seed, seeds=1, save=None, metrics=log)


def _compared(options: TrainOptions, curves: Sequence[PrecisionCurve], runs: int) -> TrainedPrecisions:
    """The runs that ended, of all, side by side."""
    groups = [curves[first : first + options.seeds] for first in range(0, len(curves), options.seeds)]
    noise = _spread([curve.final for curve in groups[0]])
    return TrainedPrecisions(
        model=options.model, data=options.data, steps=options.steps, noise=noise, stopped=len(curves) < runs,
        rows=tuple(_row(group, groups[0], noise) for group in groups), curves=tuple(curves),
    )  # fmt: skip


def _line(curve: PrecisionCurve, number: int, runs: int) -> str:
    """A run that ended, in words."""
    scale = "" if curve.loss_scale == "none" else f", loss scale {curve.loss_scale}"
    end = f"diverged at step {curve.diverged}" if curve.final is None else f"final loss {curve.final:.4f}"
    return f"{curve.precision}{scale}, seed {curve.seed}: {end}; run {number} of {runs}"


def _count(progress: Progress, before: int, runs: int, done: int, steps: int) -> None:
    """Report the steps done of all runs."""
    progress(before * steps + done, runs * steps)


def _pairs(options: TrainOptions) -> list[tuple[str, str]]:
    """(precision, loss scale) of each kind of run: of several scales, formats that need none take the first."""
    precisions, scales = (
        [word.strip().lower() for word in text.split(",") if word.strip()]
        for text in (options.precision, options.loss_scale)
    )
    for precision in precisions:
        read_recipe(precision)
    for scale in scales:
        read_loss_scale(scale)
    if not precisions or not scales:
        raise PodsimError("--precision and --loss-scale need names, e.g. fp32,fp16 and none,dynamic")
    pairs = [
        (name, scale)
        for name in precisions
        for scale in (scales if read_recipe(name).has_scale else scales[:1])
    ]
    return list(dict.fromkeys(pairs))


def _check(options: TrainOptions, kinds: int) -> None:
    """Raise PodsimError for what only a single run can have."""
    problems = ["--checkpoint is of a single run: give one precision and one seed"] * (
        options.checkpoint is not None
    )
    problems += no_folder(options.save)
    if not 1 <= options.seeds <= _MOST_RUNS or kinds * options.seeds > _MOST_RUNS:
        problems.append(f"--seeds {options.seeds} of {kinds} precisions; 1 to {_MOST_RUNS} runs in all")
    if started_rank(os.environ) is not None:
        problems.append(
            "several precisions or seeds under torchrun: their ranks are forked here; start one run at a time"
        )
    if problems:
        raise PodsimError(*problems)


def _curve(options: TrainOptions, run: MeasuredTraining) -> PrecisionCurve:
    losses = tuple(row.loss for row in run.rows)
    tail = losses[-max(1, len(losses) // 10) :]
    most = next(iter(run.lost_by.items()), None)
    return PrecisionCurve(
        precision=options.precision, loss_scale=options.loss_scale, seed=options.seed, losses=losses,
        final=None if run.diverged is not None else fmean(tail), lost=fmean(run.lost) if run.lost else 0.0,
        lost_most=f"{most[0]} {most[1]:.0%}" if most else "", skipped=len(run.skipped), diverged=run.diverged,
        overflow=run.overflow, step_time=run.step_time,
    )  # fmt: skip


def _spread(finals: Sequence[float | None]) -> float | None:
    known = [final for final in finals if final is not None]
    return stdev(known) if len(known) > 1 else None


def _row(
    curves: Sequence[PrecisionCurve], first: Sequence[PrecisionCurve], noise: float | None
) -> PrecisionRow:
    """All seeds of a precision, next to those of the first one."""
    finals = [curve.final for curve in curves if curve.final is not None]
    pairs = [(mine.final, theirs.final) for mine, theirs in zip(curves, first, strict=False)]
    changes = [mine - theirs for mine, theirs in pairs if mine is not None and theirs is not None]
    is_whole = len(finals) == len(curves)  # of a run that was stopped, the seeds that ended
    difference = fmean(changes) if changes and is_whole else None
    is_within = None if noise is None else difference is not None and abs(difference) <= noise
    worst = max(curves, key=lambda curve: curve.lost)
    return PrecisionRow(
        precision=curves[0].precision, loss_scale=curves[0].loss_scale, seeds=len(curves),
        loss=fmean(finals) if is_whole else None, spread=_spread(finals), difference=difference,
        lost=fmean(curve.lost for curve in curves), lost_most=worst.lost_most,
        skipped=sum(curve.skipped for curve in curves), step_time=curves[0].step_time, is_within=is_within,
        verdict="baseline" if curves is first else _verdict(curves, difference, noise),
    )  # fmt: skip


def _verdict(curves: Sequence[PrecisionCurve], difference: float | None, noise: float | None) -> str:
    broken = [curve for curve in curves if curve.diverged is not None]
    if broken:
        where = f": {broken[0].overflow} is not finite" if broken[0].overflow else ""
        count = f" in {len(broken)} of {len(curves)} seeds" if len(curves) > 1 else ""
        return f"diverged at step {broken[0].diverged}{count}{where}"
    if difference is None or noise is None:
        return "the noise of seeds is unknown: --seeds 5"
    if abs(difference) <= noise:
        return "within seed noise"
    times = abs(difference) / noise if noise else math.inf
    return f"{'worse' if difference > 0 else 'better'} by {times:.3g} x seed noise"
