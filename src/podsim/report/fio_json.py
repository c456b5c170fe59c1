"""A predicted run in the form of fio's JSON, so that what reads fio's reads it, too.

One job for each client, named after it. Only means are predicted: there are no percentiles, and the least latency is that
of an idle system. Format: fio 3, --output-format=json (github.com/axboe/fio, stat.c).
"""

from __future__ import annotations

import json
from typing import Any

from podsim.results.storage import FioRow, FioRun

__all__ = ["fio_json"]

_NONE: dict[str, Any] = {
    "io_bytes": 0, "io_kbytes": 0, "bw_bytes": 0, "bw": 0, "iops": 0.0, "runtime": 0, "total_ios": 0, "short_ios": 0,
    "drop_ios": 0,
}  # fmt: skip


def fio_json(run: FioRun) -> str:
    """JSON text of the last row of a run: all its clients at once."""
    row = run.rows[-1]
    options = {
        "rw": run.rw, "bs": str(int(run.block)), "numjobs": str(run.numjobs), "iodepth": str(run.iodepth),
        "ioengine": "libaio", "direct": "1", "runtime": f"{run.seconds:g}s", "time_based": "1", "group_reporting": "1",
    }  # fmt: skip
    jobs = [_job(run, row, f"client{k}") for k in range(row.clients)]
    return json.dumps(
        {"fio version": "podsim-prediction", "timestamp": 0, "global options": options, "jobs": jobs},
        indent=2,
    )


def _job(run: FioRun, row: FioRow, name: str) -> dict[str, Any]:
    runtime = int(run.seconds * 1000)
    return {
        "jobname": name, "groupid": 0, "error": 0, "elapsed": int(run.seconds), "hostname": name,
        "job options": {"name": name},
        "read": _side(run, row, run.read_share), "write": _side(run, row, 1.0 - run.read_share),
        "trim": dict(_NONE), "job_runtime": runtime,
    }  # fmt: skip


def _side(run: FioRun, row: FioRow, part: float) -> dict[str, Any]:
    if part == 0.0:
        return dict(_NONE)
    bandwidth, iops = (part * value / row.clients for value in (row.bandwidth, row.iops))
    total = int(iops * run.seconds)
    latency = {"min": int(row.alone * 1e9), "mean": row.latency * 1e9, "N": total}
    return {
        "io_bytes": total * int(run.block), "io_kbytes": total * int(run.block) // 1024,
        "bw_bytes": int(bandwidth), "bw": int(bandwidth / 1024), "iops": iops, "runtime": int(run.seconds * 1000),
        "total_ios": total, "short_ios": 0, "drop_ios": 0, "lat_ns": latency, "clat_ns": latency,
        "bw_mean": bandwidth / 1024, "iops_mean": iops,
    }  # fmt: skip
