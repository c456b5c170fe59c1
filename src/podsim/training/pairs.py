"""What a pair of passes beside each other takes: a bound from below that the best order of their kernels comes close to.

Axes: J paths, W forward and backward, B blocks, P plans.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podsim.training.exposed import Waits
from podsim.training.paths import Chosen
from podsim.training.plan import Array


@dataclass(frozen=True)
class Exchanged:
    """What passes exchange within a tensor-, context- or expert-parallel group."""

    seconds_WBP: Array
    """of a forward and of a backward pass through a block"""
    sync_BP: Array
    """of one tensor-parallel sync of a backward pass"""
    syncs_BP: Array
    """of all of them"""
    stretch_P: Array
    """compute of a forward pass between two syncs, at most"""

    def idle(self, paths: Chosen) -> Array:
        """Seconds along each path in which neither pass of a pair computes (J, P).

        While one pass syncs, the other cannot, as both use one stream: it computes until its own next sync, no further.
        Of each pair one sync is left out, as the first stretch may have what a receive takes of the stream, too, and
        one where the forward pass goes through embedding or head.
        """
        share_BP = np.maximum(1 - self.stretch_P / np.maximum(self.sync_BP, 1e-12), 0.0)
        found = (paths.paired_back_JBK * self.syncs_BP * share_BP).sum(axis=1)
        edges = paths.paired_JBK[:, 0] + paths.paired_JBK[:, -1] + paths.pairs_JK
        return np.asarray(np.maximum(found - edges * (self.sync_BP * share_BP).max(axis=0), 0.0))


def spared(paths: Chosen, seconds_WBP: Array, exchanged: Exchanged, waits: Waits, *, beside: bool) -> Array:
    """Seconds by which the pairs along a path are shorter than their passes one after the other (J, P).

    A pair takes as long as the compute of both, the exchanges of both on one stream, or either pass alone with what it
    waits for, whichever is longest: nothing is hidden that finds nothing to hide behind. `seconds_WBP`: of a forward
    and of a backward pass through a block, with what they exchange.
    """
    counts = (paths.paired_JBK, paths.paired_back_JBK)
    alone, sent = (
        [(n_JBP * s_BP).sum(axis=1) for n_JBP, s_BP in zip(counts, part_WBP, strict=True)]
        for part_WBP in (seconds_WBP, exchanged.seconds_WBP)
    )
    compute_JP, sent_JP = sum(alone) - sum(sent), sum(sent)
    layers = [n_JBP[:, 1:-1].sum(axis=1) for n_JBP in counts]
    busy_JP = np.zeros(1)
    if (np.asarray(waits.plan.zero) == 3).any():
        pairs_JP = paths.pairs_JK
        alone[0] = alone[0] + waits.kept(waits.forward(pairs_JP, layers[0], beside))
        alone[1] = alone[1] + waits.kept(
            waits.backward(pairs_JP, layers[1], beside, edges=paths.paired_back_JBK[:, 0])
        )
        busy_JP = waits.kept(waits.exchanged(pairs_JP, layers[0], layers[1]))
    idle_JP = exchanged.idle(paths)
    # what is gathered and reduced slows only what is computed meanwhile
    slowed_JP = compute_JP + idle_JP + waits.software.contention * np.maximum(busy_JP - idle_JP, 0.0)
    longest_JP = np.maximum.reduce(np.broadcast_arrays(slowed_JP, sent_JP, *alone, busy_JP))
    return np.asarray(alone[0] + alone[1] - longest_JP)
