"""Training runs to which a law of the loss is fitted: parameters, tokens, losses, and what is known of their settings."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Bools, Shaped

Array: TypeAlias = NDArray[np.float64]

LEAST_RATIO = 5.0
MOST_RATIO = 1000.0
"""tokens a parameter within which runs tell the law; below, the schedule of the learning rate rules the loss"""


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Finished runs, one value a run in each array."""

    parameters: Shaped[Array, "trained"]
    """count. The parameters of each run."""
    tokens: Shaped[Array, "trained"]
    """count. The tokens of each run, repeated ones included."""
    loss: Shaped[Array, "trained"]
    """nat. The final loss of each run."""
    batch: Shaped[Array, "trained"] | None = None
    """count. The tokens of a batch of each run; None: not stated."""
    rate: Shaped[Array, "trained"] | None = None
    """factor. The learning rate of each run; None: not stated."""
    unique: Shaped[Array, "trained"] | None = None
    """count. The tokens that differ, of each run; None: no token is seen twice."""

    def __len__(self) -> int:
        """Number of runs."""
        return len(self.loss)

    @property
    def compute(self) -> Shaped[Array, "trained"]:
        """FLOPs. What each run took, 6 for a parameter and a token."""
        return 6.0 * self.parameters * self.tokens

    @property
    def ratio(self) -> Shaped[Array, "trained"]:
        """count. Tokens a parameter of each run."""
        return self.tokens / self.parameters

    @property
    def is_repeated(self) -> bool:
        """Whether some runs see tokens again."""
        return self.unique is not None and bool((self.unique < 0.99 * self.tokens).any())

    @property
    def sizes(self) -> int:
        """How many different numbers of parameters there are; those within 1 % are the same."""
        return len(np.unique(np.round(np.log(self.parameters), 2)))

    def where(self, keep: Bools | NDArray[np.intp]) -> Runs:
        """The runs of a mask or of indices."""
        values: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        kept: dict[str, Any] = {
            name: None if value is None else value[keep] for name, value in values.items()
        }
        return Runs(**kept)

    def best(self) -> Runs:
        """The run with the least loss of each number of parameters, of tokens and of unique tokens: others were
        tuned worse.
        """
        return self.where(self.best_indices())

    def best_indices(self) -> NDArray[np.intp]:
        """The indices of those runs."""
        unique = self.tokens if self.unique is None else self.unique
        keys = np.stack([np.round(np.log(each), 2) for each in (self.parameters, self.tokens, unique)])
        order = np.argsort(self.loss, kind="stable")
        _, first = np.unique(keys[:, order], axis=1, return_index=True)
        return np.sort(order[first])

    @property
    def is_sane(self) -> Bools:
        """Which runs have enough tokens a parameter, and not too many, to tell a law."""
        return np.asarray((self.ratio >= LEAST_RATIO * 0.999) & (self.ratio <= MOST_RATIO * 1.001))
