"""`podsim diagnose`: the ill parts of a machine, from its metrics."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from podsim.answers.answer import call
from podsim.answers.diagnosis import Diagnosis
from podsim.errors import PodsimError
from podsim.hardware.cluster import load_cluster
from podsim.monitoring.exposition import read_metrics
from podsim.monitoring.judgement import judge, metric_names
from podsim.monitoring.prometheus_api import read_prometheus
from podsim.options.question import option, question
from podsim.units import read_duration, read_moment

_STEPS = 240
"""The number of times that a server is asked for at most."""


@dataclass(frozen=True, kw_only=True)
class DiagnoseOptions:
    """Where metrics come from, and which time is judged."""

    dump: Path | None = option(
        None, "What an exporter prints, or a file of podsim exporter --write; else --prometheus.", argument=True,
        metavar="[DUMP]",
    )  # fmt: skip
    prometheus: str = option("", "URL of a Prometheus server, e.g. http://localhost:9090.")
    window: str = option("1h", "Length of the judged time of a server.")
    end: str = option("", "Its end, e.g. 2026-01-31T08:00; default now.")
    on: str = option("", "The cluster that the machine should be; default what its own parts agree on.")
    cost: bool = option(
        False, "What each finding costs its job: share of its time, money, and whether to drain. Needs --on.",
        flag="--cost",
    )  # fmt: skip
    model: str = option(
        "", "With --cost: what the jobs train, simulated with and without the finding; else costs are measured.",
        complete="models",
    )  # fmt: skip
    price: str = option("", "With --cost: USD per GPU-hour, e.g. 2.10, or a price that `podsim cost` lists.")


@question(DiagnoseOptions, status=lambda diagnosis: int(bool(diagnosis.findings)))
def diagnose(options: DiagnoseOptions) -> Diagnosis:
    """Name the idle, straggling, throttled, mis-cabled and failing parts of a machine, from a server or a dump.

    Without `on`, ports and slots are compared with their median. Raises PodsimError for anything unusable.
    """
    if (options.dump is None) == (not options.prometheus):
        raise PodsimError("give a dump or --prometheus URL, as --prometheus http://localhost:9090")
    if options.cost and not options.on:
        raise PodsimError("--cost needs the machine, for its price and for plans: --on dgx-h100:4")
    if (options.model or options.price) and not options.cost:
        raise PodsimError("--model and --price are for --cost: add it")
    expected = {}
    if options.on:
        cluster = load_cluster(options.on)
        expected = {"pcie_width": float(cluster.gpu.pcie_lanes), "rate": cluster.network.bandwidth}
    if options.dump is not None:
        series, source = read_metrics(options.dump, metric_names()), options.dump.name
    else:
        window = read_duration(options.window, "window")
        if not 60 <= window <= 31 * 86400:
            raise PodsimError(f"window={options.window}; 1 minute to 31 days")
        end = read_moment(options.end, "end") if options.end else time.time()
        step = max(window / _STEPS, 15.0)
        series = read_prometheus(options.prometheus, metric_names(), end - window, end, step)
        source = options.prometheus.rpartition("@")[2]
    if not any(name.startswith(("DCGM", "node_")) for name in series):
        raise PodsimError(
            f"{source}: it has no metric of dcgm-exporter or node_exporter in this time, as DCGM_FI_DEV_GPU_TEMP"
        )
    diagnosis = judge(series, source, expected, live=options.dump is None)
    if not options.cost:
        return diagnosis
    costed: Diagnosis = call(
        "monitoring.finding_costs:with_costs", diagnosis, options.on, options.model, options.price
    )
    return costed
