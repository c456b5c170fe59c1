"""Options of number formats."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.options.plan_options import JobOptions
from podsim.options.question import like, option


@dataclass(frozen=True, kw_only=True)
class FormatOptions:
    """A number format, and numbers that it rounds."""

    name: str = option(
        "", "A number format: tf32, bf16, e4m3, mxfp4; without one all are listed.", argument=True
    )
    numbers: str = option(
        "", "Numbers whose nearest codes are shown: 0.3, or 0.3,1e-9,-5.", argument=True, has_sign=True
    )
    on: str = option("", "A GPU, system or cluster, h100: only what it runs, and at what speed.")
    model: str = option(
        "", "A model: what each format gains in its training step on --on, and what it costs in accuracy."
    )
    gpus: int = like(JobOptions, "gpus")
    batch: str | int | None = like(JobOptions, "batch")
