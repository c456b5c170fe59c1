"""Micro-batches for data-parallel replicas that are not equally fast."""

from __future__ import annotations

import numpy as np

from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster
from podsim.simulation.lower_links import Trouble, marks_of
from podsim.training.batch import step_cost
from podsim.training.plan import Plan
from podsim.training.step import SPLIT
from podsim.workload.model import Model

_WORK = ("compute", "memory", "launch", "tp", "cp", "ep")
"""parts of a step that every micro-batch adds to"""


def shares(model: Model, cluster: Cluster, plan: Plan, trouble: Trouble) -> tuple[int, ...]:
    """Micro-batches of each replica, in proportion to the speed of its slowest rank; as many in all as the plan has.

    Raises PodsimError if there are fewer micro-batches than that every replica has one.
    """
    from podsim.simulation.lower_links import rank_number

    total, dp, cp = int(plan.micro_batches) * int(plan.dp), int(plan.dp), int(plan.cp)
    marks_of(plan, trouble, cluster)  # servers that are not there
    seconds: dict[str, float] = {}
    for gpu in ("", *dict.fromkeys(trouble.nodes.values())):
        cost = step_cost(model, cluster.having(gpu) if gpu else cluster, plan)
        seconds[gpu] = float(sum(cost.parts[SPLIT.index(part), 0] for part in _WORK))
    shape = (int(plan.pp), dp * cp, int(plan.tp))
    number = rank_number(plan, *np.indices(shape))
    rates = np.array([
        seconds[trouble.nodes.get(r // cluster.gpus_per_node, "")] * trouble.slow.get(r, 1.0)
        for r in number.ravel().tolist()
    ])  # fmt: skip
    speed = 1 / rates.reshape(shape).max(axis=(0, 2)).reshape(dp, cp).max(axis=1)
    wanted = total * speed / speed.sum()
    counts = np.maximum(np.floor(wanted), 1).astype(int)
    if total < dp:
        raise PodsimError(f"{total} micro-batches for dp={dp} replicas; each needs one")
    while (left := total - int(counts.sum())) != 0:
        best = (
            np.argmax(wanted - counts)
            if left > 0
            else np.argmin(np.where(counts > 1, wanted - counts, np.inf))
        )
        counts[best] += 1 if left > 0 else -1
    return tuple(counts.tolist())
