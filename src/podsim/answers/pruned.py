"""What pruning a file of weights came to: plain values that name no formula."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.answer import Answer, View


@dataclass(frozen=True, kw_only=True)
class PrunedTensor:
    """One tensor of a file."""

    name: str
    kind: str
    """The type of its elements, as F16."""
    shape: tuple[int, ...]
    """The size of each axis in elements."""
    reason: str
    """The reason why it stays dense; empty for a pruned tensor."""
    kept: float | None
    """share. The share of its magnitude that the mask keeps; None for a dense tensor."""
    permuted: float | None
    """share. The kept share after the channels were permuted; None if they were not."""
    dense_bytes: int
    """B. The size of the tensor in the file that was read."""
    compressed_bytes: int
    """B. The size in the compressed layout; the dense size for a tensor that stays dense."""


@dataclass(frozen=True, kw_only=True)
class Pruned(
    Answer,
    view=View(
        report="report.prune_tables:prune_report", rows="tensors", figure="report.plot_prune:prune_figure"
    ),
):
    """A file of weights, pruned 2:4."""

    file: str
    to: str
    """The file that was written; empty if none was."""
    compressed: bool
    """Whether it was written in the compressed layout."""
    tensors: tuple[PrunedTensor, ...]
    weights: int
    """The number of weights of all tensors."""
    pruned: int
    """The number of weights of pruned tensors; half of them are zero."""
    kept: float
    """share. The share of the pruned tensors' magnitude that is kept."""
    before: float | None
    """share. The same without a permutation; None if channels were not permuted."""
    dense_bytes: int
    """B. The size of all tensors."""
    compressed_bytes: int
    """B. The size of all tensors in the compressed layout."""
