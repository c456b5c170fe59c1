"""A day of three nodes with two jobs, and one fault of each kind."""

from pathlib import Path

import podsim

FAULTS = {
    "hot-gpu@0/0@1h+1h": ("throttled", "node0000", "GPU 0"),
    "power-brake@0/1@3h+1h": ("throttled", "node0000", "GPU 1"),
    "late-rank@0/2@5h+1h": ("straggling", "node0000", "GPU 2"),
    "idle-gpu@0/3@1h+1h": ("idle", "node0000", "GPU 3"),
    "failing-memory@0/4@1h+1h": ("failing", "node0000", "GPU 4"),
    "failing-remap@0/5@1h+1h": ("failing", "node0000", "GPU 5"),
    "lost-gpu@0/6@7h+30min": ("failing", "node0000", "GPU 6"),
    "failing-nvlink@0/7@1h+1h": ("failing", "node0000", "GPU 7"),
    "narrow-pcie@1/0@1h+1h": ("failing", "node0001", "GPU 0"),
    "slow-link@1/1@1h+1h": ("slow link", "node0001", "mlx5_1"),
    "flapping-port@1/2@1h+1h": ("failing", "node0001", "mlx5_2"),
    "bad-cable@1/3@1h+1h": ("failing", "node0001", "mlx5_3"),
    "wrong-cable@1/4@1h+1h": ("mis-cabled", "node0001", "mlx5_4"),
    "ecmp-clash@1/5@5h+1h": ("congested", "node0001", "mlx5_5"),
    "slow-disk@1@1h+1h": ("slow disk", "node0001", "nvme0n1"),
    "dead-node@2@7h+30min": ("failing", "node0002", "node"),
}
"""each kind of fault, and what names it"""


def write_day(folder: Path, *faults: str) -> Path:
    trace = folder / "jobs.csv"
    trace.write_text("id,submit,gpus,seconds\nlarge,0,16,28800\nsmall,0,8,28800\n")
    podsim.exporter(str(trace), on="dgx-a100-80gb:3", length="8h", every="5min", begin="2026-01-05", fault=faults,
                    write=folder / "day.om")  # fmt: skip
    return folder / "day.om"
