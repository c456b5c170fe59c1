"""`nvidia-smi topo -m`: the matrix of connections between GPUs and adapters, to and from a Node.

            GPU0   GPU1   NIC0   CPU Affinity   NUMA Affinity   GPU NUMA ID
    GPU0     X     NV12   PIX    0-63           0               N/A
    GPU1    NV12    X     PIX    0-63           0               N/A
    NIC0    PIX    PIX     X

X the device itself, NV# a number of NVLinks, PIX one PCIe switch, PXB several, PHB the host bridge of a
processor, NODE host bridges of one memory domain, SYS between processors (SOC and PSB in old drivers).
The text has no speeds: they are arguments. If every pair of GPUs has equally many NVLinks, and together they exceed
those of a GPU (18), they lead to NVSwitches. PHB and NODE both become one processor.
GPUs with NVLinks alone connect to the processor of their NUMA number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from podsim.errors import TableError
from podsim.hardware.fabrics.node import Cable, Node, Part, even_cable, ways

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_CELL = re.compile(r"X|NV(\d{1,3})|PIX|PXB|PSB|PHB|NODE|SYS|SOC")
_LEVELS = {"PIX": 0, "PSB": 0, "PXB": 1, "PHB": 2, "NODE": 2, "SYS": 3, "SOC": 3}
_LEGEND = re.compile(r"\s*(NIC\d+):\s*(\S+)\s*")
MOST_DEVICES = 256
MOST_LINKS = 18
"""The NVLinks of a Hopper or Blackwell GPU."""
MOST_TEXT = 1 << 20


@dataclass(frozen=True, kw_only=True)
class _Matrix:
    name: str
    devices: list[str]
    """The names of the devices, GPUs first."""
    gpus: int
    cells: list[list[str]]
    numa: list[int | None]
    notes: dict[str, str]

    def lanes(self, row: int, column: int) -> int:
        """The number of NVLinks between two devices."""
        match = _CELL.fullmatch(self.cells[row][column])
        return int(match[1] or 0) if match else 0

    def part(self, device: int) -> str:
        """The name of the part for a device."""
        return f"gpu{device}" if device < self.gpus else f"nic{device - self.gpus}"


def parse_topo(
    text: str, name: str = "topo -m", *, nvlink: float = 25e9, pcie: float = 31.5e9, socket: float = 128e9
) -> Node:
    """The server that a matrix describes.

    nvlink, pcie, socket: B/s one way of an NVLink, of a slot, and between processors, as in a DGX A100. Raises
    TableError, with row and column, for missing, unknown and contradictory cells.
    """
    if not (min(nvlink, pcie, socket) > 0 and max(nvlink, pcie, socket) < np.inf):
        raise TableError(f"{name}: {nvlink=}, {pcie=}, {socket=}; rates must be positive numbers of B/s")
    matrix = _read(text, name)
    levels = _levels(matrix)
    switches, cables = _tree(matrix, levels, pcie)
    tops = sorted(set(levels[2]))
    for cpu in range(len(tops)):
        for other in range(cpu):
            cables.append(even_cable(f"cpu{other}", f"cpu{cpu}", "socket", socket))
    numa = [next((n for n, t in zip(matrix.numa, levels[2], strict=True) if t == top and n is not None), cpu)
            for cpu, top in enumerate(tops)]  # fmt: skip
    parts = [
        Part(
            name=matrix.part(n),
            kind="gpu" if n < matrix.gpus else "nic",
            numa=numa[tops.index(levels[2][n])],
            note=matrix.notes.get(device, device),
        )
        for n, device in enumerate(matrix.devices)
    ]
    parts += [Part(name=f"cpu{cpu}", kind="cpu", numa=number) for cpu, number in enumerate(numa)]
    parts += [Part(name=switch, kind="pcie") for switch in switches]
    links = list(_nvlinks(matrix, nvlink))
    if any(cable.other == "nvswitch" for cable in links):
        parts.append(Part(name="nvswitch", kind="nvswitch"))
    return Node(name=name, parts=tuple(parts), cables=(*links, *cables), source="nvidia-smi topo -m")


def _read(text: str, name: str) -> _Matrix:
    """The cells, each one checked."""
    if len(text) > MOST_TEXT:
        raise TableError(f"{name}: {len(text):,} characters; at most {MOST_TEXT:,} are read")
    lines = [_ANSI.sub("", line) for line in text.splitlines()]
    head = next((n for n, line in enumerate(lines) if re.match(r"\s*GPU\d+(\s|$)", line)), None)
    if head is None:
        raise TableError(f"{name}: no header; expected a line such as GPU0 GPU1 … CPU Affinity")
    devices = re.split(r"\s(?:CPU|NUMA|GPU NUMA)\s", lines[head] + " ", maxsplit=1)[0].split()
    if len(set(devices)) < len(devices) or len(devices) > MOST_DEVICES:
        raise TableError(f"{name}, line {head + 1}: devices must differ, and be {MOST_DEVICES} at most")
    rows: dict[str, list[str]] = {}
    notes: dict[str, str] = {}
    for number, line in enumerate(lines[head + 1 :], head + 2):
        words = line.split()
        if legend := _LEGEND.fullmatch(line):
            notes[legend[1]] = legend[2][:64]
        elif words and words[0] in devices and len(rows) < len(devices):
            if words[0] in rows:
                raise TableError(f"{name}, line {number}: a second row for {words[0]}")
            rows[words[0]] = words[1:]
    missing = [device for device in devices if device not in rows]
    if missing:
        raise TableError(f"{name}: no row for {', '.join(missing[:8])}")
    gpus = [device for device in devices if re.fullmatch(r"GPU\d+", device)]
    order = [*gpus, *(device for device in devices if device not in gpus)]
    columns = [devices.index(device) for device in order]
    cells = [[_cell(rows[row], devices, column, row, name) for column in columns] for row in order]
    matrix = _Matrix(
        name=name, devices=order, gpus=len(gpus), cells=cells, notes=notes,
        numa=[_numa(rows[device][len(devices) :]) for device in order],
    )  # fmt: skip
    _check(matrix)
    return matrix


def _cell(words: list[str], devices: list[str], column: int, row: str, name: str) -> str:
    text = words[column] if column < len(words) else "nothing"
    if not _CELL.fullmatch(text):
        raise TableError(
            f"{name}, row {row[:40]}, column {devices[column][:40]}: {text[:20]!r}; expected X, NV#, PIX, PXB, PHB,"
            " NODE or SYS"
        )
    return text


def _numa(words: list[str]) -> int | None:
    """The NUMA affinity, from the column after that of the CPUs."""
    return int(words[1]) if len(words) > 1 and re.fullmatch(r"\d{1,4}", words[1], re.ASCII) else None


def _check(matrix: _Matrix) -> None:
    """Raise TableError for contradictory cells."""
    for a, row in enumerate(matrix.devices):
        for b, column in enumerate(matrix.devices):
            cell, mirrored = matrix.cells[a][b], matrix.cells[b][a]
            where = f"{matrix.name}, row {row[:40]}, column {column[:40]}"
            if (a == b) != (cell == "X"):
                raise TableError(f"{where}: {cell}; X belongs on the diagonal, and only there")
            if cell != mirrored:
                raise TableError(f"{where}: {cell}, but the other way round it is {mirrored}")
            if cell.startswith("NV") and (max(a, b) >= matrix.gpus or not matrix.lanes(a, b)):
                raise TableError(f"{where}: {cell}; NVLinks, one or more, join GPUs")


def _levels(matrix: _Matrix) -> list[list[int]]:
    """The group of each device, as its first device, for three levels: one PCIe switch, several, one processor.

    Raises TableError for a cell that puts two devices farther apart than other cells do.
    """
    everything = range(len(matrix.devices))
    distances = [
        (a, b, _LEVELS[matrix.cells[a][b]])
        for a in everything
        for b in range(a)
        if matrix.cells[a][b] in _LEVELS
    ]
    levels = [
        _groups(len(everything), [(a, b) for a, b, far in distances if far <= level]) for level in range(3)
    ]
    for a, b, far in distances:
        near = next((level for level in range(3) if levels[level][a] == levels[level][b]), 3)
        if near < far:
            raise TableError(
                f"{matrix.name}, row {matrix.devices[a][:40]}, column {matrix.devices[b][:40]}: "
                f"{matrix.cells[a][b]}, but other cells put them closer to each other"
            )
    apart = {tuple(sorted((levels[2][a], levels[2][b]))) for a, b, far in distances if far == 3}
    alike = [
        (a, b)
        for a in range(matrix.gpus)
        for b in range(a)
        if matrix.numa[a] == matrix.numa[b] and tuple(sorted((levels[2][a], levels[2][b]))) not in apart
    ]
    joined = _groups(len(everything), [*((a, top) for a, top in enumerate(levels[2])), *alike])
    if not any(joined[a] == joined[b] for a, b, far in distances if far == 3):
        levels[2] = joined
    return levels


def _groups(size: int, pairs: list[tuple[int, int]]) -> list[int]:
    """The lowest member of the group of each of `size` items; the two items of a pair share a group."""
    root = list(range(size))

    def top(n: int) -> int:
        while root[n] != n:
            root[n] = root[root[n]]
            n = root[n]
        return n

    for a, b in pairs:
        low, high = sorted((top(a), top(b)))
        root[high] = low
    return [top(n) for n in range(size)]


def _tree(matrix: _Matrix, levels: list[list[int]], rate: float) -> tuple[list[str], list[Cable]]:
    """(PCIe switches, cables from devices to switches and from switches to processors)."""
    near, far, tops = levels
    cpus = sorted(set(tops))
    switches: list[str] = []
    cables: list[Cable] = []
    for group in sorted(set(far)):
        members = [n for n, top in enumerate(far) if top == group]
        above, firsts = f"cpu{cpus.index(tops[group])}", sorted({near[n] for n in members})
        if len(firsts) > 1:
            switches.append(f"pcie{len(switches)}")
            cables.append(even_cable(switches[-1], above, "pcie", rate))
            above = switches[-1]
        for first in firsts:
            devices = [n for n in members if near[n] == first]
            hook = above
            if len(devices) > 1 or len(firsts) > 1:
                hook = f"pcie{len(switches)}"
                switches.append(hook)
                cables.append(even_cable(hook, above, "pcie", rate))
            cables += [even_cable(matrix.part(n), hook, "pcie", rate) for n in devices]
    return switches, cables


def _nvlinks(matrix: _Matrix, rate: float) -> Iterator[Cable]:
    """The cables between GPUs, or from each GPU to the switches."""
    lanes = [[matrix.lanes(a, b) for b in range(matrix.gpus)] for a in range(matrix.gpus)]
    most = max(sum(row) for row in lanes)
    kinds = {lanes[a][b] for a in range(matrix.gpus) for b in range(a)}
    if most > MOST_LINKS:
        if len(kinds) > 1:
            raise TableError(
                f"{matrix.name}: a GPU with {most} NVLinks, not the same to all others; it has {MOST_LINKS}"
            )
        count = kinds.pop()
        for gpu in range(matrix.gpus):
            yield even_cable(f"gpu{gpu}", "nvswitch", "nvlink", count * rate, lanes=count)
        return
    for a in range(matrix.gpus):
        for b in range(a):
            if lanes[a][b]:
                yield even_cable(f"gpu{b}", f"gpu{a}", "nvlink", lanes[a][b] * rate, lanes=lanes[a][b])


def topo_text(node: Node) -> str:
    """The matrix of a server as nvidia-smi prints it: columns separated by tabs, numbered adapters, then a legend."""
    devices = [*node.places("gpu").tolist(), *node.places("nic").tolist()]
    titles = [node.parts[n].name.upper() for n in devices]
    links = ways(node, np.ones(node.links, np.bool_)).links[0]
    slow = np.array([cable.kind != "nvlink" for cable in node.cables for _ in range(2)], np.bool_)
    without = ways(node, slow).links[0]
    lines = ["\t" + "\t".join(titles) + "\tCPU Affinity\tNUMA Affinity"]
    for title, row in zip(titles, devices, strict=True):
        cells = [
            _way_class(node, links[row, column].tolist(), without[row, column].tolist()) for column in devices
        ]
        rest = [f"N/A\t{node.parts[row].numa}"] if node.parts[row].kind == "gpu" else []
        lines.append("\t".join([title, *cells, *rest]))
    nics = [
        f"  {node.parts[n].name.upper()}: {node.parts[n].note.split()[0]}"
        for n in node.places("nic")
        if node.parts[n].note
    ]
    return "\n".join([*lines, "", *(["NIC Legend:", "", *nics] if nics else [])]) + "\n"


def _way_class(node: Node, links: list[int], without: list[int]) -> str:
    """The kind of a way: NV# over NVLinks alone, without another GPU between; else that of the way over PCI Express."""
    used = [link for link in links if link >= 0]
    if not used:
        return "X"
    lanes = [node.cables[link // 2].lanes for link in used if node.cables[link // 2].kind == "nvlink"]
    if lanes and "gpu" not in _kinds_through(node, used):
        return f"NV{min(lanes)}"
    used = [link for link in without if link >= 0]
    through = _kinds_through(node, used)
    if any(node.cables[link // 2].kind == "socket" for link in used) or not used:
        return "SYS"
    if "cpu" in through:
        return "PHB"
    return "PIX" if through.count("pcie") == 1 else "PXB"


def _kinds_through(node: Node, links: list[int]) -> list[str]:
    """The kinds of the parts that a way passes through."""
    return [node.parts[node.link_ends[link][1]].kind for link in links[:-1]]
