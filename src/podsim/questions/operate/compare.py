"""`podsim compare`: a run of the lab and its prediction side by side, with the difference explained by kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

from podsim.acceptance.compare_collectives import compare_collectives
from podsim.acceptance.compare_ddp import compare_ddp
from podsim.acceptance.compare_serving import compare_serving
from podsim.acceptance.compare_storage import compare_storage
from podsim.acceptance.compare_training import compare_training
from podsim.answers.compared_server import ComparedServer
from podsim.answers.lab import ComparedCollectives, MeasuredRanks
from podsim.answers.lab_storage import ComparedStorage, MeasuredCheckpoints, MeasuredLoader
from podsim.answers.saved_run import read_run
from podsim.answers.served_real import ComparedServing, MeasuredServing
from podsim.answers.sweep import Sweep
from podsim.answers.telemetry import Telemetry
from podsim.answers.trained import (
    ComparedDdp,
    ComparedTraining,
    MeasuredDdp,
    MeasuredTables,
    MeasuredTraining,
)
from podsim.errors import LabError
from podsim.launching.plan_file import read_plan_file, with_plan
from podsim.network.collectives import Table
from podsim.options.plan_options import plan_file_option
from podsim.options.question import option, overrides_option, question
from podsim.options.serving_options import ServeOptions
from podsim.questions.registry import ask
from podsim.serving.deployments.deployments import read_serving_plan
from podsim.serving.measured_server import is_benchmark_file, serve_measured


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """A run that was measured, and where."""

    run: Path = option(
        MISSING,
        "A file that --save of podsim measure or train wrote, or a benchmark of servers.",
        argument=True,
    )
    on: str = option(
        "", "Cluster or storage that it ran on, or a TOML file; an emulated run knows its cluster."
    )
    cache_on: str = option("", "Storage that a loader's cache is on; default local-nvme.")
    overrides: Mapping[str, str] | None = overrides_option("network.bandwidth=100Gb/s")
    plan: str = plan_file_option()


def with_training_plan(group: type, said: Mapping[str, Any]) -> dict[str, Any]:
    """The options with those of a training plan; that of a server is read with its run."""
    return dict(said) if is_benchmark_file(Path(str(said["run"]))) else with_plan(group, said)


def _status(compared: Any) -> int:
    """1 if no row can be compared."""
    if hasattr(compared, "verdict"):
        return int(compared.verdict != "comparable")
    return int(compared.mean is None)


@question(
    CompareOptions,
    fill="podsim.questions.operate.compare:with_training_plan",
    status=_status,
)
def compare(
    options: CompareOptions,
) -> (
    ComparedCollectives | ComparedStorage | ComparedTraining | ComparedDdp | ComparedServing | ComparedServer
):
    """A measured run (--save of podsim measure or train, or of a benchmark of servers) and its predictions, side by side.

    `on` is the cluster that collectives or training ran on (a run on emulated links needs none), or the storage system
    that was read and written; podsim.acceptance.compare_storage says what is predicted of these.

    A server's recorded arrivals and lengths are simulated again, with the step that a run of its own measured.

    Of collectives measured is the rank that took longest. A prediction is made of links (the table simulated on them),
    messages (a latency for each transfer that waits for another, as measured at the start of the run), burst (what the
    buckets of shaped links save) and processors (what passing on, copying and adding cost those that all ranks share,
    measured at the start, too); rest is what is left. Rows are not comparable where the ranks used more than half of the
    processors, or other programs more than a tenth. Raises LabError for a file that is no run, or one that says nothing
    of its links.
    """
    if is_benchmark_file(options.run):
        plan = read_serving_plan(Path(options.plan)) if options.plan else {}
        asked = {"overrides": options.overrides} | plan | ({"on": options.on} if options.on else {})
        return serve_measured(options.run, ServeOptions(**asked))
    run, name, where = read_run(options.run), options.run.name, (options.on, options.overrides)
    if isinstance(run, (MeasuredCheckpoints, MeasuredLoader)):
        return compare_storage(
            name, run, on=options.on, cache_on=options.cache_on, overrides=options.overrides
        )
    if options.cache_on:
        raise LabError(f"--cache-on is for runs of podsim measure loader; {name} is of another kind")
    if isinstance(run, MeasuredServing):
        return compare_serving(run, name)
    if isinstance(run, MeasuredTraining):
        if options.plan:
            check_plan(run, name, options.plan)
        return compare_training(run, name, *where)
    if isinstance(run, MeasuredRanks):
        raise LabError(
            f"{name}: ranks are compared with each other: podsim verify --only ranks --pairs {name}"
        )
    if isinstance(run, MeasuredDdp):
        return compare_ddp(run, name, *where)
    if isinstance(run, MeasuredTables):
        raise LabError(f"{name} is a run of podsim measure tables, which holds its comparison: the hit rates")
    if isinstance(run, Telemetry):
        raise LabError(f"{name} is a record of ports: podsim why {name} reads it")

    def seconds_on(size: float, table: Table | None) -> float:
        """Seconds of the run's collective on the cluster: a table simulated on its links, or what NCCL would choose."""
        played = {"algo": table, "simulate": True} if table is not None else {}
        sweep = ask(
            "collective", run.collective, on=options.on, sizes=f"{size:.0f}", ranks=run.ranks,
            overrides=options.overrides, **played,
        )  # fmt: skip
        assert isinstance(sweep, Sweep)
        return sweep.rows[0].seconds

    return compare_collectives(run, name, *where, seconds_on)


def check_plan(run: MeasuredTraining, name: str, plan: str) -> None:
    """Raise LabError for a run of another layout than that of a plan file."""
    wanted = read_plan_file(plan)
    degrees = ("tp", "pp", "dp", "virtual_stages", "zero", "schedule", "recompute")
    other = [key for key in degrees if key in wanted and wanted[key] != run.plan.get(key, wanted[key])]
    if other:
        pairs = (f"{key}={run.plan[key]} in {name}, {key}={wanted[key]} in {plan[-80:]}" for key in other)
        raise LabError("; ".join(pairs) + ": give the plan of the run, or leave --plan out")
