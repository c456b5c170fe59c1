"""The rows of a sweep: a collective at each size, by NCCL's choice or by a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from podsim.answers.answer import call
from podsim.answers.sweep import AlgorithmRow, Timed
from podsim.errors import ClusterError, PodsimError
from podsim.hardware.cluster import Cluster
from podsim.hardware.cluster_names import enough_nodes
from podsim.hardware.fabrics import Fabric, fabric_of
from podsim.hardware.fabrics.wiring import ServerWiring
from podsim.hardware.machine_input import given_cluster, read_server
from podsim.network.aggregation import aggregation_links, aggregation_table, aggregation_tree
from podsim.network.bus import bus_factor
from podsim.network.collective_settings import CollectiveSettings
from podsim.network.collectives import Table, summary
from podsim.network.collectives.direct import shift
from podsim.network.collectives.lookup import all_tables, table_of
from podsim.network.collectives.tori import Axes
from podsim.network.nccl import Choice, choice
from podsim.network.nccl_table import nccl_fabric, nccl_table, reduction_shares, switch_tree_rates
from podsim.network.play_links import Fabric as PlayedFabric
from podsim.network.sizes import DIVIDED, ELEMENT, NCCL_NAMES
from podsim.network.switch_trees import switch_trees
from podsim.network.table_cost import link_cost
from podsim.network.torus_cost import RINGS
from podsim.records import dataclass, replace

_HIERARCHICAL = "hierarchical"
_SWITCHES_ADD = ("hopper", "blackwell")
"""architectures whose NVSwitches reduce (NVLS)"""


@dataclass(frozen=True, kw_only=True)
class SweepSetting:
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

    @cached_property
    def axes(self) -> Axes | None:
        """The axes of the torus that joins the ranks, if one does."""
        links = self.cluster.system.torus if self.cluster else None
        return Axes(links.shape, links.wraps, self.nodes) if links else None

    @property
    def nodes(self) -> int:
        """The number of nodes that the ranks fill."""
        return self.ranks // self.local

    @property
    def gpu(self) -> str:
        """What holds the data, by name; empty where a file of links does not tell."""
        if self.cluster is None:
            return ""
        return "CPU" if self.cluster.gpu.architecture == "cpu" else self.cluster.gpu.name


def sweep_setting(
    on: str | Cluster, topology: Path | None, ranks: int | None, overrides: Mapping[str, str] | None
) -> SweepSetting:
    """Where a collective runs: on ranks of a cluster, or on a server that a file describes.

    Raises PodsimError where both or neither are given, and for what the machine does not have.
    """
    if bool(on) == (topology is not None):
        given = "both --on and" if on else "neither --on nor"
        error = PodsimError(f"{given} --topology given; one of them says where it runs")
        raise error if on else error.offer(on="h100")
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


def nccl_rows(
    setting: SweepSetting, name: str, sizes: tuple[int, ...], settings: CollectiveSettings, simulate: bool
) -> tuple[tuple[Timed, ...], str]:
    """Rows of a sweep as NCCL would run it with all these settings, and a sentence on the method.

    Each row has the range of its time over the values of assumed settings; a simulation has none.
    """
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
    cluster, version = settings.on(setting.cluster), str(settings.release)
    play_choice = _Player(replace(setting, cluster=cluster), name)
    rows = []
    for size in sizes:
        picked = _nccl_choice(name, size, setting, settings)
        seconds = play_choice(picked, size) if simulate else picked.seconds
        row = _timed_row(setting, name, size, seconds, picked.algorithm, picked.protocol, picked.channels)
        rows.append(row if simulate or cluster.host else _with_range(row, name, setting, settings))
    sends = ", every rank sending to the next" if name == "send-recv" else ""
    if setting.axes is not None:
        links = "played on its links" if simulate else "the closed form of its links"
        how = f"rings along the axes of the torus, exchanges pair by pair, {links}{sends}"
    elif simulate:
        how = f"what NCCL {version} would run, its transfers simulated on the links at its wire efficiency{sends}"
    elif cluster.host is not None:
        how = "what its ranks were measured to take"
    else:
        how = f"what NCCL {version} would run and cost{sends}"
    return tuple(rows), how


def _nccl_choice(name: str, size: float, setting: SweepSetting, settings: CollectiveSettings) -> Choice:
    """NCCL's choice for one size."""
    assert setting.cluster is not None
    return choice(
        NCCL_NAMES[name], size, setting.cluster, ranks=setting.ranks, ranks_per_node=setting.local, sharing=1,
        settings=settings,
    )  # fmt: skip


def _with_range(row: Timed, name: str, setting: SweepSetting, settings: CollectiveSettings) -> Timed:
    """The row with the least and the longest time over the alternatives of its settings."""
    others = settings.alternatives()
    if len(others) < 2:
        return row
    seconds = [_nccl_choice(name, row.size, setting, other).seconds for other in others]
    return replace(row, low=min(seconds), high=max(seconds))


def _without_twist(cluster: Cluster) -> Cluster:
    """The cluster without the twist of its torus: its rings are those of the plain one."""
    links = cluster.system.torus
    assert links is not None
    return replace(cluster, system=replace(cluster.system, torus=replace(links, twisted=False)))


class _Player:
    """Seconds of NCCL's choices by simulation; each table is prepared once."""

    def __init__(self, setting: SweepSetting, name: str) -> None:
        self.setting, self.name = setting, name
        self.players: dict[tuple[str, str, float], Callable[[int], float]] = {}

    def __call__(self, picked: Choice, size: int) -> float:
        if picked.algorithm == "none" or self.setting.cluster is None:
            return 0.0
        key = picked.algorithm, picked.protocol, picked.ceiling
        if key not in self.players:
            table, links = self._table_and_links(picked)
            self.players[key] = _table_player(table, links if self.setting.axes else _without_latency(links))
        played = self.players[key](size)
        return played if self.setting.axes else picked.over_wires(size, played)

    def _table_and_links(self, picked: Choice) -> tuple[Table, PlayedFabric]:
        """The table of NCCL's choice, and the links at its wire efficiency."""
        setting, algorithm, protocol = self.setting, picked.algorithm, picked.protocol
        assert setting.cluster is not None
        rates = {"ranks": setting.ranks, "ranks_per_node": setting.local}
        if algorithm == "collnet":
            tree = aggregation_tree(setting.fabric, setting.cluster)
            return aggregation_table(tree), aggregation_links(
                tree, *reduction_shares(setting.cluster, 1 / picked.candidate.per_byte, **rates)
            )
        if algorithm == "nvlstree":
            return switch_trees(setting.cluster, *switch_tree_rates(setting.cluster, **rates))
        if setting.axes is not None:
            algo = "shift" if self.name == "send-recv" else algorithm
            table = (
                shift(setting.ranks)
                if algo == "shift"
                else table_of(algo, self.name, setting.nodes, setting.local, setting.axes)
            )
            return table, fabric_of(_without_twist(setting.cluster) if algo == RINGS else setting.cluster)
        table = nccl_table(self.name, algorithm, nodes=setting.nodes, local=setting.local)
        links = nccl_fabric(
            setting.fabric, setting.cluster, NCCL_NAMES[self.name], algorithm, protocol, **rates
        )
        return table, _with_switch(table, links, setting)


def _without_latency(links: Any) -> PlayedFabric:
    """The links without latency, which the law of NCCL's choice counts."""
    free: PlayedFabric = replace(links, latency=np.zeros_like(links.latency))
    return free


def _with_switch(table: Table, fabric: Fabric, setting: SweepSetting) -> Fabric:
    """The fabric as the table numbers it: its switch, if it has one, is the first NVSwitch of the server.

    Raises PodsimError where no switch reduces.
    """
    if not table.switches:
        return fabric
    architecture = setting.cluster.gpu.architecture if setting.cluster else ""
    if setting.nodes > 1 or not fabric.count("nvswitch") or architecture not in _SWITCHES_ADD:
        raise PodsimError(
            f"{table.name}: no switch of {setting.machine} adds what it receives; NVSwitches of Hopper and Blackwell "
            "servers do. Between servers, --algo in-network is NCCL over switches with SHARP"
        )
    return fabric.placed([*range(table.ranks), fabric.end("nvswitch")])


def table_rows(
    setting: SweepSetting, name: str, sizes: tuple[int, ...], algo: str | Table, simulate: bool
) -> tuple[tuple[Timed, ...], str]:
    """Rows of a sweep of one algorithm by its table, and a sentence on the method."""
    player = _alike_player(algo, name, setting) if simulate else None
    if player is not None:
        seconds, algorithm = tuple(map(player, sizes)), _HIERARCHICAL
    else:
        table = table_of(algo, name, setting.nodes, setting.local, setting.axes)
        seconds, algorithm = _table_seconds(table, setting, sizes, simulate), table.name
    rows = tuple(
        _timed_row(setting, name, size, time, algorithm) for size, time in zip(sizes, seconds, strict=True)
    )
    how = "simulated on the links" if simulate else "costed step by step on the links"
    sends = ", rank 0 sending to rank 1" if isinstance(algo, str) and algorithm == "send-recv" else ""
    planes = _planes_text(setting)
    return rows, f"the table {algorithm!r} {how}{planes}{sends}; no kernel launch, no protocol"


def _alike_player(algo: str | Table, name: str, setting: SweepSetting) -> Callable[[float], float] | None:
    """Seconds of the hierarchical all-reduce, if it is asked for and the GPUs of the servers are alike."""
    if not isinstance(algo, str) or (name, algo.strip().lower()) != ("all-reduce", _HIERARCHICAL):
        return None
    if setting.axes:
        return None
    player: Callable[[float], float] | None = call(
        "network.alike_servers:hierarchical_player", setting.fabric, setting.nodes, setting.local
    )
    return player


def _planes_text(setting: SweepSetting) -> str:
    """What was chosen where the cores of the fabric have too few ports for all rails."""
    wiring = setting.fabric.wiring
    tree = wiring.networks[0].tree if isinstance(wiring, ServerWiring) and wiring.networks else None
    if tree is None or tree.planes == 1:
        return ""
    return f" ({tree.planes} planes, a rail each: {tree.switch_ports} ports cannot join {tree.groups} groups)"


def _table_player(table: Table, fabric: PlayedFabric) -> Callable[[int], float]:
    """Seconds of a table of a size in B, played on the links; the table is prepared once."""
    from podsim.network.play import play, prepare  # only --simulate needs it

    ready = prepare(table, fabric, fold=True)
    return lambda size: play(ready, size).seconds


def _table_seconds(
    table: Table, setting: SweepSetting, sizes: tuple[int, ...], simulate: bool
) -> tuple[float, ...]:
    fabric = _with_switch(table, setting.fabric, setting)
    if simulate:
        return tuple(map(_table_player(table, fabric), sizes))
    cost = link_cost(table, fabric)
    return tuple(cost.latency + cost.per_byte * size for size in sizes)


def algorithm_rows(
    setting: SweepSetting, name: str, sizes: tuple[int, ...], simulate: bool
) -> tuple[tuple[AlgorithmRow, ...], dict[str, str]]:
    """All algorithms, fastest at the largest size first; and those left out, with the reason."""
    tables, left_out = all_tables(name, setting.nodes, setting.local, setting.axes)
    rows = []
    for table in tables:
        try:
            seconds = _table_seconds(table, setting, sizes, simulate)
        except PodsimError as problem:
            left_out[table.name] = str(problem)
            continue
        counts = summary(table, float(sizes[-1]))
        rows.append(AlgorithmRow(
            name=table.name, rounds=counts.rounds, transfers=counts.transfers, sent=counts.sent_most, peak=counts.peak,
            fan_in=counts.fan_in, seconds=seconds,
        ))  # fmt: skip
    return tuple(sorted(rows, key=lambda row: row.seconds[-1])), left_out


def _timed_row(
    setting: SweepSetting,
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
