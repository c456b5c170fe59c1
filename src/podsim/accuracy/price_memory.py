"""Bytes of the rows that measured memory, like held against like.

Korthikanti et al. (Figure 1) count the first stage's layers: parameters, gradients and optimizer at 18 B per
parameter, and activations; neither embedding, logits, buffers nor what the framework itself takes. Rows of the scope
"first stage" are held against just that. torchtitan logs what the allocator reserved: the peak of the
fullest stage, without what lies beside the allocator (context, libraries, communicators).

Axes: R rows; M, S, P as in podsim.training.memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from podsim.accuracy.price_llm import Batch, costs_of
from podsim.training.batch import prepare
from podsim.training.memory import held_memory, memory_kind_bytes
from podsim.training.software import load_software

if TYPE_CHECKING:
    from numpy.typing import NDArray

FIRST_STAGE = "first stage"
"""the scope of a row that counts the layers of the first stage only"""


def price_memory(batches: Sequence[Batch], scopes: Sequence[str]) -> tuple[NDArray[np.float64], list[str]]:
    """(B of each row, note of each row), shape (R,)."""
    bytes_R = costs_of(batches).memory_R
    told = ["peak of the fullest stage"] * len(scopes)
    for batch in batches:
        software = load_software(batch.plan.software, batch.cluster.gpu)
        if software.runtime == "torch":
            bytes_R[batch.index] -= software.memory_floor
            for position in batch.index.tolist():
                told[position] = "bytes that the allocator of the fullest stage reserves"
        layers_P = _first_layers(batch)
        for position, value in zip(batch.index.tolist(), layers_P, strict=True):
            if scopes[position] == FIRST_STAGE:
                bytes_R[position] = value
                told[position] = "layers of the first stage: parameters, gradients, optimizer, activations"
    return bytes_R, told


def _first_layers(batch: Batch) -> NDArray[np.float64]:
    """B of weights, gradients, optimizer and activations of the layers of the first stage, plan by plan."""
    ready = prepare(batch.model, batch.cluster, batch.plan)
    plan, every = ready.plan.wide(), slice(None)
    stages = ready.stages.of(every)
    layers = stages.blocks.copy()
    layers[:, [0, -1]] = 0
    held = held_memory(
        plan,
        ready.software,
        replace(stages, blocks=layers),
        ready.weights.of(every),
        ready.activations.of(every),
    )
    total = np.asarray(sum(memory_kind_bytes(plan, ready.software, held)[:4]))
    first = np.where(stages.count > 0, stages.first, np.inf).argmin(axis=0)
    return np.asarray(total[first, np.arange(first.size)])
