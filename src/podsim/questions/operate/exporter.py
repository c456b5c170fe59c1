"""`podsim exporter`: a simulated day, a training run or this machine, as metrics for Prometheus."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from podsim.answers.prediction import Prediction
from podsim.answers.saved_run import read_run
from podsim.answers.trained import ComparedTraining, MeasuredTraining
from podsim.axes import Floats
from podsim.errors import NoFitError, PlanError, PodsimError
from podsim.fleet.operations import read_span
from podsim.hardware.cluster import load_cluster
from podsim.lab.options import outside
from podsim.monitoring.day import Day, Forecast, make_segments, placed_runs
from podsim.monitoring.day_faults import read_faults
from podsim.monitoring.day_source import DaySource
from podsim.monitoring.exposition import Family, metric_text
from podsim.monitoring.host_source import HostSource
from podsim.monitoring.metric_server import make_server
from podsim.monitoring.training_source import TrainingSource, begin_of
from podsim.options.monitoring_options import ExporterOptions
from podsim.options.output_options import NoOutput
from podsim.options.question import question, wrong_choices
from podsim.questions.asking import ask
from podsim.quoting import visible
from podsim.units import read_duration, read_moment
from podsim.whole_files import write_files, write_pieces

_MOST_SAMPLES = 50_000_000
_MOST_TIMES = 20_000
_RECORDS = (".json", ".jsonl")
Source = DaySource | HostSource | TrainingSource


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
        _write_files(options.files)
        return
    source = make_source(options)
    if options.write is not None:
        _write(source, options, options.write)
    elif options.once:
        sys.stdout.writelines(metric_text(source.families(np.array([source.begin])), options.form))
    else:
        _serve(source, options)


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
    if wrong:
        raise PodsimError("; ".join(wrong))


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
    forecasts = {
        size: Forecast.of(_best_plan(options.model, options.on, min(size, cluster.gpus))) for size in sizes
    }
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


@cache
def _best_plan(model: str, on: str, size: int) -> Prediction:
    """The best plan on the largest power of two of GPUs that a job of this size has."""
    gpus = 1 << (size.bit_length() - 1)
    try:
        best: Prediction = ask("plan", model, on=on, gpus=gpus).ranked[0].prediction
    except (PlanError, NoFitError) as problem:
        raise PodsimError(
            f"model={model}: no plan on {gpus} GPUs of {on}, as a job has; take a smaller model:"
            f" --model bert-large ({str(problem)[:160]})"
        ) from None
    return best


def _begin(options: ExporterOptions) -> float:
    """s since 1970 of the day's first moment: that which was given, else yesterday, or now for a live replay."""
    if options.begin:
        return read_moment(options.begin, "begin")
    now = time.time()
    return (now // 86400 - 1) * 86400 if options.write else now


def _sample_times(source: Source, options: ExporterOptions) -> Floats:
    """The times of the samples that are written: of a training run, those of its steps."""
    if isinstance(source, TrainingSource):
        return source.ends
    if isinstance(source, HostSource):
        return np.array([time.time()])
    every = read_duration(options.every, "every")
    if not every > 0 or source.length / every > _MOST_TIMES:
        raise PodsimError(f"every={options.every}; above 0, and at most {_MOST_TIMES:,} times in the day")
    return source.begin + np.arange(0.0, source.length, every)


def _write(source: Source, options: ExporterOptions, path: Path) -> None:
    """Write all samples as OpenMetrics, with their own times."""
    times = _sample_times(source, options)
    series = sum(int((family.series >= 0).sum()) for family in source.families(times[:1]))
    if series * len(times) > _MOST_SAMPLES:
        least = series * source.length / _MOST_SAMPLES
        raise PodsimError(
            f"{series:,} series at {len(times):,} times are more than {_MOST_SAMPLES:,} samples, all that is written;"
            f" take --every {least:.0f}s or more, a shorter --length, or fewer nodes"
        )
    pieces = (piece.encode() for piece in metric_text(source.families(times), "openmetrics", times.tolist()))
    try:
        write_pieces(path, pieces)
    except OSError as problem:
        raise PodsimError(f"--write {str(path)[-80:]}: {problem.strerror or problem}") from None
    sys.stdout.write(f"{visible(str(path))}: {series:,} series at {len(times):,} times\n")
    if isinstance(source, DaySource):
        sys.stdout.writelines(f"fault {each}\n" for each in source.day.faults)


def _write_files(folder: Path) -> None:
    """Write the dashboards, the alert rules and a configuration to a folder."""
    try:
        with as_file(files("podsim.monitoring") / "files") as packaged:
            for path in sorted(each for each in packaged.rglob("*") if each.suffix in (".json", ".yml")):
                target = folder / path.relative_to(packaged)
                target.parent.mkdir(parents=True, exist_ok=True)
                write_files({target: path.read_bytes()})
                sys.stdout.write(f"{visible(str(target))}\n")
    except OSError as problem:
        raise PodsimError(f"--files {str(folder)[-80:]}: {problem.strerror or problem}") from None


def _serve(source: Source, options: ExporterOptions) -> None:
    """Answer scrapes until Ctrl-C: a day goes by at its pace, and stays at its end."""
    began = time.monotonic()

    def scrape() -> Iterable[Family]:
        passed = min((time.monotonic() - began) * options.speed, source.length)
        return source.families(np.array([source.begin + passed]))

    server = make_server(scrape, options.host, options.port)
    sys.stdout.write(
        f"podsim: http://{options.host}:{server.server_address[1]}/metrics\npodsim: Ctrl-C ends it\n"
    )
    sys.stdout.flush()
    with server:
        server.serve_forever()
