"""`podsim collective`: how long a collective takes on a cluster, as NCCL would run it or by the table of an algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from podsim.answers.comparison import Comparison
from podsim.answers.sweep import Sweep
from podsim.errors import ClusterError, PodsimError
from podsim.hardware.cluster import Cluster
from podsim.hardware.cluster_names import enough_nodes
from podsim.hardware.machine_input import given_cluster, read_server
from podsim.network.collective_settings import ALGORITHMS, CollectiveSettings, setting_words
from podsim.network.collectives import Table
from podsim.network.setting_rules import Run, check_settings
from podsim.network.settings_text import read_nics
from podsim.network.sizes import NCCL_NAMES, collective_name, read_sizes
from podsim.network.sweep_rows import SweepSetting, algorithm_rows, nccl_rows, table_rows
from podsim.options.machine_options import CollectiveOptions
from podsim.options.output_options import CollectiveOutput
from podsim.options.question import question

_IN_NETWORK = ("in-network", "in network", "sharp")
"""Names of reduction in the switches between nodes."""
_NCCL_ONLY = ("release", "protocol", "launch", "gpudirect", "sharp", "tuned")
"""Settings that a table of transfers does not have."""


@question(
    CollectiveOptions,
    output=CollectiveOutput,
    activity="timing the collective",
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
        raise PodsimError("name a collective, such as all-reduce, or give a log with --against")
    name = collective_name(options.collective)
    setting = _place(options.on, options.topology, options.ranks, options.overrides)
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
    algorithms, left_out = (
        algorithm_rows(setting, name, sizes, options.simulate) if options.compare else ((), {})
    )
    return Sweep(
        collective=name, machine=setting.machine, gpu=_gpu(setting), ranks=setting.ranks, ranks_per_node=setting.local,
        launch=settings.launch or "process", version=settings.release or "2.18", how=how, rows=rows,
        algorithms=algorithms, left_out=left_out, settings={} if has_no_settings else setting_words(settings),
        assumed=() if has_no_settings else settings.assumptions,
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


def _gpu(setting: SweepSetting) -> str:
    """What holds the data, by name; empty where a file of links does not tell."""
    if setting.cluster is None:
        return ""
    return "CPU" if setting.cluster.gpu.architecture == "cpu" else setting.cluster.gpu.name


def _place(
    on: str | Cluster, topology: Path | None, ranks: int | None, overrides: Mapping[str, str] | None
) -> SweepSetting:
    if bool(on) == (topology is not None):
        given = "both --on and" if on else "neither --on nor"
        raise PodsimError(f"{given} --topology given; one of them says where it runs")
    if topology is not None:
        if overrides:
            raise PodsimError("--topology: a server read from a file cannot be changed by keys")
        fabric = read_server(topology)
        count = _count(ranks, fabric.gpus, str(topology)[-80:])
        return SweepSetting(cluster=None, server=fabric, machine=fabric.name, ranks=count, local=count)
    available = given_cluster(on, overrides)
    if available.gpu.streams_weights:
        raise PodsimError(
            f"{available.name}: SwarmX adds up gradients while they stream, so wafers run no collectives; predict tells "
            "how long streams take"
        )
    per = available.gpus_per_node
    if isinstance(on, str) and isinstance(ranks, int) and ranks > available.gpus and ranks % per == 0:
        available = given_cluster(enough_nodes(on, ranks, per), overrides)
    cluster = available.subset(_count(ranks, available.gpus, available.name))
    local = min(cluster.gpus, cluster.gpus_per_node)
    machine = "; ".join(
        [
            cluster.name,
            *(f"{part} at {left:.0%}" if left else f"{part} broken" for part, left in cluster.faults),
        ]
    )
    return SweepSetting(cluster=cluster, machine=machine, ranks=cluster.gpus, local=local)


def _count(ranks: int | None, most: int, name: str) -> int:
    count = most if ranks is None else ranks
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= most:
        raise ClusterError(f"ranks={count!r}: {name} has GPUs for 1 to {most} ranks")
    return count
