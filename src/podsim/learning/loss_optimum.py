"""The size with the least loss for a budget of compute that training shares with inference, on tokens that may repeat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podsim.axes import Floats
from podsim.errors import PodsimError
from podsim.learning.loss_law import FLOPS_PER_PARAMETER, LossLaw

_INFERENCE = 2.0
"""FLOPs of inference for a parameter and a token"""
_STEPS = 4000
_FEWEST, _MOST = 1e5, 1e15


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The compute that a network may take, and what else it is asked for."""

    flops: float
    """FLOP. The compute of training and of inference together, at the same utilisation."""
    inference: float = 0.0
    """count. The tokens to infer."""
    unique: float | None = None
    """count. The tokens that differ; None: as many as are trained."""

    def tokens(self, parameters: Floats) -> Floats:
        """count. The tokens that networks can train on; below zero where inference alone takes more."""
        training = self.flops - _INFERENCE * parameters * self.inference
        return np.asarray(training / (FLOPS_PER_PARAMETER * parameters))

    def loss(self, law: LossLaw, parameters: Floats) -> Floats:
        """nat. The loss of networks that spend the budget; infinite where it does not suffice."""
        tokens = self.tokens(parameters)
        possible = np.maximum(tokens, 1.0)
        return np.where(tokens >= 1.0, law.loss(parameters, possible, self.unique), np.inf)


def best_parameters(law: LossLaw, budget: Budget) -> float:
    """count. The parameters with the least loss within a budget. Raises PodsimError where none suffices."""
    sizes = np.geomspace(_FEWEST, _MOST, _STEPS)
    losses = budget.loss(law, sizes)
    at = int(np.argmin(losses))
    if not np.isfinite(losses[at]):
        raise PodsimError(
            f"{budget.inference:.3g} tokens of inference take all of {budget.flops:.3g} FLOPs; ask for fewer, "
            "or more days"
        )
    return float(sizes[at])
