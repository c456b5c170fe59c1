"""Packing requests for parts of GPUs, whole GPUs, cores and memory onto nodes: best fit, FGD and others.

Requests come one after the other and stay; one that fits nowhere is turned away.  R kinds of request, N nodes, G GPUs of
the largest node.  Amounts of GPU are thousandths of one GPU.

Source of the rules: Weng et al. 2023 (FGD, USENIX ATC), section 3 for fragmentation, section 6 for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from podsim.errors import PodsimError, unknown_name
from podsim.fleet.state import Floats, Ints

WHOLE = 1000
"""thousandths of a GPU"""

PACKERS = {
    "random": "any node that has room",
    "dot-product": "the node whose free resources are least like the request",
    "clustering": "nodes that hold most requests of the same GPU share, then best fit",
    "packing": "GPUs in use first, then nodes in use",
    "best-fit": "the node with least left, all resources added",
    "fgd": "the node whose fragmentation grows least",
}
"""position is the code of the kernel"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Nodes:
    """Nodes that requests are packed onto."""

    cpu: Floats
    """thousandths of a core, [N]"""
    memory: Floats
    """MiB, [N]"""
    gpus: Ints
    """GPUs, [N]"""
    model: Ints
    """kind of GPU, [N]"""
    models: tuple[str, ...]

    def __post_init__(self) -> None:
        """Raise PodsimError for a machine without GPUs."""
        if not len(self.gpus) or self.gpus.max() < 1 or self.gpus.min() < 0:
            raise PodsimError("nodes: at least one must have a GPU, and none fewer than 0")


@dataclass(frozen=True, kw_only=True, eq=False)
class Requests:
    """Kinds of request, and how often each appears in a trace."""

    cpu: Floats
    """thousandths of a core, [R]"""
    memory: Floats
    """MiB, [R]"""
    gpus: Ints
    """GPUs that it runs on, [R]"""
    share: Ints
    """thousandths of each of them, [R]"""
    allowed_RM: np.ndarray[tuple[int, int], np.dtype[np.bool_]]
    """models of GPU that it may run on"""
    count: Ints
    """[R]"""

    @property
    def demand(self) -> Ints:
        """Thousandths of GPUs that a request of each kind asks for, [R]."""
        return self.gpus * self.share


@dataclass(frozen=True, kw_only=True, eq=False)
class Packed:
    """What became of a sequence of requests."""

    packer: str
    arrived: Floats
    """share of all GPUs asked for up to each request"""
    allocated: Floats
    """share of all GPUs given out after each request"""
    fragmented: float
    """share of all GPUs that are free and of no use to a request of the trace, in the mean over them, at the end"""
    turned_away: int
    """requests"""

    def at(self, arrived: float) -> float:
        """Share of all GPUs given out when this share has been asked for."""
        position = int(np.searchsorted(self.arrived, arrived, side="right")) - 1
        return float(self.allocated[position]) if position >= 0 else 0.0


def draw_requests(requests: Requests, capacity: float, load: float, rng: np.random.Generator) -> Ints:
    """Kinds of requests in the order of arrival until they ask for `load` times the capacity: [arrivals].

    The trace itself in random order as far as it reaches; what is missing to the load is drawn from it with
    replacement, as the published experiments inflate it.
    """
    trace = np.repeat(np.arange(len(requests.count)), requests.count)
    goal, demand = load * capacity * WHOLE, requests.demand
    if demand[trace].sum() <= 0:
        raise PodsimError("no request of the trace asks for a GPU")
    order = [rng.permutation(trace)]
    asked = float(demand[trace].sum())
    while asked < goal:
        more = rng.choice(trace, size=max(len(trace) // 4, 1))
        order.append(more)
        asked += float(demand[more].sum())
    arrivals = np.concatenate(order)
    keep = int(np.searchsorted(np.cumsum(demand[arrivals]), goal)) + 1
    return rng.permutation(arrivals[:keep])


def pack(
    requests: Requests, nodes: Nodes, arrivals: Ints | Sequence[int], packer: str, *, rng: np.random.Generator
) -> Packed:
    """Pack requests in the order of arrival; equal nodes are chosen among by chance, as Kubernetes does."""
    from podsim.fleet.packing_kernels import NodesNow, Wanted, pack_all

    if packer not in PACKERS:
        raise PodsimError(unknown_name("packer", packer, PACKERS))
    order = np.asarray(arrivals, np.int64)
    kinds = np.flatnonzero(
        requests.gpus > 0
    )  # to one without a GPU all GPUs are of no use on every node alike
    weight = requests.count[kinds] / requests.count[kinds].sum()
    wanted = Wanted(
        cpu=np.ascontiguousarray(requests.cpu), memory=requests.memory, gpus=requests.gpus, share=requests.share,
        allowed_RM=requests.allowed_RM, kinds=kinds, weight=weight,
    )  # fmt: skip
    n, g, r = len(nodes.gpus), int(nodes.gpus.max()), len(requests.count)
    free_NG = np.where(np.arange(g)[None, :] < nodes.gpus[:, None], WHOLE, -1).astype(np.int64)
    now = NodesNow(
        cpu=nodes.cpu.copy(), memory=nodes.memory.copy(), free_NG=free_NG, model=nodes.model,
        most=np.array([nodes.cpu.max(), nodes.memory.max(), float(g * WHOLE)]), version=np.zeros(n, np.int64),
        seen_RN=np.full((r, n), -1), score_RN=np.zeros((r, n)), held_RN=np.zeros((r, n), np.int64),
        spare=np.zeros(g, np.int64),
    )  # fmt: skip
    total = float(nodes.gpus.sum() * WHOLE)
    given, broken = pack_all(wanted, now, order, list(PACKERS).index(packer), rng.random(len(order) * 2))
    taken = np.where(given, requests.demand[order], 0)
    return Packed(
        packer=packer, arrived=np.cumsum(requests.demand[order]) / total, allocated=np.cumsum(taken) / total,
        fragmented=float(broken / total), turned_away=int(np.count_nonzero(~given)),
    )  # fmt: skip
