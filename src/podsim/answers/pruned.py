"""What pruning a file of weights came to: plain values that name no formula."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown
from podsim.units import format_quantity


@dataclass(frozen=True, kw_only=True)
class PrunedTensor:
    """One tensor of a file."""

    name: str = shown("tensor")
    kind: str = shown("type", drop=1)
    """The type of its elements, as F16."""
    shape: tuple[int, ...] = shown(format=lambda shape: " x ".join(map(str, shape)))
    """The size of each axis in elements."""
    reason: str = shown(is_hidden=True)
    """The reason why it stays dense; empty for a pruned tensor."""
    kept: float | None = shown(of_row=lambda tensor: tensor.reason or f"{tensor.kept:.1%}")
    """share. The share of its magnitude that the mask keeps; None for a dense tensor."""
    permuted: float | None
    """share. The kept share after the channels were permuted; None if they were not."""
    dense_bytes: int = shown("dense", drop=2)
    """B. The size of the tensor in the file that was read."""
    compressed_bytes: int = shown("compressed")
    """B. The size in the compressed layout; the dense size for a tensor that stays dense."""


@dataclass(frozen=True, kw_only=True)
class Pruned(Answer, view=View(rows="tensors", figure="report.plot_training:prune_figure")):
    """A file of weights, pruned 2:4."""

    file: str
    to: str = shown("written to")
    """The file that was written; empty if none was."""
    compressed: bool = shown("in the compressed layout", remark="")
    """Whether it was written in the compressed layout."""
    tensors: tuple[PrunedTensor, ...]
    weights: int
    """The number of weights of all tensors."""
    pruned: int = shown(
        of_row=lambda answer: f"{answer.pruned:,} ({answer.pruned / max(1, answer.weights):.1%})"
    )
    """The number of weights of pruned tensors; half of them are zero."""
    kept: float = shown("magnitude kept")
    """share. The share of the pruned tensors' magnitude that is kept."""
    before: float | None = shown("without the permutation")
    """share. The same without a permutation; None if channels were not permuted."""
    dense_bytes: int = shown("dense", remark="")
    """B. The size of all tensors."""
    compressed_bytes: int = shown(
        "compressed",
        of_row=lambda answer: (
            f"{format_quantity(answer.compressed_bytes, 'B')} "
            f"({answer.compressed_bytes / max(1, answer.dense_bytes):.1%})"
        ),
    )
    """B. The size of all tensors in the compressed layout."""
