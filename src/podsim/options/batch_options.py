"""Options of batches: the critical batch, and what larger ones cost."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.options.question import option


@dataclass(frozen=True, kw_only=True)
class BatchOptions:
    """A measured run, and the batches that are asked for."""

    source: str = option(
        "", "RUN.jsonl of `train --noise-scale --save`, a CSV of batch and steps, or a published table: zhang-85m.",
        argument=True,
    )  # fmt: skip
    critical: float | None = option(None, "Critical batch in samples, instead of a source.")
    batch: str = option("", "Batches, with commas: 64,256,1024; default around the critical one.")
    optimizer: str = option("adamw", "Whose rule is usual: adamw, sgd, lars or lamb.")
    rate: float | None = option(None, "Learning rate at --base-batch.")
    base_batch: int | None = option(None, "Batch that --rate is for; default the first one.")
