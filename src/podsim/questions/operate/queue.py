"""`podsim queue` and `podsim pack`: jobs through the queue of a machine, requests onto its nodes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from podsim.answers.queued import ContainerStart, PackResult, PackRow, QueueResult
from podsim.errors import PodsimError, unknown_name
from podsim.fleet.arrivals import Arrivals, draw_jobs
from podsim.fleet.containers import container_start, storage_rate
from podsim.fleet.elastic import elastic_jobs
from podsim.fleet.jobs import Jobs
from podsim.fleet.metrics import make_run
from podsim.fleet.openb import read_nodes, read_requests
from podsim.fleet.packing import PACKERS, draw_requests
from podsim.fleet.packing import pack as pack_once
from podsim.fleet.policies import ELASTIC, POLICIES, Policy, find_policy
from podsim.fleet.queue import Machine, Progress
from podsim.fleet.queue_machines import machine_of, make_runner, operations_of
from podsim.fleet.queue_plans import make_plan_filler
from podsim.fleet.reliability_rates import recovery
from podsim.fleet.sliced import policy_problem
from podsim.fleet.squeue import forecast_starts
from podsim.fleet.traces import DATA, read_jobs
from podsim.hardware.cluster import load_cluster
from podsim.options.fleet_options import PackOptions, QueueOptions
from podsim.options.output_options import PackPlot, QueuePlot
from podsim.options.question import question
from podsim.storage.checkpoints_stores import load_store
from podsim.units import parse_quantity

_MODEL = "arrivals:"
_SAVES = 3600.0
"""s. The training time between checkpoints, if the user says none."""


@question(
    QueueOptions,
    output=QueuePlot,
    plotted="timeline",
    progress="running jobs",
    status=lambda result: int(bool(result.too_large)),
)
def queue(options: QueueOptions, *, timeline: bool = True, progress: Progress | None = None) -> QueueResult:
    """Run the jobs of a trace through the queue of a machine, under one policy or several.

    A model of arrivals is `arrivals:10000` or `arrivals:jobs=10000,load=0.9,median=2h`. A number of GPUs has no
    topology. Policies are those of podsim.fleet.policies.POLICIES.

    Where jobs ask for MIG instances (column `mig`: 1g.10gb, 3g, …), `on` is a cluster whose GPUs can be divided, and
    `placement` one of podsim.fleet.slots.PACKERS. Where jobs have a `model`, a `plan` and `steps`, their GPUs, length
    and speed across nodes and leaves are predicted for that cluster. `progress` is called with (jobs that have ended,
    all), counted over the policies. Jobs larger than the machine are reported, and the others run. Raises PodsimError
    for anything unusable.
    """
    if options.squeue or options.sinfo or options.job:
        return _starts(options)
    if not options.trace:
        raise PodsimError(
            "which jobs? Give a trace, e.g. philly-1, arrivals:10000 or a file, or squeue and sinfo"
        )
    machine, name = machine_of(options.on, options.placement)
    jobs = _jobs(options, machine)
    operations = operations_of(options, machine)
    container = _container(options, machine) if options.image else None
    policies = [
        _changed(policy, options, container)
        for policy in _policies(
            options.policy,
            options.compare,
            jobs,
            changes=options.qos or not operations.is_empty,
            elastic=options.elastic is not None,
        )
    ]
    room = operations.room_for(jobs, machine.nodes, machine.gpus_per_node)
    large = np.flatnonzero(jobs.gpus > room)
    listed = tuple(f"{jobs.ids[j]}: {jobs.gpus[j]} GPUs" for j in large[:20])
    if len(large) == len(jobs):
        raise PodsimError(
            f"{options.trace[-200:]}: none of its {len(jobs):,} jobs fits {room.max():,} GPUs; the smallest"
            f" asks for {jobs.gpus.min():,}"
        )
    if len(large):
        jobs = jobs.only(
            jobs.gpus <= room, f"larger than the {'partition' if options.partition else 'machine'}"
        )
    if options.elastic is not None:
        room = operations.room_for(jobs, machine.nodes, machine.gpus_per_node)
        jobs = elastic_jobs(jobs, options.elastic, options.scaling, room)
    run = make_runner(jobs, machine, options.on, options.placement, options.repartition, operations)
    schedules = [
        run(jobs, policy, _after(progress, index, len(policies))) for index, policy in enumerate(policies)
    ]
    runs = tuple(make_run(policy, timeline=timeline) for policy in schedules)
    span, asked = float(jobs.submit.max()), float((jobs.seconds * schedules[0].size)[jobs.warm :].sum())
    return QueueResult(
        trace=options.trace[-200:], source=jobs.source, machine=name, gpus=machine.gpus, jobs=len(jobs) - jobs.warm,
        warm=jobs.warm, users=len(jobs.users), load=asked / machine.gpus / span if span > 0 else 0.0,
        left_out=jobs.left_out, too_large=listed, cut=jobs.cut, rounded=jobs.rounded, runs=runs,
        container=container,
    )  # fmt: skip


def _starts(options: QueueOptions) -> QueueResult:
    """The starts of waiting jobs of Slurm; a trace and `on` may name the two files as well."""
    jobs, nodes = options.squeue or options.trace, options.sinfo or options.on
    if not (jobs and nodes):
        raise PodsimError(
            "give both files: --squeue (squeue or scontrol show job), --sinfo (sinfo or scontrol show node)"
        )
    starts, gpus, warnings = forecast_starts(jobs, nodes, options.job)
    return QueueResult(
        trace=jobs[-200:], source="Slurm", machine=nodes[-200:], gpus=gpus, jobs=len(starts), users=0, load=0.0, runs=(),
        starts=tuple(starts), warnings=tuple(warnings),
    )  # fmt: skip


def _after(progress: Progress | None, index: int, count: int) -> Progress | None:
    """What counts the jobs of one of several policies, or the orders of a packer, after those before it."""
    if progress is None:
        return None
    return lambda done, total: progress(index * total + done, count * total)


def _policies(
    names: Sequence[str], compare: bool, jobs: Jobs, *, changes: bool, elastic: bool
) -> list[Policy]:
    """Policies by name, or all that serve these jobs, on a machine that changes or not."""
    if names and compare:
        raise PodsimError("compare takes every policy; give policies or compare, not both")
    if compare:
        return [
            policy
            for policy in ((*POLICIES, ELASTIC) if elastic else POLICIES)
            if not (jobs.mig and policy_problem(policy))
            and not (changes and policy.backfill == "conservative")
        ]
    twice = [name for name in names if list(names).count(name) > 1]
    if twice:
        raise PodsimError(f"policy {twice[0]} is given more than once")
    return [find_policy(name) for name in names or (("tiresias", "elastic") if elastic else ("easy",))]


def _container(options: QueueOptions, machine: Machine) -> ContainerStart:
    """The start of the containers of all jobs."""
    store = load_store(options.store).sized(machine.nodes)
    known = not re.fullmatch(r"[\d\sxX]+", options.on)
    rate = min(store.client_read, storage_rate(load_cluster(options.on)) if known else np.inf)
    size = parse_quantity(options.image, "B", what="image")
    return container_start(size, machine, min(rate, store.read), store.read, store.name)


def _changed(policy: Policy, options: QueueOptions, container: ContainerStart | None) -> Policy:
    """The policy with the costs and the pace that the user gives; conservative backfill keeps its own pace."""
    given = {name: getattr(options, name) for name in ("interval", "start", "checkpoint", "restart")}
    changes: dict[str, Any] = {
        name: parse_quantity(text, "s", what=name) for name, text in given.items() if text != ""
    }
    if options.depth is not None:
        changes["depth"] = options.depth
    if options.failures:
        known = {name: constant.value for name, constant in recovery().items()}
        changes.setdefault("restart", known["start"] + known["hang"] * known["timeout"])
        changes["saves"] = parse_quantity(options.saves, "s", what="saves") if options.saves else _SAVES
    elif options.saves:
        raise PodsimError("saves: nothing fails; give failures, too, e.g. rsc-1 or 0.0065")
    if options.qos:
        changes["tiers"] = True
    if container is not None:
        changes |= {"mount": container.mount, "pull": container.pull, "pull_each": container.pull_each}
    return replace(policy, **changes) if changes else policy


def _jobs(options: QueueOptions, machine: Machine) -> Jobs:
    """The jobs of a trace or of a model of arrivals."""
    trace, where, together, seed = options.trace, options.where, options.together, options.seed
    taper = options.taper
    if not 0 < taper <= 1:
        raise PodsimError(f"taper={taper:g}; it is above 0 and at most 1")
    if not trace.startswith(_MODEL):
        return read_jobs(
            trace,
            where,
            together=together,
            fill=make_plan_filler(options.on, taper, elastic=options.elastic is not None),
        )
    if where:
        raise PodsimError("where chooses rows of a trace; a model of arrivals has none")
    if not 0 <= seed < 2**63:
        raise PodsimError(f"seed={seed}; it must be 0 or more")
    arrivals = _arrivals(trace.removeprefix(_MODEL))
    jobs = draw_jobs(arrivals, machine.gpus, np.random.default_rng(seed), warm=not together)
    return jobs.at_once() if together else jobs


def _arrivals(text: str) -> Any:
    """Arrivals of a text such as 10000, or jobs=10000,load=0.9,median=2h."""
    units = {"median": "s", "longest": "s"}
    known = [field.name for field in fields(Arrivals) if field.name not in ("sizes", "weights")]
    values: dict[str, Any] = {}
    for index, part in enumerate(text.split(",")):
        key, equals, value = part.partition("=")
        if not equals and index == 0:
            key, value = "jobs", part
        if key.strip() not in known:
            raise PodsimError(
                f"arrivals: {unknown_name('figure', key.strip(), known)}; such as arrivals:jobs=10000,load=0.9"
            )
        number = parse_quantity(value.strip(), units.get(key.strip(), ""), what=f"arrivals: {key.strip()}")
        values[key.strip()] = int(number) if key.strip() in ("jobs", "users") else number
    if "jobs" not in values:
        raise PodsimError("arrivals: how many jobs? Such as arrivals:10000 or arrivals:jobs=10000,load=0.9")
    return Arrivals(**values)


@question(
    PackOptions,
    output=PackPlot,
    progress="packing requests",
)
def pack(options: PackOptions, *, progress: Progress | None = None) -> PackResult:
    """Pack requests for parts of GPUs onto nodes until `load` times the machine's GPUs have been asked for.

    `requests` is `openb` (Alibaba's trace of 2023, in the package, with its nodes), or a CSV of pods with cpu_milli,
    memory_mib, num_gpu, gpu_milli; then `nodes` is a CSV with cpu_milli, memory_mib, gpu, model.  Packers (default all)
    are those of podsim.fleet.packing.PACKERS; each runs over `seeds` random orders of arrival. `progress` is called with
    (orders packed, all), counted over the packers.
    """
    if not 1 <= options.seeds <= 1000 or not 0.01 <= options.load <= 100:
        raise PodsimError(
            f"seeds={options.seeds}, load={options.load:g}; seeds are 1 to 1000, load is 0.01 to 100"
        )
    if options.requests != "openb" and not options.nodes:
        raise PodsimError(
            "nodes: give the CSV of the nodes, too (cpu_milli, memory_mib, gpu, model), or pack openb"
        )
    machine = read_nodes(Path(options.nodes) if options.nodes else DATA / "openb_gpu_nodes.csv.gz")
    asked = read_requests(
        DATA / "openb_pods.csv.gz" if options.requests == "openb" else Path(options.requests), machine.models
    )
    for name in options.packer:
        if name not in PACKERS:
            raise PodsimError(unknown_name("packer", name, PACKERS))
    packers = options.packer or tuple(PACKERS)
    rows = tuple(
        _packed(asked, machine, name, options, _after(progress, index, len(packers)))
        for index, name in enumerate(packers)
    )
    return PackResult(
        trace=options.requests[-200:], nodes=len(machine.gpus), gpus=int(machine.gpus.sum()), requests=len(asked.count),
        load=options.load, seeds=options.seeds, rows=rows,
    )  # fmt: skip


def _packed(
    asked: Any, machine: Any, packer: str, options: PackOptions, progress: Progress | None
) -> PackRow:
    load, packings = options.load, []
    for seed in range(options.seeds):
        rng = np.random.default_rng(seed)
        arrivals = draw_requests(asked, float(machine.gpus.sum()), load, rng)
        packings.append(pack_once(asked, machine, arrivals, packer, rng=rng))
        if progress is not None:
            progress(seed + 1, options.seeds)
    grid = np.linspace(0.0, load, 27)[1:]
    final = [float(packing.allocated[-1]) for packing in packings]
    return PackRow(
        packer=packer, says=PACKERS[packer], allocated=float(np.mean(final)), spread=max(final) - min(final),
        fragmented=float(np.mean([packing.fragmented for packing in packings])),
        turned_away=float(np.mean([packing.turned_away / len(packing.arrived) for packing in packings])),
        arrived_A=tuple(grid.tolist()),
        allocated_A=tuple(float(np.mean([packing.at(share) for packing in packings])) for share in grid),
    )  # fmt: skip
