"""The inside of the servers of the catalog, built from their numbers of parts.

    switches, boards of switches     DGX A100, DGX H100, DGX-2
    cables from GPU to GPU           DGX-1, DGX Station, pairs of cards with a bridge
    PCI Express only                 servers of cards
    a wafer                          its adapters

Layout of PCI Express: switches spread over the processors, with GPUs and adapters spread over the switches. A DGX A100
has four switches with two GPUs and two adapters each (topology/ndv4-topo.xml of Azure/azhpc-images). Storage adapters
and drives connect to the switches in turn, or to the processors, as the catalog says; a storage adapter has the ports
that its slot can feed. Unconfirmed: four GPUs share a switch in servers of cards; the processors of a rack's trays form
a chain at the rate of an adapter.
Rates are line rates; the cost laws give the share that software reaches. A message between GPUs over a PCIe switch
takes the latency of `Pcie`, one over NVLink that of the NVLink. The latency of the network includes the way to the
nearest adapter, so the adapter's cable takes the rest of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from podsim.errors import ClusterError, check_name
from podsim.hardware.fabrics.node import KINDS, Cable, Node, Part, even_cable
from podsim.hardware.nvlink import cube_mesh_lanes, cube_mesh_links, mesh_lanes, slot_link
from podsim.hardware.parts import Link, System


def server_node(system: System, *, nvlink: Link, network: Link, nics: int) -> Node:
    """The inside of a server, with the NVLinks and adapters of a cluster.

    The NVSwitch chips of a board count as one, and all NVLinks of a GPU as one port: NCCL spreads its channels over them.
    Raises ClusterError for an unknown topology.
    """
    if system.torus is not None:
        raise ClusterError(f"{system.name} is a torus of chips: it has no inside of a server")
    check_name("topology", system.topology, TOPOLOGIES, ClusterError)
    layout = _Layout(system, nics, network)
    cables = [*TOPOLOGIES[system.topology](system, nvlink), *layout.cables()]
    ends = {end: None for cable in cables for end in (cable.one, cable.other)}
    chips = [Part(name=end, kind="nvswitch") for end in ends if end.startswith("nvswitch")]
    parts = sorted((*layout.parts(), *chips), key=lambda part: KINDS.index(part.kind))
    return Node(name=system.name, parts=tuple(parts), cables=tuple(cables), source=system.source)


def _nvlink(tail: str, head: str, rate: float, latency: float, lanes: int) -> Cable:
    return even_cable(tail, head, "nvlink", rate, latency=latency, lanes=lanes)


def _nvswitch_cables(system: System, nvlink: Link) -> Iterator[Cable]:
    """The cables of NVSwitches: one board, or two joined chip by chip, where a GPU reaches the chips of one only."""
    boards = -(-system.nvswitches // max(system.gpu.nvlinks, 1)) if system.gpus > 8 else 1
    on_board, links = -(-system.gpus // boards), max(system.gpu.nvlinks, 1)
    chips = [f"nvswitch{board}" for board in range(boards)] if boards > 1 else ["nvswitch"]
    for gpu in range(system.gpus):
        yield _nvlink(f"gpu{gpu}", chips[gpu // on_board], nvlink.bandwidth, nvlink.latency / 2, links)
    for chip, next_chip in pairwise(chips):
        yield _nvlink(chip, next_chip, on_board * nvlink.bandwidth, 0.0, on_board * links)


def _cube_mesh_cables(system: System, nvlink: Link) -> Iterator[Cable]:
    """The cables of the DGX-1's hybrid cube mesh, or of its closest GPUs."""
    if system.gpus > 8:
        raise ClusterError(f"{system.name}: {system.gpus} GPUs in a cube mesh, which has 8")
    rate = nvlink.bandwidth / cube_mesh_links(system.gpus)
    for a, row in enumerate(cube_mesh_lanes(system.gpus)):
        for b, lanes in enumerate(row):
            if a < b and lanes:
                yield _nvlink(f"gpu{a}", f"gpu{b}", lanes * rate, nvlink.latency, lanes)


def _mesh_cables(system: System, nvlink: Link) -> Iterator[Cable]:
    """The cables of fully connected GPUs, each with an equal share of the NVLinks."""
    lanes = mesh_lanes(system)
    for a in range(system.gpus):
        for b in range(a + 1, system.gpus):
            yield _nvlink(f"gpu{a}", f"gpu{b}", nvlink.bandwidth / (system.gpus - 1), nvlink.latency, lanes)


def _pair_cables(system: System, nvlink: Link) -> Iterator[Cable]:
    """The cables of cards in pairs, with a bridge over all their NVLinks."""
    gpu = system.gpu
    for a in range(0, system.gpus - 1, 2):
        yield _nvlink(f"gpu{a}", f"gpu{a + 1}", gpu.nvlink, gpu.nvlink_latency, gpu.nvlinks)


def _no_cables(system: System, nvlink: Link) -> Iterator[Cable]:
    yield from ()


TOPOLOGIES: dict[str, Callable[[System, Link], Iterator[Cable]]] = {
    "nvswitch": _nvswitch_cables,
    "cube-mesh": _cube_mesh_cables,
    "nvlink-mesh": _mesh_cables,
    "nvlink-pair": _pair_cables,
    "pcie": _no_cables,
    "pcie-root": _no_cables,
    "wafer": _no_cables,
}
"""The NVLink cables of a server, by topology."""


_UNKNOWN_SOCKET = 62.4e9
"""B/s. The bandwidth between processors whose links are not known: three UPI links of 10.4 GT/s, as common since 2017."""


class _Layout:
    """The PCI Express of a server: the switch and the processor of each device."""

    def __init__(self, system: System, nics: int, network: Link) -> None:
        self.system, self.nics, self.network = system, nics, network
        self.bus = slot_link(system)
        self.cpus = max(system.cpus, 1)
        self.sockets = -(-self.cpus // system.trays)
        boards = system.nvswitch is not None or system.topology == "cube-mesh"
        share = 2 if boards or system.topology == "pcie-root" else 4
        wanted = -(-system.gpus // share)
        self.switches = -(-wanted // self.cpus) * self.cpus if system.gpus > 1 else 1
        self.slot = self.bus.bandwidth
        if system.topology == "wafer":
            self.slot = nics * network.bandwidth
        self.cards = system.storage_nics if system.storage_nic else 0
        self.ports = system.storage_cables // max(self.cards, 1)

    def _cpu(self, number: int, count: int) -> int:
        return number * self.cpus // count

    def _root(self, number: int, count: int) -> str:
        """What a storage adapter or a drive connects to."""
        if self.system.is_storage_on_switches:
            return f"pcie{number * self.switches // count}"
        return f"cpu{self._cpu(number, count)}"

    def parts(self) -> Iterator[Part]:
        """All parts except NVSwitches."""
        system = self.system
        for gpu in range(system.gpus):
            yield Part(name=f"gpu{gpu}", kind="gpu", numa=self._cpu(gpu, system.gpus), note=system.gpu.name)
        for nic in range(self.nics):
            note = system.nic.name if system.nic else self.network.name
            yield Part(name=f"nic{nic}", kind="nic", numa=self._cpu(nic, self.nics), note=note)
        if storage := system.storage_nic:
            for port in range(self.cards * self.ports):
                card = port // self.ports
                yield Part(
                    name=f"storage{port}", kind="storage", numa=self._cpu(card, self.cards), note=storage.name
                )
        if system.ssd:
            for drive in range(system.ssds):
                numa = self._cpu(drive, system.ssds)
                yield Part(name=f"drive{drive}", kind="drive", numa=numa, note=system.ssd.name)
        for cpu in range(self.cpus):
            yield Part(name=f"cpu{cpu}", kind="cpu", numa=cpu, note=system.cpu.name if system.cpu else "")
        for switch in range(self.switches):
            yield Part(name=f"pcie{switch}", kind="pcie", numa=self._cpu(switch, self.switches))
        for card in range(self.cards):
            yield Part(name=f"storage-card{card}", kind="pcie", numa=self._cpu(card, self.cards))

    def cables(self) -> Iterator[Cable]:
        """All cables except NVLinks."""
        system = self.system
        for gpu in range(system.gpus):
            yield self._bus(f"gpu{gpu}", f"pcie{gpu * self.switches // system.gpus}", self.bus.latency / 2)
        for nic in range(self.nics):
            yield self._bus(f"nic{nic}", f"pcie{nic * self.switches // self.nics}")
        for switch in range(self.switches):
            yield self._bus(f"pcie{switch}", f"cpu{self._cpu(switch, self.switches)}")
        if storage := system.storage_nic:
            for card in range(self.cards):
                yield self._bus(f"storage-card{card}", self._root(card, self.cards))
            for port in range(self.cards * self.ports):
                yield self._bus(f"storage{port}", f"storage-card{port // self.ports}", rate=storage.bandwidth)
        if ssd := system.ssd:
            for drive in range(system.ssds):
                yield Cable(
                    one=f"drive{drive}",
                    other=self._root(drive, system.ssds),
                    kind="drive",
                    bandwidth=ssd.read_bandwidth,
                    back=ssd.write_bandwidth,
                    lanes=4,
                )
        socket_rate = (system.cpu.socket_rate if system.cpu else 0.0) or _UNKNOWN_SOCKET
        for cpu in range(1, self.cpus):
            apart = cpu % self.sockets == 0 and system.trays > 1
            rate = self.network.bandwidth if apart else socket_rate
            yield even_cable(f"cpu{cpu - 1}", f"cpu{cpu}", "socket", rate)

    def _bus(self, tail: str, head: str, latency: float = 0.0, *, rate: float = 0.0) -> Cable:
        lanes = self.system.gpu.pcie_lanes
        return even_cable(tail, head, "pcie", rate or self.slot, latency=latency, lanes=lanes)
