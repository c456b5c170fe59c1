"""The record of a simulated step: what every port of the fabric carried, when and for whom.

An exchange of a class of ranks has a rate over time, and a link's rate is the sum over the exchanges that cross it. A
queue stands at a link whose exchanges fill what it can carry. Rates come from the play, which shares adapters only;
`path_shares` gives it what switches leave to each rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.answers.telemetry import DEPTHS, PortRow, Telemetry
from podsim.axes import Floats, Ints
from podsim.hardware.cluster import Cluster
from podsim.hardware.fabrics import Fabric, fabric_of
from podsim.hardware.fabrics.wiring import ServerWiring
from podsim.simulation.events import Played
from podsim.simulation.lower import Lowered
from podsim.simulation.lower_links import Trouble
from podsim.simulation.pieces import Stream
from podsim.simulation.port_flows import (
    Exchanges,
    Flows,
    exchange_bytes,
    exchanges_of,
    flows_of,
    planned_fabric,
    port_of,
    through_hosts,
)  # fmt: skip
from podsim.training.plan import Plan

BINS = 96
MOST_PORTS = 640
"""The ports of a kind that have rows of their own."""
_GRID = 4096
_FULL = 0.98
"""The share of what a link can carry from which on transfers wait for it."""
_TOKEN = 4.0
"""B. The size of a token in a file of samples."""
_DISK = 2e9
"""B/s. The rate at which a server reads samples, if the catalog has no storage adapter."""


def step_telemetry(
    cluster: Cluster, plan: Plan, lowered: Lowered, played: Played, trouble: Trouble, job: str
) -> Telemetry:
    """The record of a simulated step; `trouble` shapes what ports carry and is not written down."""
    fabric = planned_fabric(cluster, trouble.swap)
    exchanges = exchanges_of(lowered, played, plan, cluster)
    flows = through_hosts(flows_of(exchanges, lowered, plan, cluster, fabric), cluster, fabric, trouble.hosts)
    rows: list[PortRow] = []
    ports = 0
    if len(flows.links):
        loads = _Loads(fabric, exchanges, flows, played.seconds, _real_capacity(fabric, cluster, trouble))
        rows, ports = loads.rows(), len(loads.used)
        rows = _with_faults(rows, fabric_of(cluster), cluster, trouble)
    return Telemetry(
        source="simulated", job=job, seconds=played.seconds, step_time=played.seconds, bins=BINS, ports=ports,
        rows=(
            *rows, *_laps(lowered, played, trouble, cluster),
            *_storage_rows(cluster, plan, float(plan.length(lowered.ready.model)), played.seconds, trouble),
        ),
    )  # fmt: skip


def ranges_text(numbers: Sequence[int] | Ints) -> str:
    """Numbers as text: "0-7,12"; the first eight ranges of more."""
    ordered = np.unique(np.asarray(numbers, np.int64))
    runs = np.split(ordered, np.flatnonzero(np.diff(ordered) > 1) + 1) if len(ordered) else []
    texts = [f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs]
    return ",".join(texts[:8] + ["…"] * (len(texts) > 8))


class _Loads:
    """The load of every link that carried something."""

    def __init__(
        self, fabric: Fabric, exchanges: Exchanges, flows: Flows, seconds: float, real: Floats
    ) -> None:
        """`real`: B/s that each link can carry."""
        self.fabric, self.exchanges, self.flows, self.real = fabric, exchanges, flows, real
        times = np.unique(np.concatenate([exchanges.start, exchanges.end, [0.0, seconds]]))
        most = min(_GRID, max(4_000_000 // len(exchanges.keys), 64))
        if len(times) > most:
            times = np.unique(np.quantile(times, np.linspace(0.0, 1.0, most)))
        self.width = np.maximum(np.diff(times), 1e-12)
        self.rate = exchange_bytes(exchanges, times) / self.width
        self.binned = exchange_bytes(exchanges, np.linspace(0.0, seconds, BINS + 1))
        flow = np.repeat(np.arange(len(flows.key)), np.diff(flows.indptr))
        order = np.argsort(flows.links, kind="stable")
        self.used, first = np.unique(flows.links[order], return_index=True)
        self.flows_of = np.split(flow[order], first[1:])
        total = self.binned.sum(axis=1)
        self.bytes = np.bincount(np.searchsorted(self.used, flows.links), total[flows.key[flow]])

    def rows(self) -> list[PortRow]:
        """The rows of the busiest ports, and sums of the others by kind."""
        rows: list[PortRow] = []
        rest: dict[str, Floats] = {}
        listed: dict[str, int] = {}
        for position in np.argsort(-self.bytes, kind="stable").tolist():
            kind = self.fabric.kind(int(self.used[position]))
            listed[kind] = listed.get(kind, 0) + 1
            if listed[kind] <= MOST_PORTS:
                rows += self._port(position)
                continue
            rest[kind] = rest.get(kind, 0.0) + self.binned[self.flows.key[self.flows_of[position]]].sum(
                axis=0
            )
        return rows + [
            PortRow(port=f"other {kind} ports", kind=kind, values=_four_digits(values))
            for kind, values in rest.items()
        ]

    def _port(self, position: int) -> Iterator[PortRow]:
        """The row of a port, and those of its owners."""
        link, mine = int(self.used[position]), self.flows_of[position]
        keys, count = np.unique(self.flows.key[mine], return_counts=True)
        moving = self.rate[keys] > 0.0
        rate, depth = count @ self.rate[keys], count @ moving
        capacity, kind = float(self.fabric.capacity[link]), self.fabric.kind(link)
        busy = rate > 0.0
        waits = busy & (rate >= _FULL * self.real[link])
        tenth = (
            np.minimum((rate / capacity * 10).astype(np.int64), 9)
            if capacity
            else np.zeros(len(rate), np.int64)
        )
        deep = np.where(waits, np.searchsorted(DEPTHS, depth, side="right") - 1, 0)
        queued = float(self.width[waits].sum())
        name, neighbour = port_name(self.fabric, link)
        yield PortRow(
            port=name, kind=kind, ranks=ranges_text(self.flows.source[mine]), capacity=capacity, neighbour=neighbour,
            values=_four_digits(count @ self.binned[keys]), busy=float(self.width[busy].sum()),
            utilisation=_four_digits(np.bincount(tenth[busy], self.width[busy], 10)),
            queue=_four_digits(np.bincount(deep[busy], self.width[busy], len(DEPTHS))),
            queued_rate=float(rate[waits] @ self.width[waits]) / queued if queued else 0.0,
        )  # fmt: skip
        owners: dict[tuple[str, int], list[int]] = {}
        for row, key in enumerate(keys.tolist()):
            _, collective, _, group = self.exchanges.keys[key]
            owners.setdefault((collective, group), []).append(row)
        for (collective, group), those in owners.items():
            micro = self.exchanges.micro[np.isin(self.exchanges.key, keys[those])] if group else None
            yield PortRow(
                port=name, kind=kind, collective=collective, values=_four_digits(count[those] @ self.binned[keys[those]]),
                ranks=ranges_text(self.flows.source[mine[np.isin(self.flows.key[mine], keys[those])]]),
                micro_batches=() if micro is None else (int(micro.min()), int(micro.max())),
            )  # fmt: skip


def port_name(fabric: Fabric, link: int) -> tuple[str, str]:
    """(name of the port of a link, name of the part at the other end of its cable)."""
    tail, head = fabric.link_ends(link)
    if fabric.kind(link) != "adapter":
        return f"{tail}>{head}{_cable(fabric, link)}", ""
    return (f"{tail} out", head) if "/" in tail else (f"{head} in", tail)


def _cable(fabric: Fabric, link: int) -> str:
    """Which of several equal cables a link between switches is."""
    wiring = fabric.wiring
    if not isinstance(wiring, ServerWiring) or not wiring.networks:
        return ""
    first, tree = wiring.first_link[0], wiring.networks[0].tree
    if fabric.kind(link) == "leaf" and tree.multiple > 1:
        return f" cable {(link - first - tree.first['leaf_up']) % tree.uplinks // tree.spines}"
    return f" cable {link - first - tree.first['core_up']}" if fabric.kind(link) == "spine" else ""


def _four_digits(values: NDArray[Any]) -> tuple[float, ...]:
    """Four significant digits of each value; nothing at the end if only zeros follow."""
    full = np.flatnonzero(values)
    return tuple(float(f"{value:.4g}") for value in values[: full[-1] + 1].tolist()) if len(full) else ()


def _real_capacity(fabric: Fabric, cluster: Cluster, trouble: Trouble) -> Floats:
    """B/s that each link can carry, slow adapters counted."""
    real = fabric.capacity.copy()
    wiring = fabric.wiring
    slow = trouble.left
    if slow and isinstance(wiring, ServerWiring) and wiring.networks:
        tree, per = wiring.networks[0].tree, len(wiring.networks[0].ports)
        sharing = max(cluster.gpus_per_node // per, 1)
        for rank, share in slow.items():
            for way in ("port_up", "port_down"):
                link = wiring.first_link[0] + tree.first[way] + port_of(cluster, rank, per)
                real[link] *= 1.0 - (1.0 - share) / sharing
    return real


def _with_faults(rows: list[PortRow], planned: Fabric, cluster: Cluster, trouble: Trouble) -> list[PortRow]:
    """The rows with what the counters and cables of their ports say."""
    wiring = planned.wiring
    if not isinstance(wiring, ServerWiring) or not wiring.networks:
        return rows
    tree, per = wiring.networks[0].tree, len(wiring.networks[0].ports)
    parts = [wiring.node.parts[int(part)].name for part in wiring.networks[0].ports]
    names = {
        f"node{port // per}/{parts[port % per]}": tree.leaf_name(int(tree.leaf[port])) for port in range(tree.ports)
    }  # fmt: skip
    ports, owners = list(names), dict[str, list[int]]()
    for rank in range(cluster.nodes * cluster.gpus_per_node):
        owners.setdefault(ports[port_of(cluster, rank, per)], []).append(rank)
    flapping = {ports[port_of(cluster, rank, per)]: share for rank, share in trouble.flap.items()}
    rng = np.random.default_rng(trouble.seed)
    out = []
    for row in rows:
        part = row.port.split(" ")[0]
        if row.kind != "adapter" or part not in owners:
            out.append(row)
            continue
        known = replace(row, expected=names[part], owner=ranges_text(owners[part]))
        up = rng.random(len(row.values)) >= flapping.get(part, 0.0)
        if not up.all():
            values = np.array(row.values) * up
            scale = row.bytes / values.sum() if values.sum() else 0.0
            downs = 0 if row.collective else 1 + int(np.sum(~up))
            known = replace(known, values=_four_digits(values * scale), downs=downs)
        out.append(known)
    return out


def _laps(lowered: Lowered, played: Played, trouble: Trouble, cluster: Cluster) -> Iterator[PortRow]:
    """The seconds that each class computes for each micro-batch; peers have the same stage and the same GPU."""
    label, count = lowered.classes.label.ravel(), int(lowered.micro.max(initial=0)) + 1
    for c in range(lowered.classes.count):
        ops = slice(int(lowered.base[c]), int(lowered.base[c + 1]))
        micro, compute = lowered.micro[ops], lowered.ops.stream[ops] % len(Stream) == Stream.COMPUTE
        chosen = compute & (micro >= 0)
        taken = (played.end[ops] - played.start[ops])[chosen]
        ranks = np.flatnonzero(label == c)
        gpu = trouble.nodes.get(int(ranks[0]) // cluster.gpus_per_node, "")
        peers = f"stage {int(lowered.classes.first[c, 0])}{f' on {gpu}' if gpu else ''}"
        yield PortRow(
            port=f"rank {ranks[0]}", kind="compute", collective=peers,
            ranks=ranges_text(ranks), values=_four_digits(np.bincount(micro[chosen], taken, count)),
        )  # fmt: skip


def _storage_rows(
    cluster: Cluster, plan: Plan, length: float, seconds: float, trouble: Trouble
) -> Iterator[PortRow]:
    """The samples that each server reads during the step for the next one; `length`: tokens of one."""
    per, ranks = cluster.gpus_per_node, int(plan.gpus)
    servers = -(-ranks // per)
    size = float(plan.global_batch) / servers * length * _TOKEN
    nic = cluster.system.storage_nic
    rng = np.random.default_rng(trouble.seed + 1)
    for server in range(min(servers, MOST_PORTS)):
        capacity = nic.bandwidth if nic else _DISK
        rate = capacity / trouble.disk.get(server, 1.0) * float(np.exp(0.05 * rng.standard_normal()))
        busy = min(size / rate, seconds)
        full = np.clip(busy / (seconds / BINS) - np.arange(BINS), 0.0, 1.0)
        yield PortRow(
            port=f"node{server}/storage in", kind="storage", capacity=capacity, busy=busy,
            ranks=ranges_text(range(server * per, min((server + 1) * per, ranks))), queued_rate=rate,
            queue=(0.0, busy), values=_four_digits(full / max(full.sum(), 1e-30) * size),
        )  # fmt: skip
