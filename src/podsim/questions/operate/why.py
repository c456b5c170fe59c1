"""`podsim why`: which link was slow, when, whose transfers met there, because of what, and what would end it."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path

from podsim.answers.saved_run import is_run, read_run
from podsim.answers.telemetry import Explained, PortRow, Telemetry
from podsim.answers.trained import MeasuredTraining
from podsim.errors import LabError
from podsim.monitoring.fault_costs import setting_of, step_seconds, with_cost, with_counterfactual
from podsim.monitoring.port_faults import faults_of
from podsim.monitoring.port_windows import contention_of, is_named, windows_of
from podsim.options.question import option, question
from podsim.simulation.lower_links import Trouble
from podsim.timeline.counter_files import read_counters


@dataclass(frozen=True, kw_only=True)
class WhyOptions:
    """The record of a run, and the port that is asked about."""

    run: Path = option(
        MISSING,
        "A record of --save of podsim simulate or emulate, or counters and traces of a real run: a file or a folder.",
        argument=True,
    )
    link: str = option("", "A port, or a pattern: node0/nic3, leaf2>*. Default: where traffic met.")


@question(
    WhyOptions,
    activity="reading the record",
)
def why(options: WhyOptions) -> Explained:
    """The faults that a record shows, and where traffic of several owners met, with costs by simulating again.

    Costs are of one step, from simulations with and without the fault; a record without a plan has none. Raises LabError
    for a file that is no record, PodsimError for a port that it does not know.
    """
    run = read_telemetry(options)
    setting = setting_of(run)
    healthy = step_seconds(setting, Trouble()) if setting else None
    shown = [fault for fault in faults_of(run) if not options.link or is_named(fault.port, options.link)]
    if (
        setting and setting.cluster.route_choice == "adaptive"
    ):  # switches have chosen the best ports that they had
        shown = [fault for fault in shown if fault.kind != "clash"]
    faults = tuple(with_cost(fault, run, setting, healthy) for fault in shown)
    if options.link:
        windows = windows_of(run, options.link)
    else:
        windows = tuple(with_counterfactual(window, setting, healthy) for window in contention_of(run))
    notes = [] if setting else ["the record holds no plan, so nothing can be simulated again: no costs"]
    if run.ports > len({row.port for row in run.rows}):
        notes.append(f"{run.ports:,} ports; those that carried least are summed up by kind")
    return Explained(
        run=options.run.name, source=run.source, job=run.job, step_time=run.step_time, healthy=healthy,
        faults=faults, contention=windows, notes=tuple(notes),
    )  # fmt: skip


def read_telemetry(options: WhyOptions) -> Telemetry:
    """The record of a file; of counters and traces of a real run, or of a folder of them, one made of these."""
    path = options.run
    if path.is_dir() or (path.is_file() and not is_run(path)):
        return read_counters(path)
    run = read_run(path)
    if isinstance(run, MeasuredTraining):
        return _trained(run)
    if not isinstance(run, Telemetry):
        raise LabError(
            f"{path.name}: a run without ports; podsim simulate --save and podsim emulate --save keep them"
        )
    return run


def _trained(run: MeasuredTraining) -> Telemetry:
    """The passes of each rank in the last steps of a training run, as laps of the ranks of a stage."""
    laps: dict[int, list[float]] = {}
    for rank, name, start, end in zip(
        run.span_rank, run.span_name, run.span_start, run.span_end, strict=True
    ):
        if name.startswith(("forward", "backward")):
            laps.setdefault(rank, []).append(end - start)
    if not laps:
        raise LabError(f"this run of {run.model} kept no passes; train again with this version of podsim")
    stage = int(run.plan.get("tp", 1)) * int(run.plan.get("dp", 1))
    rows = [
        PortRow(
            port=f"rank {rank}",
            kind="compute",
            collective=f"stage {rank // stage}",
            ranks=str(rank),
            values=tuple(passes),
        )
        for rank, passes in sorted(laps.items())
    ]
    seconds = max(run.span_end) - min(run.span_start)
    return Telemetry(
        source="real", job=f"{run.model}, {run.ranks} ranks", seconds=seconds, bins=1, rows=tuple(rows)
    )
