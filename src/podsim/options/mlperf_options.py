"""Options about time to train: benchmarks of MLPerf Training on a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass

from podsim.options.plan_options import TargetOptions
from podsim.options.question import like, option


@dataclass(frozen=True, kw_only=True)
class FigureOptions:
    """A figure of the DGX A100 white paper."""

    number: int | None = option(None, "4, 5, 7 or 12; default the list of them.", argument=True)


@dataclass(frozen=True, kw_only=True)
class TargetDesignOptions:
    """A benchmark of a study that is taken to its target; its GPUs and its batch are chosen where they are open."""

    model: str = option(MISSING, "A benchmark of MLPerf Training: bert, resnet, llama2_70b_lora, …")
    on: str = like(TargetOptions, "on")
    gpus: int | None = option(None, "The most GPUs.")
    batch: int | str | None = like(TargetOptions, "batch")
    objective: str = option("time", "time or cost.", choices=("time", "cost"))
    price: str | float = like(TargetOptions, "price")
    round: str = like(TargetOptions, "round")
    overrides: Mapping[str, str] | None = like(TargetOptions, "overrides")


@dataclass(frozen=True, kw_only=True)
class MlperfOptions:
    """A round of MLPerf Training, and where it runs."""

    round: str = option(MISSING, "A round, v0.5 to v6.1.", argument=True, example="v0.7", also=("version",))
    on: str = option(
        MISSING, "GPU, system, cluster or TOML file: selene-2020-06, dgx-h100:8 (nodes).", example="dgx-h100:8",
        complete="clusters", also=("cluster", "system", "hardware", "machine"),
    )  # fmt: skip
    benchmark: Sequence[str] = option(
        (),
        "A benchmark of the round: bert, resnet, llama2_70b_lora, … Repeatable; default all.",
        also=("task", "model"),
    )
    gpus: int | None = option(
        None,
        "GPUs; default those of the fastest submission on this GPU, or else all.",
        also=("ngpus", "num-gpus"),
    )
    batch: float | None = option(
        None, "Samples of a step (tokens for transformer); default as submitted, or else the fastest.",
        also=("global-batch", "batch-size"),
    )  # fmt: skip
    samples: float | None = option(None, "Samples to the target, in place of the law's.")
