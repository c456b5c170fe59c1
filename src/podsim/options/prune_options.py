"""Options of pruning."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path

from podsim.options.question import option


@dataclass(frozen=True, kw_only=True)
class PruneOptions:
    """A file of weights, and which of them are pruned 2:4."""

    file: Path = option(MISSING, "Weights: FILE.safetensors.", argument=True, example="model.safetensors")
    to: Path | None = option(None, "File that gets the pruned weights; none: only say what it would be.")
    compressed: bool = option(
        False, "Write values and 2-bit indices, as sparse Tensor Cores read them.",
        flag="--compressed",
    )  # fmt: skip
    restore: bool = option(False, "FILE is compressed: write it dense again.", flag="--restore")
    permute: bool = option(
        False, "Permute the hidden channels of MLPs first, so that masks keep more; the network stays the same.",
        flag="--permute",
    )  # fmt: skip
    inputs: str = option(
        "last",
        "Axis of a matrix's inputs: last (torch's Linear), or first (GPT-2's Conv1D).",
        choices=("last", "first"),
    )
    skip: str = option(
        "*embed*,*wte*,*wpe*,*tokens*,*positions*,*lm_head*,*norm*,head.*",
        "Names that stay dense, with commas; * stands for anything.",
    )
    only: str = option("*", "Names that are pruned, with commas.")
