"""A plan of MIG instances for the GPUs of a cluster, with the files and commands that make it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from podsim.hardware.mig.best import Assignment, Wish, fewest_gpus
from podsim.hardware.mig.layouts import Layout
from podsim.hardware.mig.profiles import Slicing
from podsim.hardware.mig.results import GpuPlan, MigPlan
from podsim.hardware.parts import Gpu

WHOLE = "gpu"
"""The word of a job that takes undivided GPUs."""


def make_plan(
    on: str, chip: Gpu, slicing: Slicing, nodes: int, wishes: tuple[Wish, ...], gpus: tuple[GpuPlan, ...],
    objective: str, speeds: list[float],
) -> MigPlan:  # fmt: skip
    """The plan with all that an operator runs."""
    from podsim.hardware.mig.commands import kubernetes_text, make_commands, make_parted, parted_text

    kinds: dict[tuple[Layout | None, ...], list[int]] = {}
    for node in range(nodes):
        kinds.setdefault(tuple(gpu.layout for gpu in gpus if gpu.node == node), []).append(node)
    named = {f"podsim-{number}" if len(kinds) > 1 else "podsim": kind for number, kind in enumerate(kinds)}
    strategy = _strategy([gpu.layout for gpu in gpus])
    profiles = Counter(
        wish.profile for wish in wishes if wish.profile not in ("", WHOLE) for _ in range(wish.count)
    )
    placed: dict[str, Counter[str]] = {}
    for gpu in gpus:
        held = [""] * len(gpu.jobs) if gpu.layout is None else [i.profile for i in gpu.layout.instances]
        for job, profile in zip(gpu.jobs, held, strict=True):
            placed.setdefault(job, Counter())[profile] += 1
    per_node = len(gpus) // nodes
    jobs = [
        (
            f"{job}-{profile.split('.')[0]}" if len(counts) > 1 else job,
            profile,
            *_pods(profile, count, per_node),
        )
        for job, counts in placed.items()
        for profile, count in sorted(counts.items())
    ]
    return MigPlan(
        on=on, gpu=chip.name, slicing=slicing, nodes=nodes, wishes=wishes, gpus=gpus,
        devices=sum(len(gpu.jobs) for gpu in gpus), objective=objective,
        value=(sum(speeds) if objective == "throughput" else min(speeds)) if speeds else 0.0,
        least=fewest_gpus(slicing, dict(profiles)) if profiles else 0, strategy=strategy,
        commands=tuple(
            (_spans(kinds[kind]), make_commands(slicing, kind)) for kind in named.values() if any(kind)
        ),
        parted=parted_text({name: make_parted(kind) for name, kind in named.items()}),
        kubernetes=kubernetes_text(jobs, strategy=strategy, config="podsim" if len(kinds) == 1 else ""),
        notes=_notes(chip, slicing, gpus),
    )  # fmt: skip


def _pods(profile: str, count: int, per_node: int) -> tuple[int, int]:
    """(pods, devices of each): an instance a pod; whole GPUs of a job in as few pods as nodes allow."""
    if profile or (count > per_node and count % per_node):
        return count, 1
    return max(1, count // per_node), min(count, per_node)


def _spans(nodes: list[int]) -> str:
    return f"node {nodes[0]}" if len(nodes) == 1 else f"nodes {', '.join(map(str, nodes))}"


def _strategy(layouts: list[Layout | None]) -> str:
    """The strategy for the Kubernetes device plugin: single only if all instances of all GPUs are equal."""
    profiles = {instance.profile for layout in layouts if layout is not None for instance in layout.instances}
    if not profiles:
        return "none"
    return "single" if len(profiles) == 1 and None not in layouts else "mixed"


def _notes(chip: Gpu, slicing: Slicing, gpus: tuple[GpuPlan, ...]) -> tuple[str, ...]:
    notes = []
    if any(gpu.layout for gpu in gpus):
        notes.append("instances of one GPU neither copy to each other nor join one NCCL communicator")
        if chip.architecture == "ampere":
            notes.append("MIG mode is switched on by a reset of the GPU: no process may use it")
        notes.append(
            "mig-parted chooses places itself: the file says which instances, the commands also where"
        )
        notes.append("how long the driver takes to create instances is in no published measurement")
    idle = sum(gpu.mode == "idle" for gpu in gpus)
    if idle:
        notes.append(f"{idle} GPU{'s are' if idle > 1 else ' is'} left over")
    left = sum(slicing.compute_slices - gpu.layout.compute for gpu in gpus if gpu.layout)
    if left:
        notes.append(f"{left} compute slice{'s' * (left > 1)} of divided GPUs stay unused")
    if slicing.confirmed != "yes":
        notes.append(
            f"profiles of {slicing.name}: " + "; ".join(f"{k} {v}" for k, v in slicing.notes.items())
        )
    return tuple(notes)


def make_gpus(
    nodes: int, per_node: int, undivided: Sequence[str], divided: Sequence[object]
) -> tuple[GpuPlan, ...]:
    """A plan for each GPU: whole ones first, then the divided ones, then the idle ones."""
    used = [assignment for assignment in divided if isinstance(assignment, Assignment)]
    made = []
    for number in range(nodes * per_node):
        at = {"node": number // per_node, "index": number % per_node}
        if number < len(undivided):
            made.append(GpuPlan(**at, mode="whole", layout=None, jobs=(undivided[number],), speeds=(1.0,)))
        elif number < len(undivided) + len(used):
            assignment = used[number - len(undivided)]
            made.append(
                GpuPlan(
                    **at, mode="mig", layout=assignment.layout, jobs=assignment.jobs, speeds=assignment.speeds
                )
            )
        else:
            made.append(GpuPlan(**at, mode="idle", layout=None, jobs=(), speeds=()))
    return tuple(made)
