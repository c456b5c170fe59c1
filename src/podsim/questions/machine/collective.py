"""`podsim collective`: how long a collective takes on a cluster, as NCCL would run it or by the table of an algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podsim.answers.comparison import Comparison
from podsim.answers.sweep import Sweep
from podsim.errors import PodsimError
from podsim.network.collective_settings import ALGORITHMS, CollectiveSettings, setting_words
from podsim.network.collectives import Table
from podsim.network.send_budget import send_budget
from podsim.network.setting_rules import Run, check_settings
from podsim.network.settings_text import read_nics
from podsim.network.sizes import NCCL_NAMES, collective_name, read_sizes
from podsim.network.sweep_rows import algorithm_rows, nccl_rows, sweep_setting, table_rows
from podsim.options.output_options import PlotOutput
from podsim.options.question import option, overrides_option, question, reworded
from podsim.records import dataclass, replace

_IN_NETWORK = ("in-network", "in network", "sharp")
"""Names of reduction in the switches between nodes."""
_NCCL_ONLY = ("release", "protocol", "launch", "gpudirect", "sharp", "tuned")
"""Settings that a table of transfers does not have."""


@dataclass(frozen=True, kw_only=True)
class CollectiveOptions:
    """A collective on a network, and how it is timed."""

    collective: str = option(
        "",
        "all-reduce, all-gather, reduce-scatter, broadcast, reduce, all-to-all, send-recv, gather, scatter.",
        argument=True,
        also=("op", "operation"),
    )
    on: Any = option("", "Cluster: dgx-a100:4, selene, or a TOML file.", complete="clusters")
    sizes: Any = option(
        "",
        "FIRST:LAST:FACTOR (or +STEP), as nccl-tests counts; default to 16G, doubling.",
        also=("size", "bytes"),
    )
    algo: Any = option(
        "nccl",
        "nccl, an algorithm (ring, tree, in-network, …), FILE.py:FUNCTION. With --proto, --nccl or "
        "another of NCCL's settings: NCCL held to it.",
    )
    proto: str = option("", "Hold NCCL to ll, ll128 or simple; default its choice.")
    ranks: int | None = option(None, "GPUs that take part; default all.", also=("gpus", "world-size"))
    launch: str = option(
        "", "process (default) or thread for each GPU, or single process; with --against as in the log."
    )
    nccl: str = option("", "Release of NCCL, 2.4 to 2.30; default 2.18, with --against that of the log.")
    network: str = option(
        "", "infiniband, roce, efa-v1, efa-v2, tcpxo, tcpx, slingshot, sockets; default the cluster's."
    )
    nics: str = option("", "Adapters of a node that NCCL uses, e.g. 4 or 4x100Gb/s; default the cluster's.")
    gdr: bool | None = option(
        None, "GPUDirect: adapters reach the GPUs' memory; default where the network has it."
    )
    sharp: bool | None = option(None, "NCCL may reduce in the switches between nodes (SHARP, CollNet).")
    tuned: bool | None = option(None, "NCCL has a tuner, topology file or channels for this machine.")
    simulate: bool = option(
        False, "Simulate every transfer on the links, with contention.", flag="--simulate"
    )
    compare: bool = option(False, "All algorithms side by side.", flag="--compare")
    topology: Path | None = option(
        None, "Instead of --on: a server's NCCL topology XML, or nvidia-smi topo -m."
    )
    against: Path | None = option(None, "What nccl-tests printed, or its JSON: predicted against measured.")
    overrides: Mapping[str, str] | None = overrides_option("network.bandwidth=100Gb/s")


def _check(options: CollectiveOptions) -> None:
    """Raise PodsimError where no collective, or no machine, is named."""
    if options.against is None:
        collective_name(options.collective)
        sweep_setting(options.on, options.topology, options.ranks, options.overrides)


@question(
    CollectiveOptions,
    output=reworded(PlotOutput, "plot", "Draw time and bandwidth over size: FILE.svg or .png."),
    activity="timing the collective",
    reads=_check,
)
def collective(options: CollectiveOptions) -> Sweep | Comparison:
    """Seconds and bandwidths of a collective over sizes; or, with `against`, predictions against a log of nccl-tests.

    `on` may also be a value: load_cluster("dgx-a100:4").without("node0/nic2"). `sizes` may also be B, one or several.
    `algo` may also be a Table; tables are costed step by step on the cluster's links. With `simulate`, the table is
    simulated on the links with contention; of nccl, it is the table that NCCL chose at each size. With `against`, the log
    says how ranks were launched and which NCCL ran.

    A table's times are of the links alone: no kernel launch, no protocol. Raises PodsimError for what makes no sense.
    """
    if options.against is not None:
        return _against_log(options, options.against)
    if not options.collective:
        error = PodsimError("name a collective, such as all-reduce, or give a log with --against")
        raise error.offer(collective="all-reduce")
    name = collective_name(options.collective)
    setting = sweep_setting(options.on, options.topology, options.ranks, options.overrides)
    sizes = read_sizes(options.sizes, name, setting.ranks)
    stated = stated_settings(options, setting.nodes)
    settings = stated if setting.cluster is None else stated.assumed(setting.cluster)
    is_table = options.algo != "nccl" and (stated.algorithm is None or setting.cluster is None)
    has_no_settings = is_table or setting.axes is not None
    if has_no_settings and not is_table and stated.stated:
        raise PodsimError(
            f"{', '.join(stated.stated)}: of NCCL alone; {setting.machine} is a torus, which XLA drives"
        )
    if is_table:
        if unused := [name for name in stated.stated if name in _NCCL_ONLY]:
            raise PodsimError(
                f"{', '.join(unused)}: of NCCL alone; --algo {str(options.algo)[:40]} is a table. Leave --algo out, or "
                f"hold NCCL to {', '.join(ALGORITHMS[1:])}"
            )
        rows, how = table_rows(setting, name, sizes, options.algo, options.simulate)
    else:
        if setting.cluster is not None and setting.axes is None and name in NCCL_NAMES:
            check_settings(
                Run(
                    collective=NCCL_NAMES[name],
                    nodes=setting.nodes,
                    cluster=setting.cluster,
                    settings=settings,
                )
            )
        rows, how = nccl_rows(setting, name, sizes, settings, options.simulate)
    budget = None
    if name == "send-recv" and setting.cluster is not None and not (has_no_settings or options.simulate):
        budget = send_budget(setting.cluster, settings, setting.ranks, setting.local, float(sizes[-1]))
    algorithms, left_out = (
        algorithm_rows(setting, name, sizes, options.simulate) if options.compare else ((), {})
    )
    return Sweep(
        collective=name, machine=setting.machine, gpu=setting.gpu, ranks=setting.ranks, ranks_per_node=setting.local,
        launch=settings.launch or "process", version=settings.release or "2.18", how=how, rows=rows,
        algorithms=algorithms, left_out=left_out, settings={} if has_no_settings else setting_words(settings),
        assumed=() if has_no_settings else settings.assumptions, budget=budget,
    )  # fmt: skip


def _against_log(options: CollectiveOptions, log: Path) -> Comparison:
    """The comparison with a log; PodsimError for options that do not go with one."""
    from podsim.accuracy.nccl_comparison import against_log  # it brings the room of measured tables

    others = ("sizes", "topology", "simulate", "compare", "ranks")
    if unused := [name for name in others if getattr(options, name)]:
        raise PodsimError(
            f"--against compares what a log measured; {', '.join(unused)} cannot be given with it"
        )
    if options.algo != "nccl":
        raise PodsimError("--against compares with what NCCL would do; --algo cannot be given with it")
    return against_log(
        log,
        on=options.on,
        collective=options.collective,
        settings=stated_settings(options),
        overrides=options.overrides,
    )


def stated_settings(options: CollectiveOptions, nodes: int = 2) -> CollectiveSettings:
    """The settings of NCCL that options state. An algorithm is one of them if it is no table: see `_held_algorithm`."""
    nics, bandwidth = read_nics(options.nics) if options.nics else (None, None)
    settings = CollectiveSettings(
        release=options.nccl or None, protocol=options.proto.lower() or None, launch=options.launch or None, nics=nics,
        nic_bandwidth=bandwidth, network=options.network.lower() or None, gpudirect=options.gdr, sharp=options.sharp,
        tuned=options.tuned,
    )  # fmt: skip
    return replace(settings, **_held_algorithm(options.algo, settings, nodes))


def _held_algorithm(algo: str | Table, settings: CollectiveSettings, nodes: int) -> dict[str, Any]:
    """The algorithm that NCCL is held to: one that only NCCL has, or one that is named with another setting of NCCL.

    Inside one node, in-network is a table of NVSwitches; between nodes, NCCL's CollNet.
    """
    name = algo.strip().lower() if isinstance(algo, str) else ""
    if name == "collnet" or (nodes > 1 and name in _IN_NETWORK):
        return {"algorithm": "collnet", "sharp": settings.sharp is not False}
    if name in ALGORITHMS[1:] and (settings.stated or name not in ("ring", "tree")):
        return {"algorithm": name}
    return {}
