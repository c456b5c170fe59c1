"""`podsim exporter`: a simulated day, a training run or this machine, as metrics for Prometheus."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from podsim.answers.answer import call
from podsim.answers.saved_run import read_run
from podsim.answers.trained import ComparedTraining, MeasuredTraining
from podsim.errors import PodsimError, raise_all
from podsim.fleet.operations import read_span
from podsim.hardware.cluster import load_cluster
from podsim.lab.options import outside
from podsim.monitoring.day import Day, Forecast, make_segments, placed_runs
from podsim.monitoring.day_faults import read_faults
from podsim.monitoring.day_source import DaySource
from podsim.monitoring.exposition import metric_text
from podsim.monitoring.host_source import HostSource
from podsim.monitoring.metric_output import Source, serve_metrics, write_dashboards, write_samples
from podsim.monitoring.training_source import TrainingSource, begin_of
from podsim.options.fleet_options import QueueOptions
from podsim.options.output_options import NoOutput
from podsim.options.question import like, option, question, wrong_choices
from podsim.questions.registry import ask
from podsim.units import read_duration, read_moment

_FORMS = ("prometheus", "openmetrics")
_RECORDS = (".json", ".jsonl")


@dataclass(frozen=True, kw_only=True)
class ExporterOptions:
    """What is exported, and how."""

    source: str = option(
        "host", "host (this machine), what podsim train --save wrote, or jobs for a day, as podsim queue takes them.",
        argument=True,
    )  # fmt: skip
    on: str = like(
        QueueOptions, "on", "The cluster of simulated jobs: dgx-h100:4, selene, a TOML file.", default=""
    )
    policy: str = option("easy", "The queue's policy.")
    where: Mapping[str, str] | None = like(QueueOptions, "where")
    drain: Sequence[str] = like(QueueOptions, "drain")
    maintenance: Sequence[str] = like(QueueOptions, "maintenance")
    seed: int = option(0, "Seed of arrivals, of differences between GPUs, and of random faults.")
    model: str = option("bert-large", "What simulated jobs train, with the best plan for their GPUs.")
    fault: Sequence[str] = option(
        (), "Break something, e.g. hot-gpu@3/5@6h+2h (KIND@NODE/PART@START+LENGTH) or random:7. Repeatable."
    )
    start: str = option("0s", "Start of the simulated day after the queue's first job, e.g. 12h.")
    length: str = option("24h", "Its length.")
    begin: str = option("", "Its first moment as a date, 2026-01-31 or 2026-01-31T08:00; default yesterday.")
    every: str = option("60s", "Time between samples that --write writes.")
    speed: float = option(60.0, "Simulated seconds per second of a live replay.")
    write: Path | None = option(
        None, "Write the whole day to FILE as OpenMetrics, for promtool, and end; FILE.gz: packed."
    )
    files: Path | None = option(
        None, "Write dashboards, alert rules and a configuration to a folder, and end."
    )
    once: bool = option(False, "Print one scrape and end.", flag="--once")
    form: str = option("prometheus", "Form of --once: prometheus or openmetrics.", choices=_FORMS)
    host_label: str = option(
        "hostname", "Label of the host on GPU metrics: older dcgm-exporters say Hostname."
    )
    root: Path = option(Path("/"), "Root of the file systems of the machine that is read.")
    port: int = option(9400, "Port to listen on.")
    host: str = option(
        "127.0.0.1", "Address to listen on; another than this machine's own shows it to others."
    )


@question(
    ExporterOptions,
    output=NoOutput,
)
def exporter(options: ExporterOptions) -> None:
    """Export metrics: print one scrape, write a day, or serve /metrics until Ctrl-C.

    Simulated jobs train `model` on the machine `on`, as podsim.queue schedules them. Raises PodsimError for anything
    unusable.
    """
    _check(options)
    if options.files is not None:
        write_dashboards(options.files)
        return
    source = make_source(options)
    if options.write is not None:
        write_samples(source, options.every, options.write)
    elif options.once:
        sys.stdout.writelines(metric_text(source.families(np.array([source.begin])), options.form))
    else:
        serve_metrics(source, speed=options.speed, host=options.host, port=options.port)


def _check(options: ExporterOptions) -> None:
    """Raise PodsimError with all that is wrong with the options."""
    wrong = wrong_choices(options, "form")
    wrong += outside((("speed", options.speed, 0.001, 1e6), ("port", options.port, 0, 65535)))
    if options.seed < 0:
        wrong.append(f"seed={options.seed}; it must be 0 or more")
    if not options.host_label.isidentifier() or not options.host_label.isascii():
        wrong.append(
            f"host_label={options.host_label[:40]!r}; letters, digits and _ make a label, as Hostname"
        )
    if options.source == "host" and (options.on or options.fault):
        wrong.append(
            "on and fault are of a simulated day; name its jobs, too: podsim exporter arrivals:300 --on …"
        )
    raise_all(wrong)


def make_source(options: ExporterOptions) -> Source:
    """What is exported. Raises PodsimError for anything unusable."""
    if options.source == "host":
        return HostSource(root=options.root, host_label=options.host_label)
    if options.source.endswith(_RECORDS) and not options.on:
        return _training_source(Path(options.source))
    return day_source(options)


def _training_source(path: Path) -> TrainingSource:
    """A run of podsim train, with its predicted step where its links are known."""
    run = read_run(path)
    if not isinstance(run, MeasuredTraining) or not run.rows:
        raise PodsimError(f"{path.name}: it is no training run with steps; podsim train --save writes one")
    try:
        compared = ask("compare", path)
    except PodsimError:
        compared = None
    predicted = compared.predicted if isinstance(compared, ComparedTraining) else None
    return TrainingSource(name=path.name, run=run, predicted=predicted, begin=begin_of(run))


def day_source(options: ExporterOptions) -> DaySource:
    """A simulated day: jobs from the queue, their steps from the plan search, faults as asked for."""
    if not options.on or options.on.replace("x", "").isdigit():
        raise PodsimError(
            f"on={options.on!r}: simulated jobs need a cluster with known GPUs, e.g. dgx-h100:8 or selene"
        )
    cluster = load_cluster(options.on)
    start, length = (read_duration(getattr(options, name), name) for name in ("start", "length"))
    if not 60 <= length <= 366 * 86400:
        raise PodsimError(f"length={options.length}; 1 minute to 366 days")
    run = ask(
        "queue", options.source, on=options.on, policy=(options.policy,), where=options.where, seed=options.seed,
        drain=options.drain, maintenance=options.maintenance,
    ).runs[0]  # fmt: skip
    drains, maintenance = (
        tuple(read_span(text, cluster.nodes, name) for text in getattr(options, name))
        for name in ("drain", "maintenance")
    )
    timeline = run.timeline
    assert timeline is not None
    today = (timeline.end > start) & (timeline.start < start + length)
    sizes = {int(np.ceil(size)) for size in np.unique(timeline.arguments["gpus"][today]).tolist()}
    forecasts = {}
    for size in sizes:
        _, prediction = call(
            "monitoring.finding_costs:best_plan", options.model, options.on, min(size, cluster.gpus)
        )
        forecasts[size] = Forecast.of(prediction)
    runs = placed_runs(timeline, cluster, forecasts, start, length, (*drains, *maintenance))
    if not runs:
        raise PodsimError(
            f"no job runs in the {options.length} from {options.start} on; the queue ends after"
            f" {run.makespan / 3600:.1f} h"
        )
    faults = read_faults(options.fault, cluster, length, runs, options.seed)
    day = Day(
        cluster=cluster, length=length, runs=runs, faults=faults, queue=run, offset=start, begin=_begin(options),
        segments=make_segments(runs, faults, cluster, length), drains=drains, maintenance=maintenance,
        seed=options.seed, pace=1.0 if options.write else options.speed,
    )  # fmt: skip
    return DaySource(day, options.host_label)


def _begin(options: ExporterOptions) -> float:
    """s since 1970 of the day's first moment: that which was given, else yesterday, or now for a live replay."""
    if options.begin:
        return read_moment(options.begin, "begin")
    now = time.time()
    return (now // 86400 - 1) * 86400 if options.write else now
