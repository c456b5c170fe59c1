"""`podsim why`: which link was slow, when, whose transfers met there, because of what, and what would end it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from podsim.answers.saved_run import is_run, read_run
from podsim.answers.telemetry import Contention, Explained, Fault, PortRow, Telemetry
from podsim.answers.trained import MeasuredTraining
from podsim.axes import Floats
from podsim.errors import LabError, PodsimError
from podsim.hardware.cluster import Cluster
from podsim.monitoring.port_faults import faults_of
from podsim.options.question import option, question
from podsim.options.step_options import SimulateOptions
from podsim.simulation.lower_links import Trouble
from podsim.simulation.played_plan import simulate_setting
from podsim.timeline.counter_files import read_counters
from podsim.training.plan import Setting, read_plan
from podsim.units import format_quantity

_MOST = 3
"""The number of windows that are reported."""
_SHARED = 0.1
"""The share of a window's bytes from which on an owner counts."""
_LEAST_COST = 1e-3
"""The share of a step below which a cost is none."""


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
    setting = _setting(run)
    healthy = _step_seconds(setting, Trouble()) if setting else None
    shown = [fault for fault in faults_of(run) if not options.link or _is_named(fault.port, options.link)]
    if (
        setting and setting.cluster.route_choice == "adaptive"
    ):  # switches have chosen the best ports that they had
        shown = [fault for fault in shown if fault.kind != "clash"]
    faults = tuple(_with_cost(fault, run, setting, healthy) for fault in shown)
    if options.link:
        windows = _windows_of(run, options.link)
    else:
        windows = tuple(_with_counterfactual(each, run, setting, healthy) for each in _contention(run))
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
            values=tuple(each),
        )
        for rank, each in sorted(laps.items())
    ]
    seconds = max(run.span_end) - min(run.span_start)
    return Telemetry(
        source="real", job=f"{run.model}, {run.ranks} ranks", seconds=seconds, bins=1, rows=tuple(rows)
    )


def _setting(run: Telemetry) -> Setting | None:
    """The plan of the record, to be simulated again."""
    if not run.question:
        return None
    try:
        values = {name: json.loads(text) for name, text in run.question.items()}
        return read_plan(SimulateOptions(**values))
    except (ValueError, TypeError) as problem:
        raise LabError(f"the record's plan cannot be read: {str(problem)[:200]}") from None


def _step_seconds(setting: Setting, trouble: Trouble, cluster: Cluster | None = None) -> float:
    """Seconds of the step, simulated again with equal ranks folded, on another cluster if one is given."""
    changed = setting._replace(cluster=cluster or setting.cluster)
    return simulate_setting(changed, kernels=False, unfold=False, trouble=trouble, force=True).step_time


def _first_ranks(ranks: str) -> list[int]:
    """The first rank of each range."""
    return [int(text.split("-")[0]) for text in ranks.split(",") if text[:1].isdigit()]


def _with_cost(fault: Fault, run: Telemetry, setting: Setting | None, healthy: float | None) -> Fault:
    """The fault with its cost: the step simulated with it, against one without."""
    if setting is None or healthy is None:
        return fault
    rows = [
        row
        for row in run.rows
        if fault.port in (row.part, row.port) and (not row.collective or row.kind == "compute")
    ]
    ranks = _first_ranks(fault.ranks)
    if fault.kind == "clash":
        sound = _step_seconds(setting, Trouble(), replace(setting.cluster, routing="adaptive"))
        return replace(fault, cost=healthy - sound)
    trouble = None
    if fault.kind in ("slow link", "flapping port") and ranks:
        shares = [row.queued_rate / row.capacity for row in rows if row.capacity and row.queued_rate]
        trouble = Trouble(link={ranks[0]: max(min(shares), 0.01)}) if shares else None
    elif fault.kind in ("late rank", "hot GPU") and ranks:
        usual = [row for row in run.rows if row.kind == "compute" and row.collective == rows[0].collective]
        best = float(np.median([sum(row.values) for row in usual]))
        trouble = Trouble(slow={ranks[0]: max(sum(rows[0].values) / best, 1.0)})
    elif fault.kind == "wrong cable" and len(ranks) == 2:
        trouble = Trouble(swap={ranks[0]: ranks[1]})
    return fault if trouble is None else replace(fault, cost=_step_seconds(setting, trouble) - healthy)


def _owners(run: Telemetry) -> dict[str, list[PortRow]]:
    """The rows of the owners of each port."""
    owners: dict[str, list[PortRow]] = {}
    for row in run.rows:
        if row.collective and row.kind != "compute":
            owners.setdefault(row.port, []).append(row)
    return owners


def _binned(row: PortRow, bins: int) -> Floats:
    """The bytes of a row in all bins."""
    values = np.zeros(bins)
    values[: len(row.values)] = row.values[:bins]
    return values


def _contention(run: Telemetry) -> Iterator[Contention]:
    """The ports where traffic of several kinds waited for each other, the longest waits first, one of each kind."""
    owners, seen = _owners(run), set[str]()
    waits = [row for row in run.rows if not row.collective and row.kind != "storage" and row.queued > 0]
    for row in sorted(waits, key=lambda each: -each.queued):
        kinds = {owner.collective for owner in owners.get(row.port, [])}
        if len(kinds) < 2 or row.kind in seen or len(seen) >= _MOST:
            continue
        if window := _window(row, owners[row.port], run, 2):
            seen.add(row.kind)
            yield window


def _window(row: PortRow, owners: Sequence[PortRow], run: Telemetry, least: int) -> Contention | None:
    """The fullest time of a port in which `least` kinds of traffic share it."""
    width = run.seconds / max(run.bins, 1)
    total = _binned(row, run.bins)
    by_kind: dict[str, Floats] = {}
    for owner in owners:
        by_kind[owner.collective] = by_kind.get(owner.collective, 0.0) + _binned(owner, run.bins)
    together = sum((each > _SHARED * total).astype(int) for each in by_kind.values()) >= least
    score = np.where(together, total, 0.0)
    if not np.any(score > 0):
        return None
    first = last = int(score.argmax())
    while first > 0 and score[first - 1] > 0.5 * score.max():
        first -= 1
    while last + 1 < run.bins and score[last + 1] > 0.5 * score.max():
        last += 1
    part = slice(first, last + 1)
    amounts = [(float(_binned(owner, run.bins)[part].sum()), owner) for owner in owners]
    texts = [_owner_text(owner) for amount, owner in sorted(amounts, key=lambda each: -each[0]) if amount > 0]
    full = row.capacity * width * (last + 1 - first)
    return Contention(
        port=row.port + (f" (rank {row.owner})" if row.owner else ""), kind=row.kind, start=first * width,
        end=(last + 1) * width, owners=tuple(texts[:4]), utilisation=float(total[part].sum()) / full if full else 0.0,
    )  # fmt: skip


_TRAFFIC = {"dp": "gradients and weights", "pp": "sends", "tp": "tensor-parallel exchanges",
            "cp": "context-parallel exchanges", "ep": "expert exchanges"}  # fmt: skip


def _owner_text(row: PortRow) -> str:
    """The owner of a row in words: "gradients and weights of ranks 0-63"."""
    what = _TRAFFIC.get(row.collective, row.collective)
    ranks = f" of rank{'s' * (not row.ranks.isdigit())} {row.ranks}" if row.ranks else ""
    span = "-".join(dict.fromkeys(map(str, row.micro_batches)))
    return f"{what}{ranks}" + (f", micro-batch {span}" if span else "")


def _is_named(port: str, pattern: str) -> bool:
    return pattern in port or fnmatchcase(port, pattern)


def _windows_of(run: Telemetry, pattern: str) -> tuple[Contention, ...]:
    """The fullest time of the ports that a pattern names. Raises PodsimError for a pattern without matches."""
    owners = _owners(run)
    ports = [row for row in run.rows if not row.collective and row.kind != "compute"]
    named = [row for row in ports if _is_named(row.port, pattern)]
    if not named:
        known = ", ".join(row.port for row in sorted(ports, key=lambda each: -each.bytes)[:4])
        raise PodsimError(f"--link {pattern[:60]!r}: no port of the record; the busiest are {known}")
    windows = [
        _window(row, owners.get(row.port, []), run, 0)
        for row in sorted(named, key=lambda r: -r.bytes)[:_MOST]
    ]
    return tuple(window for window in windows if window)


def _with_counterfactual(
    window: Contention, run: Telemetry, setting: Setting | None, healthy: float | None
) -> Contention:
    """The window with the mapping that makes it, its cost, and the change that ends it best."""
    if setting is None or healthy is None:
        return window
    plan, per = setting.plan, setting.cluster.gpus_per_node
    tp, pp, dp = int(plan.tp), int(plan.pp), int(plan.dp) * int(plan.cp)
    reasons = []
    if dp * tp > per and dp > 1:
        reasons.append(f"the ring of {dp} data-parallel ranks crosses servers of {per} GPUs")
    if pp > 1:
        reasons.append(
            f"stages of {dp * tp} ranks lie on other servers" if dp * tp >= per else "stages share servers"
        )
    cost = healthy - _step_seconds(setting, Trouble(alone=True))
    changes: dict[str, float] = {}
    bandwidth = setting.cluster.network.bandwidth
    doubled = replace(setting.cluster.network, bandwidth=2 * bandwidth)
    faster = replace(setting.cluster, network=doubled)
    changes["adapters twice as fast"] = _step_seconds(setting, Trouble(), faster)
    if plan.overlap_grad and pp > 1:
        moved = setting._replace(plan=replace(plan, overlap_grad=False))
        changes["gradients after the last pass (--no-overlap-grad)"] = _step_seconds(moved, Trouble())
    name, best = min(changes.items(), key=lambda each: each[1])
    gain = healthy - best
    remedy = f"{name} would save {format_quantity(gain, 's')}" if gain > _LEAST_COST * healthy else ""
    return replace(window, reason=" and ".join(reasons), cost=cost, remedy=remedy)
