"""Would my jobs have waited less? Four policies on a complete virtual cluster of Philly, and what preemption costs.

992 jobs of 2017 on 64 GPUs: first come first served, with EASY backfill, and with preemption by remaining time, which
knows lengths; then the same if every preempted job needs ten minutes to save and load.
"""

from __future__ import annotations

import podsim


def main() -> None:
    found = podsim.queue("philly-3", on="8x8", policy=["fifo", "easy", "sjf", "srtf"])
    for run in found.runs:
        print(
            f"{run.policy:5} mean completion {run.jct_mean / 3600:6.1f} h, 99th percentile {run.jct_p99 / 86400:5.1f} d"
        )
    dear = podsim.queue("philly-3", on="8x8", policy=["srtf"], checkpoint="5min", restart="5min").runs[0]
    print(f"srtf with ten minutes for each of {dear.preemptions:,} preemptions: {dear.jct_mean / 3600:.1f} h")
    print(f"of the GPU time held, {dear.wasted:.1%} goes into saving and loading")


if __name__ == "__main__":
    main()
