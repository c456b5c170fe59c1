"""A predicted run in the form of fio's JSON, so that what reads fio's reads it, too.

One job for each client, named after it. Only means are predicted: rates are constant, latencies have no deviation,
greatest or percentiles, and their least is that of an idle system. Submission and synchronisation are one (no
samples), nor is the processor's time. Format: fio 3, --output-format=json (github.com/axboe/fio, stat.c).
"""

from __future__ import annotations

import json
from typing import Any

from podsim.answers.storage import FioRow, FioRun

_UNSEEN: dict[str, Any] = {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0}
_NONE: dict[str, Any] = {
    "io_bytes": 0, "io_kbytes": 0, "bw_bytes": 0, "bw": 0, "iops": 0.0, "runtime": 0, "total_ios": 0, "short_ios": 0,
    "drop_ios": 0, "slat_ns": _UNSEEN, "clat_ns": _UNSEEN, "lat_ns": _UNSEEN, "bw_min": 0, "bw_max": 0, "bw_agg": 0.0,
    "bw_mean": 0.0, "bw_dev": 0.0, "bw_samples": 0, "iops_min": 0, "iops_max": 0, "iops_mean": 0.0, "iops_stddev": 0.0,
    "iops_samples": 0,
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
        {"fio version": "podsim-prediction", "timestamp": 0, "timestamp_ms": 0, "time": "", "global options": options,
         "jobs": jobs, "disk_util": []},
        indent=2,
    )  # fmt: skip


def _job(run: FioRun, row: FioRow, name: str) -> dict[str, Any]:
    runtime = int(run.seconds * 1000)
    return {
        "jobname": name, "groupid": 0, "error": 0, "eta": 0, "elapsed": int(run.seconds), "hostname": name,
        "job options": {"name": name},
        "read": _side(run, row, run.read_share), "write": _side(run, row, 1.0 - run.read_share),
        "trim": dict(_NONE), "sync": {"total_ios": 0, "lat_ns": _UNSEEN}, "job_runtime": runtime,
    }  # fmt: skip


def _side(run: FioRun, row: FioRow, part: float) -> dict[str, Any]:
    if part == 0.0:
        return dict(_NONE)
    bandwidth, iops = (part * value / row.clients for value in (row.bandwidth, row.iops))
    total = int(iops * run.seconds)
    latency = {"min": int(row.alone * 1e9), "mean": row.latency * 1e9, "N": total}
    return {
        **_NONE, "io_bytes": total * int(run.block), "io_kbytes": total * int(run.block) // 1024,
        "bw_bytes": round(bandwidth), "bw": round(bandwidth / 1024), "iops": iops, "runtime": int(run.seconds * 1000),
        "total_ios": total, "lat_ns": latency, "clat_ns": latency, "bw_min": round(bandwidth / 1024),
        "bw_max": round(bandwidth / 1024), "bw_agg": 100.0 / row.clients, "bw_mean": bandwidth / 1024,
        "iops_min": round(iops), "iops_max": round(iops), "iops_mean": iops,
    }  # fmt: skip
