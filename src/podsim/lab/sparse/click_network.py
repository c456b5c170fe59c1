"""A small DLRM in numpy: the loss of some clicks, and its gradients by weights and by vectors.

Numbers pass a bottom network, the products of all pairs of vectors and its output go to a top network, whose output is
the log-odds of a click. Architecture: Naumov et al. 2019, arxiv.org/abs/1906.00091.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from podsim.axes import Floats

_HIDDEN = 32


class ClickNetwork:
    """The network over some tables; its weights are one vector."""

    def __init__(self, numbers: int, tables: int, width: int) -> None:
        """The sizes of a sample: its numbers, its pooled vectors, and their elements."""
        pairs = (tables + 1) * tables // 2
        sides = ((numbers, _HIDDEN), (_HIDDEN, width), (width + pairs, _HIDDEN), (_HIDDEN, 1))
        self.shapes = [shape for fan_in, fan_out in sides for shape in ((fan_in, fan_out), (fan_out,))]
        self.pairs = np.tril_indices(tables + 1, -1)
        self.width = width

    def first_weights(self, seed: int) -> Floats:
        """The weights before training; those of biases are 0."""
        random = np.random.default_rng(seed)
        return np.concatenate([
            random.normal(0.0, np.sqrt(2.0 / shape[0]), shape).ravel() if len(shape) == 2 else np.zeros(shape)
            for shape in self.shapes
        ])  # fmt: skip

    def gradients(self, weights: Floats, numbers: Floats, pooled: Floats, clicked: Floats) -> Gradients:
        """The sum over samples of the logistic loss, and its gradients; pooled: samples x tables x width."""
        parts = np.split(weights, np.cumsum([np.prod(shape) for shape in self.shapes])[:-1])
        w = [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]
        hidden = np.maximum(numbers @ w[0] + w[1], 0.0)
        bottom = np.maximum(hidden @ w[2] + w[3], 0.0)
        vectors = np.concatenate((bottom[:, None], pooled), axis=1)
        left, right = self.pairs
        crossed = np.concatenate((bottom, (vectors @ vectors.transpose(0, 2, 1))[:, left, right]), axis=1)
        upper = np.maximum(crossed @ w[4] + w[5], 0.0)
        logit = (upper @ w[6] + w[7])[:, 0]
        loss = float(np.sum(np.logaddexp(0.0, logit) - clicked * logit))

        by_logit = (0.5 * (1.0 + np.tanh(logit / 2)) - clicked)[:, None]
        by_upper = (by_logit @ w[6].T) * (upper > 0)
        by_crossed = by_upper @ w[4].T
        by_products = np.zeros((len(numbers), vectors.shape[1], vectors.shape[1]))
        by_products[:, left, right] = by_crossed[:, self.width :]
        by_vectors = (by_products + by_products.transpose(0, 2, 1)) @ vectors
        by_bottom = (by_vectors[:, 0] + by_crossed[:, : self.width]) * (bottom > 0)
        by_hidden = (by_bottom @ w[2].T) * (hidden > 0)
        layers = ((numbers, by_hidden), (hidden, by_bottom), (crossed, by_upper), (upper, by_logit))
        flat = [each.ravel() for below, above in layers for each in (below.T @ above, above.sum(axis=0))]
        return Gradients(loss, np.concatenate(flat), by_vectors[:, 1:])


class Gradients(NamedTuple):
    """The loss of some samples, and its gradients."""

    loss: float
    """factor. The sum over samples of the logistic loss."""
    weights: Floats
    """The gradient by the network's own weights."""
    pooled: Floats
    """The gradient by the pooled vectors: samples x tables x width."""
