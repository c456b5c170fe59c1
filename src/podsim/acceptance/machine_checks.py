"""The checks of a machine, group by group: what is in it, its storage, its network, and training on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from podsim.acceptance.health_checks import health_parts
from podsim.acceptance.inventory_checks import inventory_parts
from podsim.acceptance.network_checks import all_reduce, network_checks, read_network
from podsim.acceptance.rank_checks import rank_checks
from podsim.acceptance.storage_checks import (
    Expected,
    check_storage,
    measure_disk,
    not_run,
    storage_checks,
    stored_checks,
)
from podsim.acceptance.thresholds import Figure, unmeasured
from podsim.acceptance.training_checks import measure_images, training_checks
from podsim.answers.acceptance import Check, Curve, Part
from podsim.answers.lab import MeasuredRanks
from podsim.answers.saved_run import read_run, run_of
from podsim.errors import LabError
from podsim.hardware.cluster import Cluster
from podsim.lab.inventory import Inventory
from podsim.lab.inventory_tools import ask_machine, no_answers
from podsim.lab.rank_pairs import task_of
from podsim.lab.ranks import run_here
from podsim.lab.usage import cores
from podsim.lab.wires import gpus_here
from podsim.options.measure_options import VerifyOptions
from podsim.units import format_quantity

_DISTURBED = 0.1
"""share of the processors that others may use before a note says so"""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The machine at hand, and what is expected of it."""

    options: VerifyOptions
    cluster: Cluster
    """The expected cluster."""
    size: int
    """B. The size of fio's file."""
    inventory: Inventory
    predict_images: Callable[[Cluster, str], tuple[float | None, str]]
    """The function from (cluster, client) to (images a second of a GPU, its origin)."""
    note: Callable[[str], None]

    @property
    def client(self) -> str:
        """The expected node, as `podsim storage` names it."""
        expect = self.options.expect
        return expect if expect.lower().endswith(".toml") else self.cluster.system.name

    @property
    def is_measured(self) -> bool:
        """Whether the expected figures were measured on this machine before."""
        return self.cluster.host is not None

    @property
    def ranks(self) -> int:
        """Ranks to start."""
        return self.options.ranks or gpus_here() or min(self.cluster.gpus_per_node, 8)


@dataclass
class Findings:
    """What was found so far."""

    parts: list[Part] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def add_checks(group: str, machine: Machine, findings: Findings) -> None:
    """Run a group of checks, and keep what they found."""
    _GROUPS[group](machine, findings)


def disturbed(others: float) -> list[str]:
    """A note where other programs took so much that figures are theirs, too."""
    if others <= _DISTURBED:
        return []
    return [
        f"Other programs used {others:.0%} of the processors meanwhile: what falls short may be their doing. "
        "Run it again when the machine is idle."
    ]


def machine_text(inventory: Inventory) -> str:
    """A machine in one line."""
    gpus = f"{len(inventory.gpus)} GPUs, " if inventory.gpus else "no GPU, "
    return (
        f"{inventory.sockets} x {inventory.processor or 'unnamed processor'}, {inventory.cores} cores,"
        f" {format_quantity(inventory.memory, 'B')}, {gpus}{'virtual' if inventory.virtual else 'not virtual'}"
    )


def _inventory(machine: Machine, findings: Findings) -> None:
    machine.note("inventory")
    root = machine.options.root
    tools = ask_machine() if root == Path("/") else no_answers(f"{root} is not this machine")
    findings.parts += inventory_parts(machine.inventory, tools, machine.cluster)


def _health(machine: Machine, findings: Findings) -> None:
    machine.note("health")
    findings.parts += health_parts(machine.options.health, machine.options.root)


def _storage(machine: Machine, findings: Findings, group: str = "storage") -> None:
    options, host = machine.options, machine.cluster.host
    expected = Expected(
        system=options.storage,
        client=machine.client,
        same=machine.is_measured,
        names=host.names if host else {},
    )
    check_storage(options.storage, machine.client)
    if options.fio or options.mdtest is not None:
        is_names = group == "metadata"
        findings.checks += stored_checks(
            () if is_names else options.fio, options.mdtest if is_names else None, expected
        )
        return
    try:
        disk = measure_disk(
            options.folder, cores(), size=machine.size, seconds=options.seconds, note=machine.note,
            of=(group,),
        )  # fmt: skip
    except LabError as problem:
        findings.checks += not_run(str(problem))
        return
    findings.checks += storage_checks(disk, expected)


def _network(machine: Machine, findings: Findings) -> None:
    options = machine.options
    if options.run is not None:
        measured = read_network(options.run)
    else:
        try:
            machine.note("all-reduce")
            measured = all_reduce(machine.ranks, options.sizes, limit=1.5)
        except LabError as problem:
            figure = Figure(group="network", name="all-reduce", unit="B/s")
            findings.checks.append(unmeasured(figure, str(problem)))
            return
    checks, curve = network_checks(measured, machine.cluster, same=machine.is_measured)
    findings.checks += checks
    findings.curves.append(curve)


def _ranks(machine: Machine, findings: Findings) -> None:
    options = machine.options
    try:
        run = read_run(options.pairs) if options.pairs is not None else None
        if run is None:
            machine.note("ranks and pairs")
            run = run_of(run_here(task_of(max(machine.ranks, 2), 1 << 22, 120.0, "auto")), kind="ranks")
    except LabError as problem:
        if options.pairs is not None:
            raise
        figure = Figure(group="ranks", name="ranks and pairs", unit="B/s")
        findings.checks.append(unmeasured(figure, str(problem)))
        return
    if not isinstance(run, MeasuredRanks):
        raise LabError(
            f"--pairs {options.pairs}: a run of another kind; podsim measure ranks --save writes them"
        )
    findings.checks += rank_checks(run)


def _training(machine: Machine, findings: Findings) -> None:
    options, host = machine.options, machine.cluster.host
    try:
        gpus, wanted = gpus_here(), machine.ranks
        ranks = wanted if gpus >= wanted or options.ranks else min(wanted, max(cores(), 1))
        images = measure_images(options.folder, ranks, gpu=gpus >= ranks, note=machine.note)
    except LabError as problem:
        figure = Figure(group="training", name="ResNet-50", unit="1/s")
        findings.checks.append(unmeasured(figure, str(problem)))
        return
    if host is not None:
        expected, basis = host.images.get(ranks), "measured before, on as many ranks"
    else:
        each, basis = machine.predict_images(machine.cluster, machine.client)
        expected = None if each is None else each * ranks
    checks, curves = training_checks(images, expected, basis, same=machine.is_measured)
    findings.checks += checks
    findings.curves += curves


_GROUPS: dict[str, Callable[[Machine, Findings], None]] = {
    "inventory": _inventory, "health": _health, "storage": _storage, "metadata": partial(_storage, group="metadata"),
    "network": _network, "ranks": _ranks, "training": _training,
}  # fmt: skip
