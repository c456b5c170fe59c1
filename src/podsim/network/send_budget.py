"""What becomes of an adapter's line rate in a send between nodes: a share for each thing that takes some of it.

    headers        of packets with the largest payload of the network's class
    PCIe payloads  what the slot carries both ways at once, where that is less, as far as the law counts it
    unexplained    the rest down to what the law lets an adapter reach: completions, read credits, whatever it is
    start          what the latency and the ramp of the law take at this size

Together with what is answered they are the line. Limits: NCCL's chunks are a hypothesis, printed as a range beside them.
Sources: hardware/catalog/fabrics/packets.toml.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from podsim.answers.sweep import LineShare, SendBudget
from podsim.hardware.cluster import Cluster
from podsim.network.collective_settings import CollectiveSettings
from podsim.network.nccl import choice, wires_of
from podsim.network.nccl_group import Group, adapters
from podsim.packaged import packaged_toml


def send_budget(
    cluster: Cluster, settings: CollectiveSettings, ranks: int, ranks_per_node: int, size: float
) -> SendBudget | None:
    """The budget of one adapter in a send-recv; None inside a node and for networks whose packets are not known."""
    wires, slot = wires_of(cluster, settings.assumed(cluster)), cluster.system.pcie
    group = Group(ranks, ranks_per_node, 1.0)
    data: dict[str, Any] = packaged_toml("hardware/catalog/fabrics/packets.toml")
    packet, chunk = data["packets"].get(wires.fabric), data["chunks"]
    if group.nodes == 1 or packet is None or slot is None or cluster.host is not None:
        return None
    line = wires.network * min(1.0, adapters(wires, group))
    packets = chunk["size"] / packet["payload"]
    sent = chunk["size"] + packets * packet["header"] + packet["first"]
    after_headers = line * chunk["size"] / sent
    after_slot = min(after_headers, slot.duplex * cluster.gpu.pcie_lanes / 16)
    picked = choice(
        "send_recv", size, cluster, ranks=ranks, ranks_per_node=ranks_per_node, sharing=1, settings=settings
    )
    reached, answered = 1.0 / picked.candidate.per_byte, size / picked.seconds
    rates = (line, after_headers, max(after_slot, reached), reached, answered)
    headers = f"headers, MTU {packet['payload']}"
    names = (headers, "PCIe payloads", "unexplained (completions, read credits)", "latency and ramp")
    taken = [before - after for before, after in pairwise(rates)]
    shares = zip((*names, "answered"), (*taken, answered), strict=True)
    low, high = (chunk["size"] / (chunk["size"] / reached + wait) for wait in reversed(chunk["seconds"]))
    return SendBudget(
        size=size, line=line, adapters=wires.nics, chunk=chunk["size"], waits=tuple(chunk["seconds"]),
        chunked=(low, high),
        shares=tuple(LineShare(name=name, rate=rate) for name, rate in shares),
    )  # fmt: skip
