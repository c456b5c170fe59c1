"""NCCL's topology XML (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE), converted to a Node.

    <system version="1">
      <cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="23" modelid="49">
        <pci busid="ffff:ff:01.0" class="0x060400" link_speed="16 GT/s" link_width="16">
          <pci busid="0001:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16">
            <gpu dev="0" sm="80" rank="0"> <nvlink target="0002:00:00.0" count="12" tclass="0x068000"/> </gpu>

A file may hold the PCI skeleton only, as ndv4-topo.xml of Azure/azhpc-images does: then GPUs are numbered by bus
address. Other attributes and elements are ignored, as in NCCL. A missing or unknown link speed is 8 GT/s, a width of
0 or none is 16 lanes, an adapter's speed of 0 or less is 10,000 Mb/s. NVSwitches become one. NVLinks to a device
outside the file are dropped.
Rates are line rates after coding. Between processors they are those of a processor of that generation in the catalog.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from podsim.errors import TableError
from podsim.hardware.catalog import load_cpu
from podsim.hardware.fabrics.node import KINDS, Cable, Node, Part, even_cable
from podsim.hardware.fabrics.xml_tree import Element, parse_xml

# B/s of a PCIe lane, one way, after coding, by GT/s: 8b/10b to 5, 128b/130b to 32, flits at 64
_LANE = {2.5: 0.25e9, 5.0: 0.5e9, 8.0: 0.984375e9, 16.0: 1.96875e9, 32.0: 3.9375e9, 64.0: 7.5625e9}
_SPEED = re.compile(r"\s*(\d+(?:\.\d+)?)\s*GT/s", re.IGNORECASE)
_HEX = re.compile(r"\s*(?:0[xX])?([0-9a-fA-F]{1,8})\s*")
_NVSWITCH, _NVLINK_CPU = 0x068000, 0x068001
_DEFAULT_SPEED = 10_000
_XEONS = (
    (207, "xeon-platinum-8570"), (143, "xeon-platinum-8480c"), (85, "xeon-platinum-8168"), (-1, "xeon-e5-2698-v4"),
)  # fmt: skip
"""the least model number of a generation of Xeons, and a processor of it"""
_X_BUS = 64e9
"""B/s. The bandwidth between two POWER9, unconfirmed."""
MOST_LANES = 64
MOST_NVLINKS = 1024


def parse_topology(text: str | bytes, name: str = "topology") -> Node:
    """The server that an XML document describes.

    Raises TableError, with the line, for another document (see xml_tree), for impossible values and for a server
    without GPUs.
    """
    root = parse_xml(text, name)
    if root.tag != "system":
        raise TableError(
            f'{name}, line {root.line}: the root is <{root.tag[:40]}>; expected <system version="1">'
        )
    if root.attributes.get("version", "1").strip() != "1":
        raise TableError(
            f"{name}, line {root.line}: version {root.attributes['version'][:20]!r}; only 1 is known"
        )
    reader = _Reader(name)
    for number, cpu in enumerate(root.every("cpu")):
        reader.cpu(number, cpu)
    return reader.node()


@dataclass
class _Reader:
    """The reader's state: the parts and cables so far."""

    name: str
    cpus: list[Part] = field(default_factory=list)
    sockets: list[float] = field(default_factory=list)
    gpus: list[tuple[tuple[int, str], Part, Element | None]] = field(default_factory=list)
    nics: list[tuple[tuple[int, int], Part]] = field(default_factory=list)
    bridges: list[Part] = field(default_factory=list)
    cables: list[Cable] = field(default_factory=list)
    addresses: dict[str, int] = field(default_factory=dict)

    def cpu(self, number: int, element: Element) -> None:
        """Add a processor and all devices under it."""
        numa = self._int(element, "numaid", 0, low=-1, high=100_000)
        name = f"cpu{number}"
        self.cpus.append(
            Part(name=name, kind="cpu", numa=numa, note=element.attributes.get("vendor", "").strip())
        )
        self.sockets.append(self._socket_rate(element))
        for child in element.every("pci"):
            self._pci(child, name, numa)
        for child in element.every("nic"):
            self._nets(child, name, numa, "")

    def _socket_rate(self, cpu: Element) -> float:
        """B/s from a processor to another."""
        arch, vendor = (cpu.attributes.get(key, "").strip() for key in ("arch", "vendor"))
        if arch == "ppc64":
            return _X_BUS
        model = self._int(cpu, "modelid", 0, low=-1, high=1 << 31)
        name = next(name for least, name in _XEONS if model >= least)
        name = "grace" if arch == "arm64" else "epyc-7742" if vendor == "AuthenticAMD" else name
        return load_cpu(name).socket_rate

    def _pci(self, element: Element, above: str, numa: int) -> None:
        """Add a PCI device: a GPU, an adapter, or a bridge with devices behind it."""
        address = element.attributes.get("busid", "").strip().lower()[:64]
        if not address:
            raise self._error(element, "<pci> without busid")
        if address in self.addresses:
            raise self._error(element, f"busid {address} was given in line {self.addresses[address]}")
        self.addresses[address] = element.line
        kind = self._hex(element, "class") >> 8
        gpu, rate = next(element.every("gpu"), None), self._pci_rate(element)
        if gpu is not None or (kind >> 8 == 0x03 and not element.children):
            dev = -1 if gpu is None else self._int(gpu, "dev", -1, low=-1, high=100_000)
            self.gpus.append(((dev, address), Part(name=address, kind="gpu", numa=numa, note=address), gpu))
            self._bus(address, above, rate)
        elif next(element.every("nic"), None) is not None:
            for nic in element.every("nic"):
                self._nets(nic, above, numa, address, rate)
        elif kind >> 8 == 0x02 and not element.children:
            self._nic(len(self.nics), above, Part(name=address, kind="nic", numa=numa, note=address), rate)
        elif next(element.every("pci"), None) is not None:
            self.bridges.append(Part(name=address, kind="pcie", numa=numa, note=address))
            self._bus(address, above, rate)
            for child in element.every("pci"):
                self._pci(child, address, numa)

    def _nets(self, nic: Element, above: str, numa: int, address: str, rate: float = 31.5e9) -> None:
        """Add the ports of an adapter; if there are several, the card becomes a bridge."""
        nets = [net for net in nic.every("net") if net.attributes.get("dev", "").strip()]
        if len(nets) > 1 and address:
            self.bridges.append(Part(name=address, kind="pcie", numa=numa, note=address))
            self._bus(address, above, rate)
            above = address
        for number, net in enumerate(nets):
            speed = self._int(net, "speed", _DEFAULT_SPEED, low=-(1 << 62), high=100_000_000)
            port = (speed if speed > 0 else _DEFAULT_SPEED) * 1e6 / 8
            label = " ".join(text for text in (net.attributes.get("name", "").strip()[:64], address) if text)
            part = Part(
                name=f"{address or above} port {number} {nic.line}",
                kind="nic",
                numa=numa,
                note=label,
                rate=port,
            )
            self._nic(self._int(net, "dev", 0, low=0, high=100_000), above, part, rate)

    def _nic(self, dev: int, above: str, part: Part, rate: float) -> None:
        self.nics.append(((dev, len(self.nics)), part))
        self._bus(part.name, above, rate)

    def _bus(self, tail: str, head: str, rate: float) -> None:
        self.cables.append(even_cable(tail, head, "pcie", rate))

    def _pci_rate(self, element: Element) -> float:
        """B/s of a PCI link."""
        match = _SPEED.match(element.attributes.get("link_speed", ""))
        lane = _LANE.get(float(match[1]), _LANE[8.0]) if match and len(match[1]) < 10 else _LANE[8.0]
        lanes = self._int(element, "link_width", 0, low=0, high=MOST_LANES)
        return lane * (lanes or 16)

    def node(self) -> Node:
        """The server as a Node, with numbered parts."""
        if not self.gpus:
            raise TableError(f"{self.name}: no GPU; expected <pci> of class 0x030200 or with a <gpu> in it")
        self.gpus.sort(key=lambda gpu: gpu[0])
        self.nics.sort(key=lambda nic: nic[0])
        for number in range(len(self.cpus)):
            for other in range(number):
                rate = min(self.sockets[number], self.sockets[other])
                self.cables.append(even_cable(self.cpus[other].name, self.cpus[number].name, "socket", rate))
        self.cables = [*self._nvlinks(), *self.cables]
        lists = {
            "gpu": [part for _, part, _ in self.gpus],
            "nic": [part for _, part in self.nics],
            "pcie": self.bridges,
        }
        names = {part.name: f"{kind}{n}" for kind, parts in lists.items() for n, part in enumerate(parts)}
        parts = [*lists["gpu"], *lists["nic"], *self.cpus, *self.bridges]

        def renamed(name: str) -> str:
            return names.get(name, name)

        if any("nvswitch" in (cable.one, cable.other) for cable in self.cables):
            parts.append(Part(name="nvswitch", kind="nvswitch"))
        parts.sort(key=lambda part: KINDS.index(part.kind))
        return Node(
            name=self.name,
            parts=tuple(replace(part, name=renamed(part.name)) for part in parts),
            cables=tuple(
                replace(cable, one=renamed(cable.one), other=renamed(cable.other)) for cable in self.cables
            ),
            source=f"NCCL topology file {self.name}",
        )

    def _nvlinks(self) -> Iterator[Cable]:
        """The NVLinks between GPUs, to switches, and to processors."""
        known = {part.name for _, part, _ in self.gpus}
        counts: dict[tuple[str, str], tuple[int, float]] = {}
        for _, part, gpu in self.gpus:
            lane_rate = 25e9 if gpu is None else _nvlink_rate(self._int(gpu, "sm", 80, low=0, high=10_000))
            for link in [] if gpu is None else gpu.every("nvlink"):
                lanes = self._int(link, "count", 1, low=1, high=MOST_NVLINKS)
                target, kind = link.attributes.get("target", "").strip().lower(), self._hex(link, "tclass")
                if target in known:
                    ends = (min(part.name, target), max(part.name, target))
                    if part.name == target:
                        raise self._error(link, f"an NVLink of {target} to itself")
                    counts[ends] = max(counts.get(ends, (0, 0.0)), (lanes, lane_rate))
                elif kind == _NVSWITCH:
                    ends = (part.name, "nvswitch")
                    counts[ends] = counts.get(ends, (0, lane_rate))[0] + lanes, lane_rate
                elif kind == _NVLINK_CPU:
                    cpu = next(cpu.name for cpu in self.cpus if cpu.numa == part.numa)
                    yield even_cable(part.name, cpu, "pcie", lanes * lane_rate)
        for (end, other), (lanes, lane_rate) in counts.items():
            yield even_cable(end, other, "nvlink", lanes * lane_rate, lanes=lanes)

    def _int(self, element: Element, key: str, default: int, *, low: int, high: int) -> int:
        """The integer of an attribute; `default` if it is missing or empty."""
        text = element.attributes.get(key, "").strip()
        if not text:
            return default
        if not re.fullmatch(r"-?\d{1,18}", text, re.ASCII) or not low <= int(text) <= high:
            raise self._error(element, f"{key}={text[:40]!r}; expected a whole number from {low} to {high}")
        return int(text)

    def _hex(self, element: Element, key: str) -> int:
        """The hexadecimal number of an attribute; 0 if it is missing."""
        text = element.attributes.get(key, "")
        match = _HEX.fullmatch(text)
        if match is None and text.strip():
            raise self._error(element, f"{key}={text[:40]!r}; expected a number of base 16, such as 0x030200")
        return int(match[1], 16) if match else 0

    def _error(self, element: Element, text: str) -> TableError:
        return TableError(f"{self.name}, line {element.line}: {text}")


def _nvlink_rate(sm: int) -> float:
    """B/s of one NVLink, one way, by compute capability."""
    return 20e9 if sm < 70 else 25e9 if sm < 100 else 50e9
