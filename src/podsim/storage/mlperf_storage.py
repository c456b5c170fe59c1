"""The results of MLPerf Storage v1.0, with predictions for storage that is not the limit.

An emulated accelerator sleeps for its step, so a system that keeps up gives

    samples/s of one accelerator = batch / (step + host),    host = host_step + batch x record / host_bandwidth

A result with a known utilisation AU gives AU x batch / step, by the benchmark's definition. The benchmark counts the
rate of all accelerators together, at a minimum utilisation. So submitters add accelerators while the utilisation allows
it, and a result on several accelerators is that of a system at its limit:

    between  threshold x batch / step  and  batch / (step + host)

`at_limit` gives the lower end, for one accelerator the upper. `reference/fit_storage_hosts.py` gives the two constants:
the least mean |error| over the results on one accelerator (six, three workloads), on a grid. All other results are only
reported on.

Source: github.com/mlcommons/storage_results_v1.0. Known error: `podsim storage validate`. Stops being true: results
close to the minimum utilisation (0.9, CosmoFlow 0.7) are near the lower end. Those of systems with more to give, or of
submitters without more accelerators, are near the upper.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from podsim.packaged import packaged_csv
from podsim.storage.workloads import load_workload


@dataclass(frozen=True, kw_only=True)
class Result:
    """One published result."""

    id: str
    role: str
    submitter: str
    system: str
    workload: str
    """The name in the workload catalog."""
    accelerator: str
    accelerators: int
    hosts: int
    rate: float
    """1/s. The rate of samples of one accelerator."""
    utilisation: float
    source: str


@cache
def results() -> tuple[Result, ...]:
    """All 132 results."""
    return tuple(
        Result(
            id=row["id"], role=row["role"], submitter=row["submitter"], system=row["system_run"],
            workload=f"mlperf-{row['model']}", accelerator=row["accelerator"], accelerators=int(row["n_accelerators"]),
            hosts=int(row["client_hosts"]), rate=float(row["samples_per_s_per_accelerator"]),
            utilisation=float(row["au_pct"]) / 100.0, source=row["source"],
        )
        for row in packaged_csv("storage/catalog/mlperf_storage.csv.gz")
    )  # fmt: skip


def unhindered(result: Result) -> float:
    """Samples/s of one accelerator on a system that keeps up."""
    work = load_workload(result.workload)
    hand_over = work.batch * work.record / work.host_bandwidth
    return work.batch / (work.steps[result.accelerator] + work.host_step + hand_over)


def by_utilisation(result: Result) -> float:
    """Samples/s of one accelerator at the result's own utilisation."""
    work = load_workload(result.workload)
    return result.utilisation * work.batch / work.steps[result.accelerator]


def at_limit(result: Result) -> float:
    """Samples/s of one accelerator where as many are fed as the utilisation that must be reached allows."""
    if result.accelerators == 1:  # there was none to take away, nor did they add one
        return unhindered(result)
    work = load_workload(result.workload)
    return min(work.threshold * work.batch / work.steps[result.accelerator], unhindered(result))
