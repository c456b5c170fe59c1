"""Drawings of a fabric: text for a terminal, and one SVG with a server and the layers of switches above it.

    fabric_text(describe(fabric))     fabric_svg(describe(fabric))

Nothing is computed here: `podsim.hardware.fabrics.describe` gives parts, cables and counts.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from podsim.hardware.fabrics.describe import Drawing, Layer, Net
from podsim.hardware.fabrics.infrastructure import Infrastructure
from podsim.report.fabric_svg import group_text, taper_text
from podsim.report.screen import Block, Paragraph
from podsim.units import format_quantity


def fabric_text(drawing: Drawing) -> str:
    """The fabric in lines of at most 100 columns: the inside of a server as a tree, then each network from the top."""
    lines = [drawing.title]
    if drawing.torus:
        lines += ["", *_torus(drawing)]
    if drawing.boxes:
        lines += ["", f"Inside a server ({drawing.server})", *_server(drawing)]
    for net in drawing.nets:
        lines += ["", net.title, *_net(net)]
    if drawing.sizes:
        lines += [
            "",
            "All networks",
            *_networks(drawing.sizes[-1]),
            "",
            "By scalable units",
            *_sizes(drawing.sizes),
        ]
    if drawing.faults:
        lines += [
            "",
            f"Broken or slow: {drawing.faulty:,} links",
            *(f"  {fault}" for fault in drawing.faults),
        ]
        more = drawing.faulty - len(drawing.faults)
        lines += [f"  and {more:,} more"] if more else []
    return "\n".join(lines) + "\n"


def _networks(machine: Infrastructure) -> Iterator[str]:
    """A line for each network, and one for the racks."""
    for network in machine.networks:
        ends = ", ".join(f"{count:,} {name}" for name, count in network.ends.items())
        head = f"  {network.name:<12} {network.switches:>5,} {network.switch:<8} {sum(network.cables):>7,} cables  for "
        yield from textwrap.wrap(head + ends, 100, subsequent_indent=" " * 44)
    racks = ", ".join(f"{count:,} of {name}" for name, count in machine.racks.items() if count)
    yield f"  racks: {racks}; {format_quantity(machine.rack_power, 'W')} at most in one of nodes"


def _sizes(sizes: Sequence[Infrastructure]) -> Iterator[str]:
    """A line for each number of scalable units: switches by network, cables, and racks."""
    names = [network.name for network in sizes[0].networks]
    yield (
        "  units  nodes " + " ".join(f"{name:>11}" for name in names) + "  switches   cables      km   racks"
    )
    for size in sizes:
        counts = " ".join(f"{network.switches:>11,}" for network in size.networks)
        yield (
            f"  {size.units:>5} {size.nodes:>6,} {counts} {size.switches:>9,} {size.cables:>8,}"
            f" {size.length / 1e3:>7.1f} {sum(size.racks.values()):>7,}"
        )


def _torus(drawing: Drawing) -> Iterator[str]:
    shape = " x ".join(str(size) for size in drawing.torus)
    rings = sum(size > 1 for size in drawing.torus)
    yield f"  torus of {shape} chips: {rings} rings through every chip"
    yield f"  each link {format_quantity(drawing.torus_bandwidth, 'B/s')} one way"


def _server(drawing: Drawing) -> Iterator[str]:
    kinds = {box.name: box.kind for box in drawing.boxes}
    fast = [wire for wire in drawing.wires if wire.kind == "nvlink"]
    chips = [box.name for box in drawing.boxes if box.kind == "nvswitch"]
    for chip in chips:
        ends = [wire for wire in fast if chip in (wire.one, wire.other)]
        gpus = [wire for wire in ends if "gpu" in (kinds[wire.one], kinds[wire.other])]
        trunks = [wire for wire in ends if wire not in gpus and wire.one == chip]
        link = gpus[0]
        names = ranges([end for wire in gpus for end in (wire.one, wire.other) if end != chip])
        yield f"  {chip}: {_lanes(link.lanes)}, {format_quantity(link.bandwidth, 'B/s')}, to each of {names}"
        for trunk in trunks:
            yield f"  {chip}: {_lanes(trunk.lanes)}, {format_quantity(trunk.bandwidth, 'B/s')}, to {trunk.other}"
    if fast and not chips:
        yield "  NVLinks between GPUs:"
        yield from _matrix(drawing)
    children: dict[str, list[tuple[str, float]]] = {}
    seen, queue = set(), [box.name for box in drawing.boxes if box.kind == "cpu"]
    while queue:
        top = queue.pop(0)
        seen.add(top)
        for wire in drawing.wires:
            other = {wire.one: wire.other, wire.other: wire.one}.get(top, "")
            if wire.kind in ("pcie", "drive") and other and other not in seen:
                children.setdefault(top, []).append((other, wire.bandwidth))
                queue.append(other)
    for cpu in (box for box in drawing.boxes if box.kind == "cpu"):
        yield f"  {cpu.name}" + (f" ({cpu.note})" if cpu.note else "")
        yield from _branch(children, cpu.name, "  ")
    for wire in drawing.wires:
        if wire.kind == "socket":
            yield f"  {wire.one} to {wire.other}: {format_quantity(wire.bandwidth, 'B/s')}"


def _lanes(lanes: int) -> str:
    return f"{lanes} NVLink{'s' if lanes > 1 else ''}"


def _matrix(drawing: Drawing) -> Iterator[str]:
    gpus = [box.name for box in drawing.boxes if box.kind == "gpu"]
    lanes = {frozenset((wire.one, wire.other)): wire.lanes for wire in drawing.wires if wire.kind == "nvlink"}
    yield "         " + " ".join(f"{gpu:>5}" for gpu in gpus)
    for row in gpus:
        cells = ["x" if row == column else str(lanes.get(frozenset((row, column)), "-")) for column in gpus]
        yield f"    {row:<5}" + " ".join(f"{cell:>5}" for cell in cells)
    rates = {wire.bandwidth / wire.lanes for wire in drawing.wires if wire.kind == "nvlink"}
    yield "    each " + ", ".join(format_quantity(rate, "B/s") for rate in sorted(rates))


def _branch(children: dict[str, list[tuple[str, float]]], top: str, indent: str) -> Iterator[str]:
    """The parts below a part: each switch, then devices grouped by rate."""
    hung = children.get(top, [])
    switches = [(name, rate) for name, rate in hung if name in children]
    devices: dict[float, list[str]] = {}
    for name, rate in hung:
        if name not in children:
            devices.setdefault(rate, []).append(name)
    rows = [(name, rate) for name, rate in switches]
    rows += [(ranges(names), rate) for rate, names in devices.items()]
    for index, (name, rate) in enumerate(rows):
        last = index == len(rows) - 1
        yield f"{indent}{'└─' if last else '├─'} {name}  {format_quantity(rate, 'B/s')}"
        yield from _branch(children, name, indent + ("   " if last else "│  "))


def ranges(names: Sequence[str]) -> str:
    """Names with neighbouring numbers as one: gpu0 to gpu7, nic0."""
    runs: list[list[str]] = []
    for name in names:
        stem = name.rstrip("0123456789")
        previous = runs[-1][-1] if runs else ""
        follows = (
            previous.rstrip("0123456789") == stem
            and previous[len(stem) :].isdecimal()
            and name[len(stem) :].isdecimal()
        )
        if follows and int(name[len(stem) :]) == int(previous[len(stem) :]) + 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    shown = (run if len(run) < 3 else [f"{run[0]} to {run[-1]}"] for run in runs)
    return ", ".join(name for run in shown for name in run)


def _net(net: Net) -> Iterator[str]:
    ends = [layer for layer in net.layers if layer.kind in ("node", "server")]
    switches = [layer for layer in net.layers if layer not in ends]
    wide = max(len(f"{layer.count:,}") for layer in net.layers)
    for layer in reversed(switches):
        if layer is not switches[-1]:
            yield f"  {'':9}{'':>{wide}}  │ {_cables(layer)}"
        yield f"  {layer.kind:<9}{layer.count:>{wide},}  {_groups(layer)}".rstrip()
    for layer in ends:
        yield f"  {'':9}{'':>{wide}}  │ {_cables(layer)}"
        yield f"  {layer.kind:<9}{layer.count:>{wide},}  {_groups(layer)}".rstrip()
    yield f"  {taper_text(net.taper, net.bisection)}"


def _cables(layer: Layer) -> str:
    return f"{layer.cables:,} cables of {format_quantity(layer.bandwidth * 8, 'b/s')}"


def _groups(layer: Layer) -> str:
    said = [layer.switch] if layer.switch else []
    if layer.group:
        said.append(group_text(layer.groups, layer.group))
    return ", ".join(said)


def drawing_report(drawing: Drawing) -> Iterator[Block]:
    """The drawing as text."""
    yield Paragraph(fabric_text(drawing), is_wrapped=False)
