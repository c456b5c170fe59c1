"""The picture of a server: NVSwitches on top, then GPUs, PCIe switches, adapters, processors, storage and drives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from podsim.hardware.fabrics.describe import Box, Drawing, Wire
from podsim.units import format_quantity

_SLOT, _SMALL, _HIGH = 92.0, 66.0, 34.0
"""widths of a GPU's and of a drive's column, and the height of a box"""
_GAP, _NARROW = 26.0, 8.0
"""between processors, and between switches"""
_LEGEND = 18.0
_TITLES = {"gpu": "GPU", "nic": "NIC", "cpu": "CPU", "pcie": "PCIe", "nvswitch": "NVSwitch"}


@dataclass(frozen=True)
class _Place:
    """The position of a box."""

    left: float
    top: float
    width: float
    height: float = _HIGH

    @property
    def middle(self) -> float:
        return self.left + self.width / 2

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height


class _Layout:
    """The position of every part: a column for each processor, a row for each kind of part."""

    def __init__(self, drawing: Drawing) -> None:
        self.drawing = drawing
        self.kinds = {box.name: box.kind for box in drawing.boxes}
        self.parents = self._tree()
        self.chips = self._names_of("nvswitch")
        fast = [wire for wire in drawing.wires if wire.kind == "nvlink"]
        self.is_fanned = bool(self.chips) and sum("gpu0" in (wire.one, wire.other) for wire in fast) > 1
        self.longest_arc = 0 if self.chips else max((self.reach(wire) for wire in fast), default=0)
        self.places: dict[str, _Place] = {}
        self._rows()
        self.right = 0.0
        for cpu in self._names_of("cpu"):
            self._column(cpu)
        self._top_row()
        self.width = self.right + 10
        self.boxes_end = max(part.bottom for part in self.places.values())

    def _names_of(self, kind: str) -> list[str]:
        return [name for name, other in self.kinds.items() if other == kind]

    def _tree(self) -> dict[str, str]:
        """Each device or switch -> the part that connects it to a processor."""
        parents: dict[str, str] = {}
        queue = self._names_of("cpu")
        for top in queue:
            for wire in self.drawing.wires:
                other = {wire.one: wire.other, wire.other: wire.one}.get(top, "")
                is_branch = wire.kind in ("pcie", "drive") and other not in ("", *parents)
                if is_branch and self.kinds[other] != "cpu":
                    parents[other] = top
                    queue.append(other)
        return parents

    def _children(self, parent: str, *kinds: str) -> list[str]:
        return [name for name, top in self.parents.items() if top == parent and self.kinds[name] in kinds]

    def _switches(self, parent: str) -> list[str]:
        """Switches below a part that lead to more than storage."""
        return [name for name in self._children(parent, "pcie") if not self._is_card(name)]

    def _is_card(self, switch: str) -> bool:
        """Whether a switch leads to storage alone; such a switch is drawn below the processor."""
        kinds = {self.kinds[name] for name, top in self.parents.items() if top == switch}
        return self.kinds[switch] == "pcie" and bool(kinds) and kinds <= {"storage", "drive"}

    def _levels(self, parent: str) -> int:
        """Switches on the longest way down from a part."""
        return max((1 + self._levels(switch) for switch in self._switches(parent)), default=0)

    def _rows(self) -> None:
        """The top of each row."""
        levels = max((self._levels(cpu) for cpu in self._names_of("cpu")), default=0)
        below_chips = _HIGH + (90.0 if self.is_fanned else 44.0)
        arcs = 40.0 + 15.0 * self.longest_arc if self.longest_arc else 0.0
        self.y_gpu = 6.0 + (below_chips if self.chips else arcs)
        self.y_switch = [self.y_gpu + 74.0 + 60.0 * (levels - level) for level in range(1, levels + 1)]
        self.y_nic = (self.y_switch[0] if levels else self.y_gpu) + 74.0
        self.y_cpu = self.y_nic + (86.0 if self._names_of("nic") else 0.0)
        self.y_low = self.y_cpu + 70.0

    def reach(self, wire: Wire) -> int:
        """The distance of a cable, in GPUs."""
        gpus = self._names_of("gpu")
        return (
            abs(gpus.index(wire.one) - gpus.index(wire.other)) if {wire.one, wire.other} <= set(gpus) else 0
        )

    def _column(self, cpu: str) -> None:
        """A processor with all parts below it."""
        start = self.right + (_GAP if self.right else 0.0)
        end = self._branches(cpu, start, 0)
        low = self._storage(cpu)
        width = max(end - start, len(low) * _SMALL, 120.0)
        self.places[cpu] = _Place(start, self.y_cpu, width - 6)
        self._storage_row(low, start, width)
        self.right = start + width

    def _branches(self, parent: str, start: float, level: int) -> float:
        """Place the devices and switches below a part, beginning at `start`; the end of the last one."""
        gpus, nics = self._children(parent, "gpu"), self._children(parent, "nic")
        end = start + max(len(gpus), len(nics)) * _SLOT
        self._spread(gpus, start, end, self.y_gpu)
        self._spread(nics, start, end, self.y_nic)
        for switch in self._switches(parent):
            left = end + (_NARROW if end > start else 0.0)
            end = max(self._branches(switch, left, level + 1), left + _SLOT)
            self.places[switch] = _Place(left, self.y_switch[level], end - left - 6, 26)
        return end

    def _spread(self, names: Sequence[str], start: float, end: float, top: float) -> None:
        step = (end - start) / max(len(names), 1)
        for number, name in enumerate(names):
            self.places[name] = _Place(start + number * step + (step - _SLOT) / 2 + 8, top, _SLOT - 16)

    def _storage(self, parent: str) -> list[str]:
        """Storage ports and drives of a processor and its switches, the ports of a card together."""
        below = self._children(parent, "pcie")
        cards = sorted(below, key=self._is_card, reverse=True)
        return [
            *(end for card in cards for end in self._storage(card)),
            *self._children(parent, "storage", "drive"),
        ]

    def _storage_row(self, names: Sequence[str], start: float, width: float) -> None:
        cards = dict.fromkeys(top for name in names if self._is_card(top := self.parents[name]))
        step = width / max(len(names), 1)
        for number, name in enumerate(names):
            self.places[name] = _Place(
                start + number * step + 3, self.y_low + (54.0 if cards else 0.0), step - 6
            )
        for card in cards:
            ports = [self.places[name] for name in names if self.parents[name] == card]
            self.places[card] = _Place(ports[0].left, self.y_low, ports[-1].right - ports[0].left, 26)

    def _top_row(self) -> None:
        gpus = [self.places[name] for name in self._names_of("gpu") if name in self.places]
        left, right = min((p.left for p in gpus), default=0.0), max((p.right for p in gpus), default=0.0)
        step = (right - left + 12) / max(len(self.chips), 1)
        for number, chip in enumerate(self.chips):
            self.places[chip] = _Place(left + number * step, 6.0, step - 12)

    def legend(self) -> list[tuple[str, str]]:
        """(kind of wire, its rate in words) for each kind and rate."""
        return list(dict.fromkeys((wire.kind, self._wire_text(wire)) for wire in self.drawing.wires))

    def _wire_text(self, wire: Wire) -> str:
        rate = format_quantity(wire.bandwidth, "B/s")
        ends = {self.kinds[wire.one], self.kinds[wire.other]}
        if wire.kind == "nvlink":
            alike = "GPU to GPU" if "gpu" in ends else "board to board"
            links = f"{wire.lanes} NVLink{'s' if wire.lanes > 1 else ''}"
            return f"{links}, {rate} one way, {alike if len(ends) == 1 else 'GPU to switch'}"
        if wire.kind == "pcie":
            return f"{'storage port' if 'storage' in ends else 'PCI Express'}, {rate} one way"
        return f"{'between processors' if wire.kind == 'socket' else 'drive, reading'}, {rate}"


def server_picture(drawing: Drawing) -> tuple[list[str], float, float]:
    """SVG elements of the picture, its width and its height."""
    layout = _Layout(drawing)
    elements = [line for wire in drawing.wires for line in _wire(layout, wire)]
    elements += [line for box in drawing.boxes for line in _box(layout, box)]
    y = layout.boxes_end + 38
    for kind, text in layout.legend():
        elements.append(f'<path class="wire w-{kind}" stroke-width="3" d="M6 {y - 4:.1f}h26"/>')
        elements.append(f'<text class="muted" x="40" y="{y:.1f}">{escape(text)}</text>')
        y += _LEGEND
    return elements, layout.width, y - 4


def _box(layout: _Layout, box: Box) -> list[str]:
    area = layout.places.get(box.name)
    if area is None:
        return []
    rect = (
        f'<rect class="box {box.kind}{" fault" if box.slow else ""}" x="{area.left:.1f}" y="{area.top:.1f}"'
        f' width="{area.width:.1f}" height="{area.height:.1f}" rx="4">'
        f"<title>{escape(box.note or box.name)}</title></rect>"
    )
    size = " small" if area.width < 76 else ""
    y = area.top + area.height / 2 + 4.5
    title = escape(_box_title(box, area.width))
    text = f'<text class="mid{size}" x="{area.middle:.1f}" y="{y:.1f}">{title}</text>'
    port = f'<path class="wire w-port" stroke-width="2" d="M{area.middle:.1f} {area.bottom:.1f}v16"/>'
    return [port, rect, text] if box.kind in ("nic", "storage") else [rect, text]


def _box_title(box: Box, width: float) -> str:
    """The text in a box: "GPU 3", or more where there is room."""
    label = box.name.removeprefix("storage-")
    stem = label.rstrip("0123456789")
    number = label[len(stem) :]
    if box.kind == "pcie" and width > 90 and stem == "pcie":
        return f"PCIe switch {number}"
    title = f"{_TITLES.get(stem, stem)} {number}".strip()
    return f"{title}: {box.note}" if box.kind == "cpu" and box.note else title


def _wire(layout: _Layout, wire: Wire) -> list[str]:
    start, end = layout.places.get(wire.one), layout.places.get(wire.other)
    if start is None or end is None:
        return []
    kinds = {layout.kinds[wire.one], layout.kinds[wire.other]}
    thickness = min(1.3 + 1.1 * wire.lanes, 6.0) if wire.kind == "nvlink" else 2.0
    low, high = sorted((start, end), key=lambda area: area.left)
    upper, lower = sorted((start, end), key=lambda area: area.top)
    if kinds == {"gpu"}:
        left, right, up = low.middle + 8, high.middle - 8, low.top - 30 - 15 * layout.reach(wire)
        path = f"M{left:.1f} {low.top:.1f}C{left:.1f} {up:.1f} {right:.1f} {up:.1f} {right:.1f} {low.top:.1f}"
    elif start.top == end.top:
        path, thickness = f"M{low.right:.1f} {low.top + low.height / 2:.1f}H{high.left:.1f}", 5.0
    elif kinds == {"gpu", "nvswitch"} and layout.is_fanned:
        path = f"M{upper.middle:.1f} {upper.bottom:.1f}L{lower.middle:.1f} {lower.top:.1f}"
    else:
        x = min(upper, lower, key=lambda area: area.width).middle
        if kinds == {"pcie", "cpu"} and upper.top < layout.y_cpu:
            x = upper.left + 3  # between the columns, past the adapters
        path = f"M{x:.1f} {upper.bottom:.1f}V{lower.top:.1f}"
    return [f'<path class="wire w-{wire.kind}" stroke-width="{thickness:.1f}" d="{path}"/>']
