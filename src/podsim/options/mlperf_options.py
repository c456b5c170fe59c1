"""Options about time to train: benchmarks of MLPerf Training on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass

from podsim.options.plan_options import TargetOptions
from podsim.options.question import like, option


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
