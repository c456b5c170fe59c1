"""2:4 sparsity of a network that is trained: masks by magnitude, kept while it is trained on; and accuracy on a sample.

The recipe of Mishra et al. 2021 (arXiv 2104.08378), section 4: train, prune once by magnitude, train again with the
same learning rate while the mask stays. Pruned are linear layers and convolutions with inputs in multiples of 16 and
outputs in multiples of 8, but no embedding and no head.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from podsim.lab.training.batches import Batches
from podsim.lab.training.rank_layout import Layout
from podsim.lab.wires import Wires
from podsim.learning.sparsity import best_mask
from podsim.learning.sparsity_files import LEAST_INPUTS, LEAST_OUTPUTS

_APART = 2**31 - 1
"""the step whose batch is the sample: no run gets so far"""
_AT_ONCE = 256


class Masks:
    """The masks of a rank's weights."""

    def __init__(self, torch: Any, modules: Iterable[Any]) -> None:
        """Masks of the weights as they are."""
        self.pairs: list[tuple[Any, Any]] = []
        for module in modules:
            for name, layer in module.named_modules():
                if name.split(".")[-1] != "head" and is_prunable(layer):
                    weight: Any = layer.weight
                    rows = np.moveaxis(weight.detach().abs().cpu().numpy(), 1, -1)
                    mask = np.moveaxis(best_mask(rows), -1, 1)
                    self.pairs.append(
                        (weight, torch.from_numpy(np.ascontiguousarray(mask)).to(weight.device))
                    )
        self.torch = torch

    @property
    def weights(self) -> int:
        """The number of weights under masks."""
        return sum(weight.numel() for weight, _ in self.pairs)

    def kept(self) -> float:
        """The share of the magnitude that the masks keep."""
        with self.torch.no_grad():
            total = sum(float(weight.abs().sum()) for weight, _ in self.pairs)
            kept = sum(float((weight.abs() * mask).sum()) for weight, mask in self.pairs)
        return kept / total if total else 1.0

    def apply(self) -> None:
        """Set the weights that were pruned to zero."""
        with self.torch.no_grad():
            for weight, mask in self.pairs:
                weight.mul_(mask)


def is_prunable(layer: Any) -> bool:
    """Whether a layer is linear or a convolution, and of a size that sparse Tensor Cores take."""
    weight: Any = getattr(layer, "weight", None)
    if weight is None or not (hasattr(layer, "in_features") or hasattr(layer, "in_channels")):
        return False
    return bool(weight.shape[1] % LEAST_INPUTS == 0 and weight.shape[0] % LEAST_OUTPUTS == 0)


def accuracy(wires: Wires, layout: Layout, batches: Batches, samples: int) -> float:
    """The share of samples, or of their tokens, whose target is the network's first choice. The network is whole."""
    torch, (module,) = wires.torch, layout.modules.values()
    right = count = 0
    inputs, targets = batches.batch(_APART, samples)
    with torch.no_grad():
        for first in range(0, samples, _AT_ONCE):
            given, wanted = (
                torch.from_numpy(part[first : first + _AT_ONCE].copy()).to(wires.device)
                for part in (inputs, targets)
            )
            chosen = module(given).argmax(dim=-1)
            right += int((chosen == wanted).sum())
            count += wanted.numel()
    return right / count
