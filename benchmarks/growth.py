"""How the simulation grows: seconds against flows for 1 GiB all-reduces, 64 to 8,960 ranks.

    PYTHONPATH=tests/made python benchmarks/growth.py

writes benchmarks/reports/network-growth.svg and prints the table that stands in network.md. Needs podsim[report].
"""

from __future__ import annotations

import math
import time
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from made_fabrics import leaf_spine

from podsim.hardware.cluster import load_cluster
from podsim.hardware.fabrics import fabric_of
from podsim.network.collectives.hierarchical import hierarchical_all_reduce
from podsim.network.collectives.rings import ring_all_reduce
from podsim.network.play import play

SIZE = 2.0**30
NODES = (8, 20, 40, 80, 140, 280, 560, 1120)
REPORT = Path(__file__).parent / "reports" / "network-growth.svg"


def hierarchical(nodes: int) -> tuple[int, float]:
    fabric = fabric_of(load_cluster(f"dgx-a100-80gb:{nodes}"))
    return timed(lambda: play(hierarchical_all_reduce(nodes, 8), SIZE, fabric))


def ring(nodes: int) -> tuple[int, float]:
    fabric = leaf_spine(nodes=8 * nodes, outside=25e9, leaf=32, uplinks=32)
    return timed(lambda: play(ring_all_reduce(8 * nodes), SIZE, fabric))


def timed(run) -> tuple[int, float]:
    run()
    best, events = math.inf, 0
    for _ in range(3):
        started = time.process_time()
        events = run().events
        best = min(best, time.process_time() - started)
    return events, best


def main() -> None:
    figure, axes = plt.subplots(figsize=(7, 4.5))
    print("| all-reduce | ranks | flows | seconds | flows/s |\n|---|---:|---:|---:|---:|")
    for name, cost, colour in (("hierarchical", hierarchical, "#0072b2"), ("flat ring", ring, "#d55e00")):
        found = [cost(nodes) for nodes in NODES]
        for nodes, (events, seconds) in zip(NODES, found, strict=True):
            print(f"| {name} | {8 * nodes:,} | {events:,} | {seconds:.4f} | {events / seconds / 1e6:.1f} M |")
        flows, seconds = zip(*found, strict=True)
        axes.loglog(flows, seconds, "o-", color=colour, label=f"{name}, every flow")
        scale = seconds[-1] / (flows[-1] * math.log(flows[-1]))
        axes.loglog(
            flows,
            [scale * f * math.log(f) for f in flows],
            "--",
            color=colour,
            lw=1,
            label="n log n through its last point",
        )
    axes.set(
        xlabel="flows of the table",
        ylabel="processor seconds, after warm-up",
        title="1 GiB all-reduce on 64 to 8,960 ranks",
    )
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(REPORT, metadata={"Date": None})


if __name__ == "__main__":
    main()
