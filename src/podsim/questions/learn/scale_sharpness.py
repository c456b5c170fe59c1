"""`podsim scale sharpness`: small and large batches trained to one loss: how they generalise, how sharp they end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from podsim.answers.batch_sizes import Sharpness, SharpnessRow
from podsim.errors import raise_all
from podsim.lab.run_sizes import out_of_bounds
from podsim.lab.training.sharpness import Minimum, SharpnessTask, train_group
from podsim.learning.batch_rules import scaled_rate
from podsim.options.output_options import PlotOutput
from podsim.options.question import Progress, no_progress, option, question

_RULES = ("none", "sqrt", "linear")


@dataclass(frozen=True, kw_only=True)
class SharpnessOptions:
    """Batches that are trained for real."""

    batches: str = option("8,64,512", "Batches, with commas.")
    rate: float = option(0.1, "Learning rate at the smallest batch; others keep it, and by both rules.")
    seeds: int = option(5, "Seeds of each batch and rate.", least=2, most=64)
    samples: int = option(1024, "Training samples.", least=64, most=65536)
    target: float = option(0.02, "Training loss at which every run ends.")
    epochs: int = option(400, "The most epochs of a run.", least=1, most=100_000)
    seed: int = option(0, "Seed of the data, and the first of the weights.")


@question(SharpnessOptions, output=PlotOutput, progress="training")
def scale_sharpness(options: SharpnessOptions, *, progress: Progress = no_progress) -> Sharpness:
    """Validation loss, gap and largest eigenvalue of the Hessian by batch, at the same training loss.

    The smallest batch has the learning rate; others have it too, and by the square-root and the linear rule.
    `progress` is called with (parts done, parts). Raises PodsimError for what makes no sense, LabError without PyTorch.
    """
    batches = _batches(options)
    task = SharpnessTask(
        samples=options.samples, target=options.target, epochs=options.epochs, data_seed=options.seed
    )
    seeds = range(options.seed, options.seed + options.seeds)
    rows: list[SharpnessRow] = []
    for number, batch in enumerate(batches):
        rules = _RULES[: 1 if batch == batches[0] else 3]
        rates = [
            options.rate if rule == "none" else scaled_rate(options.rate, batches[0], batch, rule)
            for rule in rules
        ]

        def report(share: float, number: int = number) -> None:
            progress(round(100 * (number + share)), 100 * len(batches))

        runs = train_group(task, batch, rates, list(seeds), report)
        groups = [runs[first : first + options.seeds] for first in range(0, len(runs), options.seeds)]
        rows += [
            _row(batch, rule, rate, group) for rule, rate, group in zip(rules, rates, groups, strict=True)
        ]
    return Sharpness(samples=options.samples, target=options.target, seeds=options.seeds, rows=tuple(rows))


def _batches(options: SharpnessOptions) -> list[int]:
    words = options.batches.split(",")
    problems = out_of_bounds(options)
    if (
        not all(word.strip().isdecimal() and 0 < int(word) <= options.samples for word in words)
        or len(words) < 2
    ):
        problems.append(
            f"batches={options.batches[:60]}: two or more, 1 to the {options.samples} samples, as 8,64,512"
        )
    for name in ("rate", "target"):
        if not 1e-6 < getattr(options, name) < 10:
            problems.append(f"{name}={getattr(options, name):g}: between 1e-6 and 10")
    raise_all(problems)
    return sorted({int(word) for word in words})


def _row(batch: int, rule: str, rate: float, runs: Sequence[Minimum]) -> SharpnessRow:
    """All seeds of a batch and a rate; None where a run did not reach the target."""
    known = all(run.steps > 0 for run in runs)
    means = {
        name: fmean(getattr(run, name) for run in runs) if known else None
        for name in ("steps", "training", "validation", "error", "sharpness")
    }
    is_finite = all(math.isfinite(run.training) for run in runs)
    return SharpnessRow(
        batch=batch, rule=rule, rate=rate, **means, spread=stdev(run.validation for run in runs) if known else None,
        gap=fmean(run.validation - run.training for run in runs) if known else None,
        verdict="" if known else "not at the target" if is_finite else "diverged",
    )  # fmt: skip
