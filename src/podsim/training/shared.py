"""Pipelines of ranks that share processor cores: a rank that waits leaves its cores to others.

    through = max(work of all ranks on all cores, work of the busiest rank on cores of its own) + idle
    idle    = bubble x share x max(pp x share - 1, 0) / (pp - 1)

Every rank's seconds were measured while all ranks were busy, so they are those of a `share` of a core. Cores are idle
only while fewer stages work than fill them, pp x share: a pipeline of so many stages has that bubble, and its passes
then run on whole cores. With one core for each rank, share 1, that is the pipeline's own bubble.
"""

from __future__ import annotations

import numpy as np

from podsim.training.plan import Array


def shared_through(
    share: float, pp: Array | int, path_P: Array, busiest_P: Array, mean_P: Array, charged_P: Array
) -> Array:
    """Seconds from the first pass to the last of P plans.

    share      cores of a rank, below one
    path_P     s of the longest path if every rank had its share of a core all the time
    busiest_P  s of work of the busiest rank, mean_P of a rank in the mean, both on a share of a core
    charged_P  s that sends take of each rank
    """
    bubble_P = np.maximum(path_P - busiest_P - charged_P, 0.0)
    stages_P = np.asarray(pp, dtype=float)
    idle_P = bubble_P * share * np.maximum(stages_P * share - 1, 0.0) / np.maximum(stages_P - 1, 1.0)
    return np.asarray(np.maximum(mean_P, share * busiest_P) + charged_P + idle_P)
