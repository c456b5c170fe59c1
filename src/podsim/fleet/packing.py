"""The packing of requests for parts of GPUs, full GPUs, cores and memory onto nodes: best fit, FGD and others.

Requests come one after the other and stay; one that fits nowhere is rejected.  R kinds of request, N nodes, G GPUs of
the largest node.  Amounts of GPU are thousandths of a GPU.

Source of the rules: Weng et al. 2023 (FGD, USENIX ATC), section 3 for fragmentation, section 6 for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from podsim.axes import Floats, Ints, Shaped
from podsim.errors import PodsimError, check_name
from podsim.fleet.packing_kernels import NodesNow, Wanted, pack_requests

Progress: TypeAlias = Callable[[int, int], None]
"""gets how many are done, and of how many"""
WHOLE = 1000
"""The thousandths of a GPU in a GPU."""

PACKERS = {
    "random": "any node with room",
    "dot-product": "the node whose free resources are least like the request",
    "clustering": "nodes with the most requests of the same GPU share, then best fit",
    "packing": "GPUs in use first, then nodes in use",
    "best-fit": "the node with the least remaining resources, summed",
    "fgd": "the node with the least growth of fragmentation",
}
"""The packers, each with its rule. Its position is its code in the kernel."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Nodes:
    """The nodes that take requests."""

    cpu: Floats
    """The cores in thousandths, [N]."""
    memory: Floats
    """count. The memory in MiB, [N]."""
    gpus: Ints
    """The number of GPUs, [N]."""
    model: Ints
    """The position of the GPU in `models`, [N]."""
    models: tuple[str, ...]

    def __post_init__(self) -> None:
        """Raise PodsimError for a machine without GPUs."""
        if not len(self.gpus) or self.gpus.max() < 1 or self.gpus.min() < 0:
            raise PodsimError("nodes: at least one must have a GPU, and none a negative number")


@dataclass(frozen=True, kw_only=True, eq=False)
class Requests:
    """The kinds of request in a trace, with the count of each."""

    cpu: Floats
    """The requested cores in thousandths, [R]."""
    memory: Floats
    """count. The memory in MiB, [R]."""
    gpus: Ints
    """The number of its GPUs, [R]."""
    share: Ints
    """The thousandths of each of its GPUs, [R]."""
    allowed: Shaped[np.ndarray[tuple[int, int], np.dtype[np.bool_]], "request model"]
    """The models of GPU that it accepts."""
    count: Ints
    """The number of requests of each kind, [R]."""

    @property
    def demand(self) -> Ints:
        """The GPU thousandths of a request of each kind, [R]."""
        return self.gpus * self.share


@dataclass(frozen=True, kw_only=True, eq=False)
class Packed:
    """The result of packing a sequence of requests."""

    packer: str
    arrived: Floats
    """share. The GPUs requested up to each request, of all GPUs."""
    allocated: Floats
    """share. The GPUs in use after each request, of all GPUs."""
    fragmented: float
    """share. The free GPUs that are useless to a request, in the mean over the trace, at the end, of all GPUs."""
    turned_away: int
    """The number of rejected requests."""

    def at(self, arrived: float) -> float:
        """The share of GPUs in use when this share has been requested."""
        position = int(np.searchsorted(self.arrived, arrived, side="right")) - 1
        return float(self.allocated[position]) if position >= 0 else 0.0


def draw_requests(requests: Requests, capacity: float, load: float, rng: np.random.Generator) -> Ints:
    """The kinds of arriving requests in order, up to a demand of `load` times the capacity: [arrivals].

    They are the trace in random order. For a larger load, further requests are drawn from it with replacement, as in
    the published experiments.
    """
    trace = np.repeat(np.arange(len(requests.count)), requests.count)
    goal, demand = load * capacity * WHOLE, requests.demand
    if demand[trace].sum() <= 0:
        raise PodsimError("no request of the trace needs a GPU")
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
    """Pack requests in the order of arrival, with a random choice among equal nodes, as in Kubernetes."""
    check_name("packer", packer, PACKERS)
    order = np.asarray(arrivals, np.int64)
    kinds = np.flatnonzero(requests.gpus > 0)  # GPUs of all nodes are useless to other requests
    weight = requests.count[kinds] / requests.count[kinds].sum()
    wanted = Wanted(
        cpu=np.ascontiguousarray(requests.cpu), memory=requests.memory, gpus=requests.gpus, share=requests.share,
        allowed=requests.allowed, kinds=kinds, weight=weight, requests=len(requests.count),
        models=requests.allowed.shape[1], sharers=len(kinds),
    )  # fmt: skip
    n, g, r = len(nodes.gpus), int(nodes.gpus.max()), len(requests.count)
    free = np.where(np.arange(g)[None, :] < nodes.gpus[:, None], WHOLE, -1).astype(np.int64)  # [server, gpu]
    now = NodesNow(
        cpu=nodes.cpu.copy(), memory=nodes.memory.copy(), free=free, model=nodes.model,
        most=np.array([nodes.cpu.max(), nodes.memory.max(), float(g * WHOLE)]), version=np.zeros(n, np.int64),
        seen=np.full((r, n), -1), score=np.zeros((r, n)), held=np.zeros((r, n), np.int64),
        spare=np.zeros(g, np.int64), useless=np.zeros(n), nodes=n, gpus=g,
    )  # fmt: skip
    total = float(nodes.gpus.sum() * WHOLE)
    given, chance = np.zeros(len(order), np.bool_), rng.random(len(order) * 2)
    broken = pack_requests(wanted, now, order, len(order), list(PACKERS).index(packer), chance, given)
    taken = np.where(given, requests.demand[order], 0)
    return Packed(
        packer=packer, arrived=np.cumsum(requests.demand[order]) / total, allocated=np.cumsum(taken) / total,
        fragmented=float(broken / total), turned_away=int(np.count_nonzero(~given)),
    )  # fmt: skip


def pack_orders(
    requests: Requests,
    nodes: Nodes,
    packer: str,
    *,
    load: float,
    seeds: int,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Pack random orders of arrival up to a load; the figures of a row, in the mean over the orders, by name.

    They are the shares of GPUs that are `allocated` and `fragmented`, the `spread` of the first, the share of requests
    that was `turned_away`, and a curve of allocated over requested GPUs. `progress` gets (orders packed, all).
    """
    packings = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        arrivals = draw_requests(requests, float(nodes.gpus.sum()), load, rng)
        packings.append(pack(requests, nodes, arrivals, packer, rng=rng))
        if progress is not None:
            progress(seed + 1, seeds)
    grid = np.linspace(0.0, load, 27)[1:]
    final = [float(packing.allocated[-1]) for packing in packings]
    return {
        "allocated": float(np.mean(final)),
        "spread": max(final) - min(final),
        "fragmented": float(np.mean([packing.fragmented for packing in packings])),
        "turned_away": float(np.mean([packing.turned_away / len(packing.arrived) for packing in packings])),
        "arrived_A": tuple(grid.tolist()),
        "allocated_A": tuple(float(np.mean([packing.at(share) for packing in packings])) for share in grid),
    }
