"""The machine of a queue, and what runs jobs on it."""

from __future__ import annotations

import re
from collections.abc import Callable

from podsim.errors import PodsimError, raise_all
from podsim.fleet.jobs import Jobs
from podsim.fleet.operations import Operations, read_partitions, read_span
from podsim.fleet.policies import Policy
from podsim.fleet.queue import Machine, Progress, Schedule, run_queue
from podsim.fleet.reliability_rates import PARTS, load_study, node_rate, recovery
from podsim.fleet.sliced import run_sliced
from podsim.hardware.cluster import load_cluster
from podsim.hardware.mig.profiles import slicing_of
from podsim.options.fleet_options import QueueOptions
from podsim.units import parse_quantity

_SIZE = re.compile(r"(?:(\d{1,7})\s*[xX]\s*)?(\d{1,7})")


def make_runner(
    jobs: Jobs, machine: Machine, on: str, placement: str, repartition: str, operations: Operations
) -> Callable[[Jobs, Policy, Progress | None], Schedule]:
    """What runs jobs under a policy: whole GPUs, or where some ask for MIG instances, places on GPUs."""
    if not jobs.mig:
        if repartition or placement == "fgd":
            given = f"repartition={repartition}" if repartition else "placement=fgd"
            raise PodsimError(
                f"{given}: no job of the trace asks for a MIG instance (column mig, as 1g.10gb)"
            )
        return lambda some, policy, progress: run_queue(
            some, machine, policy, operations=operations, progress=progress
        )

    if _SIZE.fullmatch(on.strip()):
        wanted = ", ".join(sorted({profile for profile in jobs.mig if profile})[:5])
        raise PodsimError(
            f"on={on}: jobs ask for MIG instances ({wanted}); name GPUs that can be divided, as dgx-a100-80gb:8"
        )
    if not operations.is_empty:
        raise PodsimError(
            "failures, drains, windows and partitions are for jobs on whole GPUs, not for MIG instances"
        )
    slicing = slicing_of(load_cluster(on).gpu)
    relay = parse_quantity(repartition, "s", what="repartition") if repartition else 0.0
    return lambda some, policy, _: run_sliced(some, machine, policy, slicing, packer=placement, relay=relay)


def machine_of(on: str, placement: str = "best-fit") -> tuple[Machine, str]:
    """(machine, its name) of a number of GPUs, of nodes such as 8x8, or of a cluster with its leaf switches."""
    match = _SIZE.fullmatch(on.strip())
    if match:
        if placement == "fgd":
            raise PodsimError(
                "placement=fgd is for MIG instances; name GPUs that can be divided, as dgx-a100-80gb:8"
            )
        nodes, gpus = int(match[1] or 1), int(match[2])
        name = f"{nodes} nodes of {gpus} GPUs" if match[1] else f"{gpus} GPUs that know no place"
        return Machine(nodes=nodes, gpus_per_node=gpus, placement=placement), name

    if not on.strip():
        raise PodsimError("on: give a number of GPUs (64), nodes (8x8), or a cluster (selene)")
    cluster = load_cluster(on)
    machine = Machine(
        nodes=cluster.nodes,
        gpus_per_node=cluster.gpus_per_node,
        nodes_per_leaf=cluster.system.unit,
        placement="best-fit" if placement == "fgd" else placement,
    )
    return machine, cluster.name


def operations_of(options: QueueOptions, machine: Machine) -> Operations:
    """What the user says of the machine's nodes. Raises PodsimError for anything unusable."""
    nodes, known = machine.nodes, recovery()
    windows = [read_span(text, nodes, "maintenance") for text in options.maintenance]
    reserved = [read_span(text, nodes, "reserve") for text in options.reserve]
    problems = [
        f"maintenance={span.text}: it is for nobody; reserve nodes for a user"
        for span in windows
        if span.user
    ]
    problems += [f"reserve={span.text}: for whom? As {span.text}:alice" for span in reserved if not span.user]
    for name in ("spread", "repair"):
        if getattr(options, name) and not options.failures:
            problems.append(f"{name}: nothing fails; give failures, too, as rsc-1 or 0.0065")
    if options.failures and options.on.strip().isdigit():
        problems.append(
            f"on={options.on}: nodes fail; say which there are, as {max(nodes * machine.gpus // 8, 1)}x8"
        )
    raise_all(problems)
    return Operations(
        rate=_failure_rate(options.failures, options.on, machine), spread=options.spread, drain=known["drain"].value,
        repair=parse_quantity(options.repair, "s", what="repair") if options.repair else known["repair"].value,
        drains=tuple(read_span(text, nodes, "drain") for text in options.drain), windows=(*windows, *reserved),
        partitions=read_partitions(options.partition, nodes), seed=options.seed,
    )  # fmt: skip


def _failure_rate(text: str, on: str, machine: Machine) -> float:
    """1/s. The failure rate of a node, of a study, of its parts, or of a number per node and day."""
    if re.match(r"[-+.\d]", text):
        return parse_quantity(text, "", what="failures") / 86400.0
    if not text:
        return 0.0
    if not _SIZE.fullmatch(on.strip()):
        return node_rate(text, load_cluster(on))[0]
    if text.strip().lower() == PARTS:
        raise PodsimError(f"failures=parts: {on} says no parts; name a cluster, such as dgx-h100:8")
    return load_study(text).rate * machine.gpus_per_node / 8
