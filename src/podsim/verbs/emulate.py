"""`podsim emulate`: a cluster scaled down to network namespaces of this machine, and a command run on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from podsim.lab.emulated_cluster import perform
from podsim.lab.emulated_links import EMULATED, emulated_cluster
from podsim.options.measure_options import EmulateOptions
from podsim.options.question import question


@question(EmulateOptions)
def emulate(options: EmulateOptions, *, own: Callable[[Sequence[str]], int] | None = None) -> int:
    """Exit status of a command that every rank of the emulated cluster runs, as under torchrun.

    The cluster's bandwidths times `scale` are the rates of the links. `own` runs a command of podsim in the rank's
    process, where PyTorch is loaded; by default it is run as any other command.

    Raises ClusterError for a cluster that cannot be emulated, LabError where this machine does not allow it.
    """
    links = emulated_cluster(
        options.cluster, scale=options.scale, per=options.per, overrides=options.overrides
    )
    words = list(options.command)
    return perform(links, words, own=own if words[:1] == ["podsim"] else None, variable=EMULATED)
