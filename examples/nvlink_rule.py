"""Why do 400 GB/s of NVLink hurt where 600 did not? Tensor parallelism of 8 in two servers that a pipeline joins."""

from __future__ import annotations

import podsim
from podsim.hardware.fabrics import fabric_of
from podsim.network.collectives import summary
from podsim.network.collectives.rings import ring_all_reduce
from podsim.network.play import play

N = 8
NETWORK = 160e9  # B/s of a server, one way: measured, of 8 x 25 GB/s
SIZE = 2.0**30  # B of activations of a micro-batch

ratio = summary(ring_all_reduce(N)).sent_most
print(
    f"Activations of S bytes cross the network once, and every all-reduce of them inside a server of {N} GPUs sends"
)
print(f"2 (n - 1) / n S = {ratio:g} S over the NVLinks of each. So that NVLink is not the slower of the two,")
print(f"it must have {ratio:g} times the bandwidth of the network.")
print(f"Network of a server, as measured: {NETWORK / 1e9:.0f} GB/s one way")
send = SIZE / NETWORK
for name in ("dgx-a100-80gb", "hgx-a800"):
    cluster = podsim.load_cluster(name)
    nvlink = cluster.nvlink.bandwidth
    played = play(ring_all_reduce(N), SIZE, fabric_of(cluster)).seconds
    verdict = "passes" if nvlink / NETWORK >= ratio else "falls short"
    print()
    print(
        f"{cluster.gpu.name}: NVLink {2 * nvlink / 1e9:.0f} GB/s both ways, {nvlink / 1e9:.0f} GB/s one way"
    )
    print(f"  {nvlink / 1e9:.0f} / {NETWORK / 1e9:.0f} = {nvlink / NETWORK:g}, needed {ratio:g}: {verdict}")
    print(f"  1 GiB simulated: all-reduce {played * 1e3:.2f} ms inside, {send * 1e3:.2f} ms over the network")
