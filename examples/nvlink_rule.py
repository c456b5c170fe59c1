"""Why do 400 GB/s of NVLink hurt where 600 did not? Tensor parallelism of 8 in two servers that a pipeline joins."""

from __future__ import annotations

import podsim
from podsim.hardware.catalog import load_system
from podsim.hardware.fabrics import fabric_of
from podsim.network.collectives import summary
from podsim.network.collectives.rings import ring_all_reduce
from podsim.network.play import play

N = 8
LECTURE = 160e9  # B/s of a server, one way: what the lecture calls typically measured, unexplained
SIZE = 2.0**30  # B of activations of a micro-batch
WRITE = 256 / (256 + 24)  # of a PCIe write of 256 B, with 24 B of header and framing

pair = podsim.load_cluster("dgx-a100-80gb:2")
line = pair.node_bandwidth / pair.gpus_per_node
pcie = load_system("dgx-a100-80gb").pcie.bandwidth * WRITE
adapter = podsim.collective("send-recv", on="dgx-a100-80gb:2", sizes="8G").rows[0].bus_bandwidth
print("Link budget between two servers, one way, of each adapter:")
print(f"  line {line / 1e9:.1f} GB/s; PCIe 4 {pcie / 1e9:.1f} GB/s, which does not bind;")
print(f"  NCCL's sends reach {adapter / 1e9:.1f} GB/s, so a server of {N} sends {N * adapter / 1e9:.0f} GB/s")
print(f"The lecture's {LECTURE / 1e9:.0f} GB/s is measured: {LECTURE / (N * line):.2f} of the line rate")

ratio = summary(ring_all_reduce(N)).sent_most
print()
print(
    f"Activations of S bytes cross the network once, and every all-reduce of them inside a server of {N} GPUs sends"
)
print(f"2 (n - 1) / n S = {ratio:g} S over the NVLinks of each. So that NVLink is not the slower of the two,")
print(f"it must have {ratio:g} times the bandwidth of the network.")
for name in ("dgx-a100-80gb", "hgx-a800"):
    cluster = podsim.load_cluster(name)
    nvlink = cluster.nvlink.bandwidth
    played = play(ring_all_reduce(N), SIZE, fabric_of(cluster)).seconds
    print()
    print(
        f"{cluster.gpu.name}: NVLink {2 * nvlink / 1e9:.0f} GB/s both ways, {nvlink / 1e9:.0f} GB/s one way"
    )
    for words, network in (("the lecture's", LECTURE), ("the budget's", N * adapter)):
        verdict = "passes" if nvlink / network >= ratio else "falls short"
        print(
            f"  over {words} {network / 1e9:.0f} GB/s: {nvlink / network:.2f}, needed {ratio:g}: {verdict}; 1 GiB:"
            f" all-reduce {played * 1e3:.2f} ms inside, {SIZE / network * 1e3:.2f} ms over the network"
        )
