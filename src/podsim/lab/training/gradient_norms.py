"""Lengths of gradients of micro-batches and of the batch, from which the gradient noise scale follows."""

from __future__ import annotations

from typing import Any

from podsim.lab.training.flat_tensors import flattened
from podsim.lab.training.rank_layout import Layout


class GradientNorms:
    """What one replica sees of its own micro-batches, and of the sum over all replicas."""

    def __init__(self, layout: Layout) -> None:
        """Nothing is measured yet."""
        self.layout = layout
        self.before: Any = None
        self.micro_batches: list[float] = []
        self.lengths: list[tuple[float, float]] = []
        """squared lengths of a micro-batch's gradient, as a mean, and of the batch's, a pair for each step"""

    def add_micro_batch(self) -> None:
        """Measure what the last micro-batch added to the gradients."""
        now = self._flat()
        added = now if self.before is None else now - self.before
        self.micro_batches.append(float(added.square().sum()))
        self.before = now

    def end_step(self, micro_batches: int) -> None:
        """Measure the gradient of the whole batch, and forget the micro-batches. Their losses were means over them."""
        mean = sum(self.micro_batches) / len(self.micro_batches)
        self.lengths.append((mean * micro_batches**2, float(self._flat().square().sum())))
        self.before, self.micro_batches = None, []

    def _flat(self) -> Any:
        return flattened([each.grad for _, each in self.layout.parameters() if each.grad is not None])
