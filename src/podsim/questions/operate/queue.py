"""`podsim queue`: jobs through the queue of a machine."""

from __future__ import annotations

import re

import numpy as np

from podsim.answers.queued import ContainerStart, QueueResult
from podsim.errors import PodsimError
from podsim.fleet.containers import container_start, storage_rate
from podsim.fleet.elastic import elastic_jobs
from podsim.fleet.metrics import make_run
from podsim.fleet.queue import Machine, Progress, part_of
from podsim.fleet.queue_jobs import jobs_of, policies_of, with_costs
from podsim.fleet.queue_machines import machine_of, make_runner, operations_of
from podsim.fleet.squeue import forecast_starts
from podsim.hardware.cluster import load_cluster
from podsim.options.fleet_options import QueueOptions
from podsim.options.output_options import PlotOutput
from podsim.options.question import question, reworded
from podsim.storage.checkpoints_stores import load_store
from podsim.units import parse_quantity


@question(
    QueueOptions,
    output=reworded(PlotOutput, "plot", "Draw use over time and completion times: FILE.svg or .png."),
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
    jobs = jobs_of(options, machine)
    operations = operations_of(options, machine)
    container = _container(options, machine) if options.image else None
    policies = [
        with_costs(policy, options, container)
        for policy in policies_of(
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
        run(jobs, policy, part_of(progress, index, len(policies))) for index, policy in enumerate(policies)
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


def _container(options: QueueOptions, machine: Machine) -> ContainerStart:
    """The start of the containers of all jobs."""
    store = load_store(options.store).sized(machine.nodes)
    known = not re.fullmatch(r"[\d\sxX]+", options.on)
    rate = min(store.client_read, storage_rate(load_cluster(options.on)) if known else np.inf)
    size = parse_quantity(options.image, "B", what="image")
    return container_start(size, machine, min(rate, store.read), store.read, store.name)
