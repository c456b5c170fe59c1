"""`podsim emulate`: a cluster scaled down to network namespaces of this machine, and a command run on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path

from podsim.answers.lab import Emulated
from podsim.errors import raise_all
from podsim.lab.emulated_cluster import perform
from podsim.lab.emulated_links import EMULATED, emulated_cluster
from podsim.lab.port_counters import Injected
from podsim.options.output_options import NoOutput
from podsim.options.question import factors, like, option, overrides_option, question
from podsim.options.step_options import SimulateOptions


@dataclass(frozen=True, kw_only=True)
class EmulateOptions:
    """A cluster of network namespaces, and what runs on it."""

    cluster: str = option(MISSING, "Cluster: dgx-a100:2, or a TOML file.", argument=True)
    command: Sequence[str] = option(
        MISSING,
        "After --: what every rank runs, as under torchrun.",
        metavar="-- COMMAND...",
        argument=True,
    )
    scale: str = option("1/1000", "Share of the cluster's bandwidths: 1/500.")
    per: str = option("gpu", "gpu or server: what is one process.")
    save: Path | None = option(None, "File that keeps what every port carried, for podsim why.")
    slow_link: Mapping[int, float] | None = like(SimulateOptions, "slow_link")
    flap: Mapping[int, float] | None = like(SimulateOptions, "flap")
    swap: Mapping[int, float] | None = like(SimulateOptions, "swap")
    slow_disk: Mapping[int, float] | None = like(
        SimulateOptions, "slow_disk", "A slow disk, e.g. RANK=4: checkpoints take 4 times as long. Repeatable.",
        read=factors("rank", "1=4"),
    )  # fmt: skip
    overrides: Mapping[str, str] | None = overrides_option("network.bandwidth=100Gb/s")


@question(
    EmulateOptions,
    ask="cli.emulation:emulated_status",
    output=NoOutput,
    status=int,
)
def emulate(options: EmulateOptions, *, own: Callable[[Sequence[str]], int] | None = None) -> int:
    """Exit status of a command that every rank of the emulated cluster runs, as under torchrun.

    The cluster's bandwidths times `scale` are the rates of the links. `own` runs a command of podsim in the rank's
    process, where PyTorch is loaded; by default it is run as any other command.

    Raises ClusterError for a cluster that cannot be emulated, LabError where this machine does not allow it.
    """
    links = emulated_cluster(
        options.cluster, scale=options.scale, per=options.per, overrides=options.overrides
    )
    injected = Injected(
        slow_link=dict(options.slow_link or {}), flap=dict(options.flap or {}), slow_disk=dict(options.slow_disk or {}),
        swap={rank: int(other) for rank, other in (options.swap or {}).items()},
    )  # fmt: skip
    _check(injected, links)
    words = list(options.command)
    return perform(
        links,
        words,
        own=own if words[:1] == ["podsim"] else None,
        variable=EMULATED,
        injected=injected,
        save=options.save,
    )


def _check(injected: Injected, links: Emulated) -> None:
    """Raise PodsimError for ranks that do not exist, and for impossible faults."""
    ranks = {
        *injected.slow_link,
        *injected.flap,
        *injected.slow_disk,
        *injected.swap,
        *injected.swap.values(),
    }
    problems = [
        f"rank {rank} does not exist; there are 0 to {links.ranks - 1}"
        for rank in sorted(ranks)
        if not 0 <= rank < links.ranks
    ]
    shares = {"slow link": injected.slow_link, "flapping adapter": injected.flap}
    problems += [
        f"{name} of rank {rank}: {share:g}; it must be above 0, below 1"
        for name, values in shares.items()
        for rank, share in values.items()
        if not 0 < share < 1
    ]
    problems += [
        f"slow disk of rank {rank}: {factor:g} times as long; it must be 1 to 1000"
        for rank, factor in injected.slow_disk.items()
        if not 1 <= factor <= 1000
    ]
    if injected.swap and links.servers == 1:
        problems.append("swap: cables of adapters need two servers or more")
    raise_all(problems)
