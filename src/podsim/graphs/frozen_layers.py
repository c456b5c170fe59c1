"""A captured network whose first layers are frozen: no gradient reaches them, and they keep nothing for a backward pass.

A layer is a product with weights of its own (convolution, linear, recurrent), in the order in which they run, with what
follows it up to the next one. Frozen weights take memory, but no gradient, no state and no part of an exchange.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from podsim.errors import ModelError
from podsim.graphs.op_graph import ARITHMETIC, KINDS, OpGraph
from podsim.workload.finetuning import read_training

_PRODUCTS = tuple(KINDS.index(kind) for kind in ARITHMETIC)


def trained_graph(graph: OpGraph, training: str) -> OpGraph:
    """The graph as it is trained: "full", or "frozen:20" without a backward pass of its first 20 layers.

    Raises ModelError for another kind of training, for as many layers as there are, and for embedding tables.
    """
    kind, number = read_training(training)
    if kind == "full":
        return graph
    if kind != "frozen" or graph.sparse.any():
        can = "full or frozen:LAYERS, as frozen:20" if kind != "frozen" else "full, as its tables learn"
        raise ModelError(f"train={training}: a captured network such as {graph.name} takes {can}")
    layers = np.flatnonzero(np.isin(graph.kind, _PRODUCTS) & (graph.parameters > 0))
    if number >= len(layers):
        raise ModelError(
            f"train={training}: {graph.name} has {len(layers)} layers with weights; freeze fewer of them"
        )
    op = np.arange(len(graph))
    trained = op >= layers[number]
    reader = np.repeat(op, np.diff(graph.first))
    reached = np.isin(op, reader[trained[graph.before]])  # a gradient goes on to an earlier op
    read = np.isin(op, graph.before[trained[reader]])  # a trained op reads the output
    gradient = graph.gradient & trained[:, None]
    gradient[:, 0] &= reached
    wanted = np.maximum(graph.gradient.sum(axis=1), 1)
    return replace(
        graph, gradient=gradient, frozen=float(graph.parameters[~trained].sum()),
        flops_back=graph.flops_back * gradient.sum(axis=1) / wanted, kept=graph.kept * (trained | read),
        **{name: getattr(graph, name) * trained for name in ("read_back", "written_back", "kernels_back", "parameters")},
    )  # fmt: skip
