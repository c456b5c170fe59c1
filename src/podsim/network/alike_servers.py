"""Servers whose GPUs are alike: the hierarchical all-reduce over them is the ring of one rail between two exchanges.

Where every two GPUs of a server are joined alike, all its flows share their links evenly and end at once: a link that
carries a GPU's flows to or from n others gives each an nth of its rate. Where rails are alike and share no link, one
tells of all. The simulation of every flow is the oracle in the tests.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from podsim.axes import Floats, Ints
from podsim.hardware.fabrics import Fabric
from podsim.hardware.fabrics.server_routes import links_of_alike_servers
from podsim.network.collectives.bricks import others
from podsim.network.collectives.rings import ring_all_reduce
from podsim.network.play import play, prepare
from podsim.network.play_links import make_links


def hierarchical_player(fabric: Fabric, nodes: int, local: int) -> Callable[[float], float] | None:
    """Seconds of a hierarchical all-reduce of a size in B; None where GPUs of a server are not alike."""
    per_server = links_of_alike_servers(fabric)
    if nodes < 2 or local < 3 or fabric.gpus != nodes * local or not per_server:
        return None
    inside, across = _inside(fabric, local), _across(fabric, nodes, local)
    if inside is None or across is None:
        return None
    used = across[2][across[2] < nodes * per_server] % per_server
    if np.isin(used, inside[2]).any():
        return None
    links = make_links(across[0], across[1], lambda source, destination: source[:, None])
    ring = prepare(ring_all_reduce(nodes), links)
    return lambda size: play(ring, size / local).seconds + 2 * (size / local / inside[0] + inside[1])


def _inside(fabric: Fabric, local: int) -> tuple[float, float, Ints] | None:
    """(rate of each flow where all GPUs of a server send to all others, B/s; delay, s; links of the first server).

    None unless each hop is a link of the sender, of the receiver, or of the pair, the same for all pairs.
    """
    source, destination = others(local)
    indptr, links = fabric.routes(source, destination)
    if np.ptp(np.diff(indptr)):
        return None
    hops = links.reshape(len(source), -1)  # [pair, hop]
    owners = (source, destination, np.arange(len(source)))
    if not all(any(_is_one_to_one(hop, owner) for owner in owners) for hop in hops.T):
        return None
    rate, latency = fabric.capacity[hops] / np.bincount(links)[hops], fabric.latency[hops]
    if len(np.unique(hops)) != sum(len(np.unique(hop)) for hop in hops.T) or np.ptp(rate, axis=0).any():
        return None
    if np.ptp(latency, axis=0).any():
        return None
    return float(rate.min()), float(latency[0].sum()), links


def _is_one_to_one(values: Ints, owners: Ints) -> bool:
    """Whether equal values have equal owners, and different ones different owners."""
    counts = {len(np.unique(part)) for part in (values, owners, owners * (int(values.max()) + 1) + values)}
    return len(counts) == 1


def _across(fabric: Fabric, nodes: int, local: int) -> tuple[Floats, Floats, Ints] | None:
    """(rate from each server to the next, B/s; delay, s; links used).

    None unless all rails are equal and no two flows share a link.
    """
    rails = np.arange(nodes) * local + np.arange(local)[:, None]  # [rail, server], in the order of the table
    indptr, links = fabric.routes(rails.ravel(), np.roll(rails, -1, axis=1).ravel())
    if np.bincount(links).max() > 1:
        return None
    rate = np.minimum.reduceat(fabric.capacity[links], indptr[:-1]).reshape(local, nodes)
    delay = np.add.reduceat(fabric.latency[links], indptr[:-1]).reshape(local, nodes)
    if np.ptp(rate, axis=0).any() or np.ptp(delay, axis=0).max() > 1e-12 * delay.max():
        return None
    return rate[0], delay[0], links
