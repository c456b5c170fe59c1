"""What each number format gains in speed on a GPU, and what it costs in accuracy: one table for a model."""

from __future__ import annotations

from podsim.answers.number_formats import FormatAccuracy, FormatTrade, FormatTradeRow
from podsim.errors import CatalogError, NoFitError, PlanError, PodsimError
from podsim.hardware.parts import PRECISIONS, matmul_peak
from podsim.learning.format_accuracy import all_accuracy
from podsim.learning.number_format_recipes import RECIPES, read_recipe
from podsim.options.format_options import FormatOptions
from podsim.questions.train.plan import plan
from podsim.training.job_inputs import read_inputs

_PHASES = ("training", "retrained", "inference")


def format_trade(options: FormatOptions) -> FormatTrade:
    """The fastest plan of a model in each precision of training that its GPU multiplies, and published accuracy.

    Raises what `plan` raises if no precision has a plan.
    """
    if not options.on:
        raise PodsimError(
            "--model needs a GPU or a cluster: podsim format --model llama-3.1-8b --on h100 --gpus 8"
        )
    _, cluster, count, _ = read_inputs(options.model, options.on, options.gpus, None, None, "full")
    gpu = cluster.gpu
    rows: list[FormatTradeRow] = []
    problems: list[PodsimError] = []
    for precision in (
        name for name in RECIPES if name in PRECISIONS and PRECISIONS[name].is_native(cluster.gpu)
    ):
        try:
            best = plan(
                options.model,
                on=options.on,
                gpus=options.gpus,
                batch=options.batch,
                precision=precision,
                top=1,
            )
        except (NoFitError, PlanError, CatalogError) as error:
            problems.append(error)
            continue
        prediction = best.ranked[0].prediction
        rows.append(
            FormatTradeRow(
                precision=precision, peak=matmul_peak(gpu, precision), step_time=prediction.step_time,
                gain=rows[0].step_time / prediction.step_time if rows else 1.0, mfu=prediction.mfu,
                memory=prediction.memory, accuracy=_accuracy(precision),
            )
        )  # fmt: skip
    if not rows:
        raise problems[0] if problems else PodsimError(f"{gpu.name} multiplies no precision of training")
    return FormatTrade(
        model=options.model,
        gpu=gpu.name,
        gpus=count,
        batch=int(str(prediction.plan["global_batch"])),
        rows=tuple(rows),
    )


def _accuracy(precision: str) -> FormatAccuracy | None:
    """The largest group of published changes of a precision: trained in it, or else quantised; None without any."""
    name = read_recipe(precision).forward
    rows = [row for row in all_accuracy() if row.format == name]
    return min(rows, key=lambda row: (_PHASES.index(row.phase), -row.count), default=None)
