"""Bytes of the rows that measured memory, like held against like.

Korthikanti et al. (Figure 1) count the first stage's layers: parameters, gradients and optimizer at 18 B per
parameter, and activations; neither embedding, logits, buffers nor what the framework itself takes. Rows of the scope
"first stage" are held against just that. torchtitan logs what the allocator reserved: the peak of the
fullest stage, without what lies beside the allocator (context, libraries, communicators).

Axes: R rows; M, S, P as in podsim.training.memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from podsim.accuracy.price_llm import Batch, costs_of
from podsim.training.memory import Weights, kept_memory, memory_kinds
from podsim.training.software import load_software
from podsim.training.step import prepare

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
    """B of weights, gradients, optimizer and activations of the layers of the first stage (P,)."""
    ready = prepare(batch.model, batch.cluster, batch.plan)
    stages = ready.stages.table.take(ready.stages.index)
    layers_SBP = stages.counts_SBU.copy()
    layers_SBP[:, [0, -1]] = 0
    plan = ready.plan.wide()
    kept = kept_memory(
        plan,
        ready.software,
        layers_SBP,
        stages.first_SU,
        Weights(*(table[..., ready.weights.index] for table in ready.weights.table)),
        *(table[..., ready.activations.index] for table in ready.activations.table),
    )
    total_SP = sum(memory_kinds(plan, ready.software, kept)[:4])
    first_P = np.where(stages.many_SU > 0, stages.first_SU, np.inf).argmin(axis=0)
    return np.asarray(np.asarray(total_SP)[first_P, np.arange(first_P.size)])
