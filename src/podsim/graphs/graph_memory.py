"""The memory of a training step of a graph on one GPU, and the largest batch that fits.

    weights       4 B a parameter, and 2 B for the copy of 16 bits
    gradients     4 B a parameter
    states        of the optimizer, in fp32
    tables        with sparse gradients: 4 B a weight, divided over the GPUs
    activations   what the forward pass keeps for the backward pass
    runtime       context, libraries and workspaces (the software's memory_floor)

Source: counting. Known error: allocators hold up to a tenth more. Limits: temporary tensors and copies of inputs are
left out, so the sum is a lower bound.
"""

from __future__ import annotations

import math

from podsim.answers.graphs import Cut, GraphMemory
from podsim.errors import PlanError, check_name
from podsim.graphs.op_graph import OpGraph
from podsim.hardware.parts import Gpu
from podsim.training.shapes import element_bytes
from podsim.training.software import Software

STATES = {"none": 0.0, "sgd": 4.0, "adam": 8.0, "lamb": 8.0}
"""B. The optimizer's states per parameter: momentum, or both moments."""
_WEIGHT = 4.0
"""B. A weight or a gradient in fp32."""


def graph_memory(
    graph: OpGraph, gpu: Gpu, precision: str, software: Software, *, optimizer: str, gpus: int, cut: Cut | None = None,
    tables: float | None = None,
) -> GraphMemory:  # fmt: skip
    """The bytes of a step on one of `gpus` replicas, or on the fullest device of a cut. PlanError for the optimizer.

    `tables`: B of those placed on the GPU; None: those of the graph, divided evenly.
    """
    check_name("optimizer", optimizer, STATES, PlanError)
    width = element_bytes(precision)
    parameters = float(graph.parameters.sum())
    activations = float(graph.kept.sum()) * width / graph.element
    if cut is not None:
        each = _WEIGHT * 2 + STATES[optimizer]
        fullest = max(cut.parts, key=lambda part: each * part.parameters + part.kept)
        parameters, activations = fullest.parameters, fullest.kept
    copy = width if width < _WEIGHT else 0.0
    weights = (parameters + graph.frozen / (1 if cut is None else cut.devices)) * (_WEIGHT + copy)
    fixed = weights + parameters * (_WEIGHT + STATES[optimizer])
    if tables is None:
        tables = _WEIGHT * graph.table_weights / (gpus if cut is None else cut.devices)
    left = gpu.memory - (fixed + tables + software.memory_floor)
    return GraphMemory(
        weights=weights, gradients=parameters * _WEIGHT,
        states=parameters * STATES[optimizer], tables=tables, activations=activations,
        runtime=software.memory_floor, capacity=gpu.memory,
        largest_batch=max(math.floor(left * graph.batch / activations), 0) if activations else graph.batch,
    )  # fmt: skip
