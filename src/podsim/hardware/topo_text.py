"""`nvidia-smi topo -m`: the matrix of how GPUs and adapters are joined, read into a Node and written from one.

            GPU0   GPU1   NIC0   CPU Affinity   NUMA Affinity   GPU NUMA ID
    GPU0     X     NV12   PIX    0-63           0               N/A
    GPU1    NV12    X     PIX    0-63           0               N/A
    NIC0    PIX    PIX     X

X the device itself, NV# so many NVLinks, PIX one PCIe switch between, PXB several, PHB the host bridge of a
processor, NODE host bridges of one memory domain, SYS between processors (SOC and PSB in old drivers).
Text tells no speeds: they are arguments. Where every pair of GPUs has the same NVLinks, and they would be more than
a GPU has (18), they lead to NVSwitches. PHB and NODE both become one processor.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from podsim.errors import TableError
from podsim.hardware.fabrics.node import Cable, Node, Part, Ways, ways

__all__ = ["parse_topo", "topo_text"]

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_CELL = re.compile(r"X|NV(\d{1,3})|PIX|PXB|PSB|PHB|NODE|SYS|SOC")
_LEVELS = {"PIX": 0, "PSB": 0, "PXB": 1, "PHB": 2, "NODE": 2, "SYS": 3, "SOC": 3}
_LEGEND = re.compile(r"\s*(NIC\d+):\s*(\S+)\s*")
MOST_DEVICES = 256
MOST_LINKS = 18
"""NVLinks of a GPU, Hopper's and Blackwell's"""
MOST_TEXT = 1 << 20


@dataclass(frozen=True, kw_only=True)
class _Matrix:
    devices: list[str]
    cells: list[list[str]]
    numa: list[int | None]
    notes: dict[str, str]

    @property
    def gpus(self) -> list[int]:
        return [n for n, name in enumerate(self.devices) if re.fullmatch(r"GPU\d+", name)]


def parse_topo(
    text: str,
    name: str = "topo -m",
    *,
    nvlink: float = 25e9,
    pcie: float = 31.5e9,
    socket: float = 16e9,
) -> Node:
    """The server that a matrix describes. nvlink, pcie, socket: B/s one way of one NVLink, of a slot, between processors.

    Raises TableError, with row and column, for cells that are missing, unknown or at odds with each other.
    """
    if not min(nvlink, pcie, socket) > 0:
        raise TableError(f"{name}: {nvlink=}, {pcie=}, {socket=}; rates must be positive")
    matrix = _read(text, name)
    _check(matrix, name)
    tops, parts, cables = _tree(matrix, name, pcie)
    cpus = sorted(set(tops))
    names = {top: f"cpu{place}" for place, top in enumerate(cpus)}
    for device, top in enumerate(tops):
        hung = next(c for c in cables if c.one == _name(matrix, device)) if cables else None
        assert hung is not None, top
    for place, top in enumerate(cpus):
        numa = next((n for n, t in zip(matrix.numa, tops, strict=True) if t == top and n is not None), place)
        parts.append(Part(name=names[top], kind="cpu", numa=numa))
        for other in range(place):
            cables.append(Cable(one=f"cpu{other}", other=f"cpu{place}", kind="socket", bandwidth=socket, back=socket))
    return Node(name=name, parts=tuple(parts), cables=tuple(cables), source="nvidia-smi topo -m")
