"""What is not as it should be in a step, and the ranks that it sets apart.

Axes: R pipeline ranks, X data and context ranks, T tensor ranks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from podsim.errors import SimulationError
from podsim.hardware.cluster import Cluster
from podsim.simulation.drafts import Ints
from podsim.training.plan import Plan

Kind = tuple[str, int]
"""a type of rank: (its GPU, "" for the cluster's own; micro-batches of its replica, 0 for the plan's own)"""


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """What is not as it should be: ranks whose GPU is slow, or whose adapter is; noise."""

    slow: dict[int, float] = field(default_factory=dict)
    """rank -> times as long as its kernels take"""
    throttle: dict[int, tuple[float, float]] = field(default_factory=dict)
    """rank -> (times as long as its kernels take once it is hot, s of computing until 63 % of that)"""
    link: dict[int, float] = field(default_factory=dict)
    """rank -> share of its network bandwidth that is left"""
    fail: tuple[int, ...] = ()
    """ranks that will do nothing more, or that lose their adapter: told apart from others, not played"""
    nodes: dict[int, str] = field(default_factory=dict)
    """server -> type of its GPUs, where that is another"""
    shares: tuple[int, ...] = ()
    """micro-batches of each data-parallel replica; none: all have as many"""
    jitter: float = 0.0
    """standard deviation of the logarithm of each pass's duration, drawn anew for each rank and op"""
    seed: int = 0


def marks_of(plan: Plan, trouble: Trouble, cluster: Cluster) -> tuple[Ints, Ints, list[Kind]]:
    """(a number for what makes each rank special (R, X, T), its type as a position (R, X, T), the types)."""
    shape = (int(plan.pp), int(plan.dp) * int(plan.cp), int(plan.tp))
    ranks, per = int(np.prod(shape)), cluster.gpus_per_node
    absent = sorted(n for n in trouble.nodes if not 0 <= n * per < ranks)
    if absent:
        last = (ranks - 1) // per
        raise SimulationError(f"server {', '.join(map(str, absent))} does not exist; the job has 0 to {last}")
    special = {*trouble.slow, *trouble.throttle, *trouble.link, *trouble.fail}
    wrong = sorted(r for r in special if not 0 <= r < ranks)
    if wrong:
        raise SimulationError(
            f"rank {', '.join(map(str, wrong))} does not exist; this job has ranks 0 to {ranks - 1}"
        )
    gpu = [trouble.nodes.get(rank // per, "") for rank in range(ranks)]
    share = np.broadcast_to(_shares(plan, trouble)[None, :, None], shape).ravel().tolist()
    kinds: list[Kind] = list(dict.fromkeys(zip(gpu, share, strict=True)))
    kinds.sort(key=lambda one: one != ("", 0))
    kind = np.array([kinds.index(one) for one in zip(gpu, share, strict=True)], np.int64)
    flat = np.zeros(ranks, np.int64)
    known: dict[object, int] = {}
    for r in sorted({*special, *np.flatnonzero(kind).tolist()}):
        failed = trouble.fail.index(r) + 1 if r in trouble.fail else 0
        hot = trouble.throttle.get(r)
        one = (trouble.slow.get(r, 1.0), hot, trouble.link.get(r, 1.0), failed, int(kind[r]))
        flat[r] = known.setdefault(one, len(known) + 1)
    return flat.reshape(shape), kind.reshape(shape), kinds


def throttled(seconds: NDArray[np.float64], factor: float, tau: float) -> NDArray[np.float64]:
    """Seconds of kernels in a row on a GPU that grows hot, which take so many `seconds` on a cool one.

    After b seconds of computing they take 1 + (factor - 1) (1 - exp(-b / tau)) times as long: work w is done after
    b = tau ln((factor - 1 + exp(factor w / tau)) / factor). Waiting does not cool it.
    """
    work = np.concatenate([[0.0], np.cumsum(seconds)])
    grown = factor * work / tau
    late = grown - np.log(factor) + np.log1p((factor - 1) * np.exp(-grown))
    early = np.log1p(np.expm1(np.minimum(grown, 1.0)) / factor)  # without rounding where it has hardly begun
    return np.asarray(np.diff(tau * np.where(grown < 1, early, late)))


def _shares(plan: Plan, trouble: Trouble) -> Ints:
    """Micro-batches of the replica that each data and context rank is of; 0: as many as the plan says."""
    if not trouble.shares or set(trouble.shares) == {int(plan.micro_batches)}:
        return np.zeros(int(plan.dp) * int(plan.cp), np.int64)
    if len(trouble.shares) != int(plan.dp) or min(trouble.shares) < 1:
        raise SimulationError(
            f"shares of {', '.join(map(str, trouble.shares))} micro-batches for dp={int(plan.dp)} replicas; each has one "
            "share, of 1 or more"
        )
    if int(plan.zero) > 1 or int(plan.ep) > 1:
        raise SimulationError(
            f"uneven shares with zero={int(plan.zero)}, ep={int(plan.ep)}: replicas meet in every micro-batch, so each "
            "must have as many; zero may be 0, 1, and ep 1"
        )
    return np.repeat(np.array(trouble.shares, np.int64), int(plan.cp))
