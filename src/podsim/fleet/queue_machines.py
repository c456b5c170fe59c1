"""The machine of a queue, and what runs jobs on it."""

from __future__ import annotations

import re
from collections.abc import Callable

from podsim.errors import PodsimError
from podsim.fleet.jobs import Jobs
from podsim.fleet.policies import Policy
from podsim.fleet.queue import Machine, Progress, Schedule, run_queue
from podsim.fleet.sliced import run_sliced
from podsim.hardware.cluster import load_cluster
from podsim.hardware.mig.profiles import slicing_of
from podsim.units import parse_quantity

_SIZE = re.compile(r"(?:(\d{1,7})\s*[xX]\s*)?(\d{1,7})")


def make_runner(
    jobs: Jobs, machine: Machine, on: str, placement: str, repartition: str
) -> Callable[[Jobs, Policy, Progress | None], Schedule]:
    """What runs jobs under a policy: whole GPUs, or where some ask for MIG instances, places on GPUs."""
    if not jobs.mig:
        if repartition or placement == "fgd":
            given = f"repartition={repartition}" if repartition else "placement=fgd"
            raise PodsimError(
                f"{given}: no job of the trace asks for a MIG instance (column mig, as 1g.10gb)"
            )
        return lambda some, policy, progress: run_queue(some, machine, policy, progress=progress)

    if _SIZE.fullmatch(on.strip()):
        wanted = ", ".join(sorted({profile for profile in jobs.mig if profile})[:5])
        raise PodsimError(
            f"on={on}: jobs ask for MIG instances ({wanted}); name GPUs that can be divided, as dgx-a100-80gb:8"
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
