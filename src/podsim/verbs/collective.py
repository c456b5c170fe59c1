"""`podsim collective`: how long a collective takes on a cluster, as NCCL would run it or by the table of an algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from podsim.errors import ClusterError, PodsimError
from podsim.hardware.cluster import Cluster
from podsim.hardware.fabrics import Fabric, fabric_of
from podsim.network.bus import bus_factor
from podsim.network.collectives import Table, summary
from podsim.network.collectives.lookup import all_tables, table_of
from podsim.network.nccl import choice
from podsim.network.nccl_table import nccl_fabric, nccl_table
from podsim.network.sizes import DIVIDED, ELEMENT, NCCL_NAMES, collective_name, read_sizes
from podsim.network.table_cost import link_cost
from podsim.options.machine_options import CollectiveOptions
from podsim.options.question import question
from podsim.results.comparison import Comparison
from podsim.results.sweep import AlgorithmRow, Sweep, Timed
from podsim.verbs.fabric import given_cluster, read_server

if TYPE_CHECKING:
    from podsim.network.play import Prepared

_SWITCHES_ADD = ("hopper", "blackwell")
"""architectures whose NVSwitches reduce (NVLS)"""


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where it runs."""

    cluster: Cluster | None
    server: Fabric | None = None
    """The links of one server that a file described, where there is no cluster."""
    machine: str
    ranks: int
    local: int

    @cached_property
    def fabric(self) -> Fabric:
        """Every link; laid out only where a table of transfers is costed or played."""
        if self.server is not None:
            return self.server
        assert self.cluster is not None
        return fabric_of(self.cluster)

    @property
    def nodes(self) -> int:
        return self.ranks // self.local


@question(CollectiveOptions)
def collective(options: CollectiveOptions) -> Sweep | Comparison:
    """Seconds and bandwidths of a collective over sizes; or, with `against`, predictions against a log of nccl-tests.

    `on` may also be a value: load_cluster("dgx-a100:4").without("node0/nic2"). `sizes` may also be B, one or several.
    `algo` may also be a Table; tables are costed step by step on the cluster's links. With `simulate`, the table is
    played on the links with contention; of nccl, it is the table that NCCL chose at each size. With `against`, the log
    says how ranks were launched and which NCCL ran.

    A table's times are of the links alone: no kernel launch, no protocol. Raises PodsimError for what makes no sense.
    """
    if options.against is not None:
        from podsim.verbs.collective_against import against_log  # it brings the room of measured tables

        others = ("sizes", "topology", "simulate", "compare", "ranks")
        if unused := [name for name in others if getattr(options, name)]:
            raise PodsimError(
                f"--against compares what a log measured; {', '.join(unused)} cannot be given with it"
            )
        if options.algo != "nccl":
            raise PodsimError("--against compares with what NCCL would do; --algo cannot be given with it")
        return against_log(
            options.against,
            on=options.on,
            collective=options.collective,
            launch=options.launch,
            nccl=options.nccl,
            overrides=options.overrides,
        )
    if not options.collective:
        raise PodsimError("name a collective, such as all-reduce, or give a log with --against")
    name = collective_name(options.collective)
    launch, nccl = options.launch or "process", options.nccl or "2.18"
    setting = _place(options.on, options.topology, options.ranks, options.overrides)
    sizes = read_sizes(options.sizes, name, setting.ranks)
    if options.algo == "nccl":
        rows, how = _nccl_rows(setting, name, sizes, launch, nccl, options.simulate)
    else:
        rows, how = _table_rows(setting, name, sizes, options.algo, options.simulate)
    algorithms, left_out = _compared(setting, name, sizes, options.simulate) if options.compare else ((), {})
    return Sweep(
        collective=name, machine=setting.machine, gpu=_gpu(setting), ranks=setting.ranks, ranks_per_node=setting.local,
        launch=launch, version=nccl, how=how, rows=rows, algorithms=algorithms, left_out=left_out,
    )  # fmt: skip


def _gpu(setting: _Place) -> str:
    """What holds the data, by name; empty where a file of links does not tell."""
    if setting.cluster is None:
        return ""
    return "CPU" if setting.cluster.gpu.architecture == "cpu" else setting.cluster.gpu.name


def _place(
    on: str | Cluster, topology: Path | None, ranks: int | None, overrides: Mapping[str, str] | None
) -> _Place:
    if bool(on) == (topology is not None):
        given = "both --on and" if on else "neither --on nor"
        raise PodsimError(f"{given} --topology given; one of them says where it runs")
    if topology is not None:
        if overrides:
            raise PodsimError("--topology: a server read from a file cannot be changed by keys")
        fabric = read_server(topology)
        count = _count(ranks, fabric.gpus, str(topology)[-80:])
        return _Place(cluster=None, server=fabric, machine=fabric.name, ranks=count, local=count)
    available = given_cluster(on, overrides)
    cluster = available.subset(_count(ranks, available.gpus, available.name))
    local = min(cluster.gpus, cluster.gpus_per_node)
    machine = "; ".join(
        [
            cluster.name,
            *(f"{part} at {left:.0%}" if left else f"{part} broken" for part, left in cluster.faults),
        ]
    )
    return _Place(cluster=cluster, machine=machine, ranks=cluster.gpus, local=local)


def _count(ranks: int | None, most: int, name: str) -> int:
    count = most if ranks is None else ranks
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= most:
        raise ClusterError(f"ranks={count!r}: {name} has GPUs for 1 to {most} ranks")
    return count


def _nccl_rows(
    setting: _Place, name: str, sizes: tuple[int, ...], launch: str, version: str, simulate: bool
) -> tuple[tuple[Timed, ...], str]:
    if setting.cluster is None:
        raise PodsimError(
            "a topology file gives links, not what NCCL costs on them; name an algorithm, as --algo ring"
        )
    if name not in NCCL_NAMES:
        raise PodsimError(f"NCCL has no {name}; name an algorithm, as --algo direct")
    if setting.cluster.faults and not simulate:
        raise PodsimError(
            f"{setting.machine}: NCCL's closed form knows nothing of broken or slow links; simulate=True plays its "
            "tables on what is left, and algorithms by name are costed on it"
        )
    cluster, play_choice = setting.cluster, _Player(setting, name)
    rows = []
    for size in sizes:
        picked = choice(
            NCCL_NAMES[name], size, cluster, ranks=setting.ranks, ranks_per_node=setting.local, sharing=1,
            launch=launch, version=version,
        )  # fmt: skip
        seconds = play_choice(picked.algorithm, picked.protocol, size) if simulate else picked.seconds
        rows.append(_timed(setting, name, size, seconds, picked.algorithm, picked.protocol, picked.channels))
    sends = ", every rank sending to the next" if name == "send-recv" else ""
    if simulate:
        how = f"the tables that NCCL {version} would choose, simulated on the links at its wire efficiency{sends}"
    elif cluster.host is not None:
        how = "what its ranks were measured to take"
    else:
        how = f"what NCCL {version} would run and cost{sends}"
    return tuple(rows), how


class _Player:
    """Seconds of NCCL's choices by simulation; each table is prepared once."""

    def __init__(self, setting: _Place, name: str) -> None:
        self.place, self.name = setting, name
        self.ready: dict[tuple[str, str], Prepared] = {}

    def __call__(self, algorithm: str, protocol: str, size: int) -> float:
        from podsim.network.play import play, prepare

        setting = self.place
        if algorithm == "none" or setting.cluster is None:
            return 0.0
        if (algorithm, protocol) not in self.ready:
            table = nccl_table(self.name, algorithm, nodes=setting.nodes, local=setting.local)
            links = nccl_fabric(
                setting.fabric, setting.cluster, NCCL_NAMES[self.name], algorithm, protocol, ranks=setting.ranks,
                ranks_per_node=setting.local,
            )  # fmt: skip
            self.ready[algorithm, protocol] = prepare(table, _with_switch(table, links, setting), fold=True)
        return play(self.ready[algorithm, protocol], size).seconds


def _with_switch(table: Table, fabric: Fabric, setting: _Place) -> Fabric:
    """The fabric as the table numbers it: its switch, if it has one, is the first NVSwitch of the server.

    Raises PodsimError where no switch reduces.
    """
    if not table.switches:
        return fabric
    architecture = setting.cluster.gpu.architecture if setting.cluster else ""
    if setting.nodes > 1 or not fabric.count("nvswitch") or architecture not in _SWITCHES_ADD:
        raise PodsimError(
            f"{table.name}: no switch of {setting.machine} adds what it receives; NVSwitches of Hopper and Blackwell "
            "servers do, and switches between servers are not modelled"
        )
    return fabric.placed([*range(table.ranks), fabric.end("nvswitch")])


def _table_rows(
    setting: _Place, name: str, sizes: tuple[int, ...], algo: str | Table, simulate: bool
) -> tuple[tuple[Timed, ...], str]:
    table = table_of(algo, name, setting.nodes, setting.local)
    seconds = _seconds(table, setting, sizes, simulate)
    rows = tuple(
        _timed(setting, name, size, time, table.name) for size, time in zip(sizes, seconds, strict=True)
    )
    how = "simulated on the links" if simulate else "costed step by step on the links"
    sends = ", rank 0 sending to rank 1" if isinstance(algo, str) and table.name == "send-recv" else ""
    return rows, f"the table {table.name!r} {how}{sends}; no kernel launch, no protocol"


def _seconds(table: Table, setting: _Place, sizes: tuple[int, ...], simulate: bool) -> tuple[float, ...]:
    fabric = _with_switch(table, setting.fabric, setting)
    if simulate:
        from podsim.network.play import play, prepare

        ready = prepare(table, fabric, fold=True)
        return tuple(play(ready, size).seconds for size in sizes)

    cost = link_cost(table, fabric)
    return tuple(cost.latency + cost.per_byte * size for size in sizes)


def _compared(
    setting: _Place, name: str, sizes: tuple[int, ...], simulate: bool
) -> tuple[tuple[AlgorithmRow, ...], dict[str, str]]:
    """All algorithms, fastest at the largest size first; and those left out, with the reason."""
    tables, left_out = all_tables(name, setting.nodes, setting.local)
    rows = []
    for table in tables:
        try:
            seconds = _seconds(table, setting, sizes, simulate)
        except PodsimError as problem:
            left_out[table.name] = str(problem)
            continue
        counts = summary(table, float(sizes[-1]))
        rows.append(AlgorithmRow(
            name=table.name, rounds=counts.rounds, transfers=counts.transfers, sent=counts.sent_most, peak=counts.peak,
            fan_in=counts.fan_in, seconds=seconds,
        ))  # fmt: skip
    return tuple(sorted(rows, key=lambda row: row.seconds[-1])), left_out


def _timed(
    setting: _Place,
    name: str,
    size: int,
    seconds: float,
    algorithm: str,
    protocol: str = "",
    channels: int = 0,
) -> Timed:
    speed = size / seconds if seconds > 0 else 0.0
    parts = setting.ranks if name in DIVIDED else 1
    factor = float(bus_factor(name, setting.ranks))
    return Timed(
        size=float(size), count=size // ELEMENT // parts, seconds=seconds, algorithm_bandwidth=speed,
        bus_bandwidth=speed * factor, algorithm=algorithm, protocol=protocol, channels=channels,
    )  # fmt: skip
