"""What is said of a GPU's division, as plain values: for reports, and for JSON."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.hardware.mig.best import Wish
from podsim.hardware.mig.change import Change
from podsim.hardware.mig.layouts import Layout
from podsim.hardware.mig.measured import SliceCase, SliceScore
from podsim.hardware.mig.profiles import Slicing
from podsim.hardware.parts import Gpu


@dataclass(frozen=True, kw_only=True)
class LayoutRow:
    """One layout of a table."""

    number: int
    """place in the table"""
    layout: Layout
    """the instances at their places"""
    instances: int
    """how many"""
    compute: int
    """compute slices in use"""
    memory: int
    """memory slices in use"""
    maximal: bool
    """whether no instance can be added"""


@dataclass(frozen=True, kw_only=True)
class LayoutTable:
    """Layouts of one GPU."""

    gpu: str
    """name of the GPU"""
    slicing: Slicing
    """its profiles"""
    rows: tuple[LayoutRow, ...]
    """the layouts shown"""
    total: int
    """layouts of these profiles, the empty one left out"""
    maximal: int
    """of them those to which no instance can be added"""
    distinct: int
    """sets of profiles among all of them, wherever they stand"""


@dataclass(frozen=True, kw_only=True)
class LayoutSheet:
    """One layout, with its instances as GPUs and what an operator runs for it."""

    gpu: str
    """name of the GPU"""
    slicing: Slicing
    """its profiles"""
    layout: Layout
    """the instances at their places"""
    slices: tuple[Gpu, ...]
    """each instance as a GPU"""
    more: dict[str, int]
    """count of each profile that could be added, alone"""
    open: int
    """count of layouts that the GPU can still become, this one included"""
    commands: tuple[str, ...]
    """that make it"""
    parted: str
    """text of a mig-parted file"""


@dataclass(frozen=True, kw_only=True)
class ConfigRow:
    """One entry of a mig-parted file."""

    name: str
    """of its configuration"""
    devices: tuple[int, ...] | None
    """numbers of the GPUs, None for all"""
    enabled: bool
    """whether MIG mode is on"""
    layout: Layout | None
    """one way to place its instances, None for none"""


@dataclass(frozen=True, kw_only=True)
class GpuPlan:
    """What becomes of one GPU of a node."""

    node: int
    """number of the node"""
    index: int
    """in its node"""
    mode: str
    """whole, mig, idle"""
    layout: Layout | None
    """instances, None of a whole or idle GPU"""
    jobs: tuple[str, ...]
    """name of the job on each instance (or on the whole GPU)"""
    speeds: tuple[float, ...]
    """share of the whole GPU's speed that each has; of one that asked for a profile 1"""


@dataclass(frozen=True, kw_only=True)
class MigPlan:
    """A node, or several, divided for a mix of jobs."""

    on: str
    """node, cluster or GPU as asked for"""
    gpu: str
    """name of its GPUs"""
    slicing: Slicing
    """their profiles"""
    nodes: int
    """how many"""
    wishes: tuple[Wish, ...]
    """what was asked for, whole GPUs as profile "gpu" """
    gpus: tuple[GpuPlan, ...]
    """each GPU, node by node"""
    devices: int
    """count of GPUs and instances that are given out"""
    objective: str
    """throughput, slowest"""
    value: float
    """factor: sum of the relative speeds of jobs without a profile of their own, or the least of them"""
    least: int
    """count of GPUs that the profiles asked for need at least"""
    strategy: str
    """of the Kubernetes device plugin: none, single, mixed"""
    commands: tuple[tuple[str, tuple[str, ...]], ...]
    """(nodes, commands) for each kind of node"""
    parted: str
    """text of a mig-parted file, one configuration for each kind of node"""
    kubernetes: str
    """text of the deployments"""
    notes: tuple[str, ...]
    """what to know before it is run"""


@dataclass(frozen=True, kw_only=True)
class GpuState:
    """One GPU as nvidia-smi shows it."""

    index: int
    """number of the GPU"""
    name: str
    """as nvidia-smi has it"""
    slicing: Slicing
    """its profiles"""
    layout: Layout
    """the instances that are there"""
    uuids: tuple[str, ...]
    """of each instance, "" where none was printed"""
    more: dict[str, int]
    """count of each profile that could be added, alone"""
    open: int
    """count of layouts that the GPU can still become without destroying anything"""
    differences: tuple[str, ...]
    """where this driver's placements differ from the table's"""
    change: Change | None
    """how to reach what is wanted, if something is"""
    commands: tuple[str, ...]
    """that carry the change out"""


@dataclass(frozen=True, kw_only=True)
class SeventhRow:
    """One smallest instance against a seventh of the whole GPU, MLPerf Inference offline."""

    model: str
    """network, as MLPerf names it"""
    gpu: str
    """name of the whole GPU"""
    predicted: float
    """share of a seventh"""
    measured: float
    """share of a seventh"""
    how: str
    """laws of its kernels, or SMs alone"""


@dataclass(frozen=True, kw_only=True)
class LawReport:
    """How right the laws of slices are."""

    scores: tuple[SliceScore, ...]
    """one for each way to know f"""
    cases: tuple[SliceCase, ...]
    """the training jobs"""
    busy: dict[str, float]
    """share of throughput that six busy neighbours cost, by model"""
    sevenths: tuple[SeventhRow, ...]
    """MLPerf's pairs of an instance and its GPU"""
    seventh_error: float
    """share, mean of their relative errors, signs left out"""
