"""`podsim emulate`: a cluster scaled down to network namespaces of this machine, and a command run on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from podsim.answers.lab import Emulated
from podsim.errors import PodsimError
from podsim.lab.emulated_cluster import perform
from podsim.lab.emulated_links import EMULATED, emulated_cluster
from podsim.lab.port_counters import Injected
from podsim.options.measure_options import EmulateOptions
from podsim.options.output_options import NoOutput
from podsim.options.question import question


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
    if problems:
        raise PodsimError("; ".join(problems))
