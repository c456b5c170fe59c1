"""The results on MIG layouts as plain values, for reports and JSON."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.answer import Answer, View
from podsim.hardware.mig.best import Wish
from podsim.hardware.mig.change import Change
from podsim.hardware.mig.layouts import Layout
from podsim.hardware.mig.profiles import Slicing
from podsim.hardware.parts import Gpu


@dataclass(frozen=True, kw_only=True)
class LayoutSheet(
    Answer,
    view=View(
        report="report.mig_tables:layout_report",
        rows="report.mig_tables:instance_rows",
        image="report.mig_drawing:layout_image",
        chart="Slices",
    ),
):
    """One layout, with its instances as GPUs and the commands that create it."""

    gpu: str
    """The name of the GPU."""
    slicing: Slicing
    """The table of its profiles."""
    layout: Layout
    """The instances at their places."""
    slices: tuple[Gpu, ...]
    """Each instance as a GPU."""
    more: dict[str, int]
    """The number of instances of each profile that could be added, alone."""
    open: int
    """The number of layouts that the GPU can still become, with this one."""
    commands: tuple[str, ...]
    """The commands that create it."""
    parted: str
    """The text of a mig-parted file."""


@dataclass(frozen=True, kw_only=True)
class GpuPlan:
    """The plan of one GPU of a node."""

    node: int
    """The number of the node."""
    index: int
    """The number of the GPU in its node."""
    mode: str
    """The use of the GPU: whole, mig, idle."""
    layout: Layout | None
    """The instances; None for a whole or idle GPU."""
    jobs: tuple[str, ...]
    """The job on each instance, or on the whole GPU."""
    speeds: tuple[float, ...]
    """share. The speed of each job relative to the whole GPU; 1 for one that asked for a profile."""


@dataclass(frozen=True, kw_only=True)
class MigPlan(
    Answer,
    view=View(
        report="report.mig_tables:plan_report",
        rows="report.mig_tables:plan_rows",
        image="report.mig_drawing:plan_image",
        chart="Slices",
    ),
):
    """A node, or several, divided for a mix of jobs."""

    on: str
    """The node, cluster or GPU as the user named it."""
    gpu: str
    """The name of its GPUs."""
    slicing: Slicing
    """The table of their profiles."""
    nodes: int
    """The number of nodes."""
    wishes: tuple[Wish, ...]
    """The requests; whole GPUs have the profile "gpu"."""
    gpus: tuple[GpuPlan, ...]
    """The GPUs, node by node."""
    devices: int
    """The number of GPUs and instances that are allocated."""
    objective: str
    """The objective: throughput, slowest."""
    value: float
    """factor. The sum of the relative speeds of jobs without a profile, or the smallest of them."""
    least: int
    """The smallest number of GPUs that the requested profiles need."""
    strategy: str
    """The strategy of the Kubernetes device plugin: none, single, mixed."""
    commands: tuple[tuple[str, tuple[str, ...]], ...]
    """The nodes and commands of each kind of node."""
    parted: str
    """The text of a mig-parted file, with one configuration for each kind of node."""
    kubernetes: str
    """The text of the deployments."""
    notes: tuple[str, ...]
    """The remarks for whoever runs it."""


@dataclass(frozen=True, kw_only=True)
class GpuState:
    """One GPU as nvidia-smi shows it."""

    index: int
    """The number of the GPU."""
    name: str
    """The name in nvidia-smi."""
    slicing: Slicing
    """The table of its profiles."""
    layout: Layout
    """The instances that exist."""
    uuids: tuple[str, ...]
    """The UUID of each instance, "" where none was printed."""
    more: dict[str, int]
    """The number of instances of each profile that could be added, alone."""
    open: int
    """The number of layouts that the GPU can still become without destroying anything."""
    differences: tuple[str, ...]
    """The differences between the driver's placements and the table's."""
    change: Change | None
    """The change to the requested layout, if there is one."""
    commands: tuple[str, ...]
    """The commands of the change."""
