"""The two constants of a host in MLPerf Storage's results, fitted on those with one accelerator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from podsim.storage.mlperf_storage import Result
from podsim.storage.workloads import load_workload


def fit_host(rows: Sequence[Result]) -> tuple[float, float]:
    """(host_step in s, host_bandwidth in B/s) with the least mean |predicted / measured - 1| over some results."""
    works = [load_workload(row.workload) for row in rows]
    step = np.array([work.steps[row.accelerator] for work, row in zip(works, rows, strict=True)])
    bytes_ = np.array([work.batch * work.record for work in works])
    batch = np.array([work.batch for work in works])
    rate = np.array([row.rate for row in rows])
    steps = np.linspace(0.0, 2e-3, 81)
    speeds = np.geomspace(5e9, 1e12, 120)
    host = steps[:, None, None] + bytes_ / speeds[:, None]  # [fixed time, bandwidth, result]
    error = np.abs(batch / (step + host) / rate - 1.0).mean(axis=2)
    best = np.unravel_index(int(error.argmin()), error.shape)
    return float(steps[best[0]]), float(speeds[best[1]])
