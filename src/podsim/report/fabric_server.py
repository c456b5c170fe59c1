"""The picture of a server: NVSwitches on top, then GPUs, PCIe switches, adapters, processors, storage and drives."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from podsim.hardware.fabrics.describe import Box, Drawing, Wire
from podsim.units import format_quantity

_SLOT, _SMALL, _HIGH = 92.0, 66.0, 34.0
_GAP = 26.0
_LEGEND = 18.0


@dataclass(frozen=True)
class _Place:
    left: float
    top: float
    width: float
    high: float = _HIGH

    @property
    def middle(self) -> float:
        return self.left + self.width / 2

    @property
    def bottom(self) -> float:
        return self.top + self.high


class _Layout:
    """Where every part goes: columns by what hangs on which switch, rows by kind."""

    def __init__(self, drawing: Drawing) -> None:
        self.drawing = drawing
        self.kinds = {box.name: box.kind for box in drawing.boxes}
        self.above = self._tree()
        fast = [wire for wire in drawing.wires if wire.kind == "nvlink"]
        self.chips = [box.name for box in drawing.boxes if box.kind == "nvswitch"]
        gpu_wires = [wire for wire in fast if "gpu0" in (wire.one, wire.other)]
        self.fanned = bool(self.chips) and len(gpu_wires) > 1
        self.arcs = [wire for wire in fast if not self.chips]
        self.depth = {name: self._depth(name) for name, kind in self.kinds.items() if kind == "pcie"}
        self.inner = [name for name in self.depth if not self._is_card(name)]
        self.places: dict[str, _Place] = {}
        self.right = 0.0
        self._rows()
        for cpu in self._of("cpu"):
            self._column(cpu)
        self._top_row()
        self.size = (
            self.right + 10,
            max(place.bottom for place in self.places.values()) + 34 + _LEGEND * len(self.legend()),
        )

    def _of(self, kind: str) -> list[str]:
        return [name for name, other in self.kinds.items() if other == kind]

    def _tree(self) -> dict[str, str]:
        """What each device or switch hangs on, on the way to a processor."""
        above: dict[str, str] = {}
        queue = self._of("cpu")
        while queue:
            top = queue.pop(0)
            for wire in self.drawing.wires:
                other = {wire.one: wire.other, wire.other: wire.one}.get(top, "")
                if (
                    wire.kind in ("pcie", "drive")
                    and other
                    and other not in above
                    and self.kinds[other] != "cpu"
                ):
                    above[other] = top
                    queue.append(other)
        return above

    def _depth(self, name: str) -> int:
        depth = 0
        while self.kinds.get(name) == "pcie":
            name, depth = self.above.get(name, ""), depth + 1
        return depth

    def _is_card(self, name: str) -> bool:
        """Whether only storage hangs on a switch: then it goes below the processor."""
        hung = [self.kinds[child] for child, top in self.above.items() if top == name]
        return bool(hung) and set(hung) <= {"storage", "drive"}

    def _rows(self) -> None:
        tallest = max((self.depth[name] for name in self.inner), default=0)
        arcs = 40.0 + 15.0 * max((self.reach(wire) for wire in self.arcs), default=0) if self.arcs else 0.0
        self.y_chip = 6.0
        self.y_gpu = 6.0 + (_HIGH + (90.0 if self.fanned else 44.0) if self.chips else arcs)
        self.y_pcie = {depth: self.y_gpu + 74.0 + 60.0 * (tallest - depth) for depth in range(1, tallest + 1)}
        self.y_nic = (max(self.y_pcie.values()) if self.y_pcie else self.y_gpu) + 74.0
        self.y_cpu = self.y_nic + (86.0 if self._of("nic") else 0.0)
        self.y_low = self.y_cpu + 70.0

    def reach(self, wire: Wire) -> int:
        """How many GPUs further a cable leads."""
        gpus = self._of("gpu")
        return abs(gpus.index(wire.one) - gpus.index(wire.other))

    def _under(self, top: str, kinds: Iterable[str]) -> list[str]:
        """Devices below a part, at any depth."""
        devices = []
        for child, parent in self.above.items():
            if parent == top and not (self.kinds[child] == "pcie" and self._is_card(child)):
                devices += [child] if self.kinds[child] in kinds else self._under(child, kinds)
        return devices

    def _column(self, cpu: str) -> None:
        """A processor and all that hangs on it."""
        start = self.right + (_GAP if self.right else 0.0)
        x = start
        leaves = [name for name in self.inner if self._root(name) == cpu and self._holds(name)]
        for leaf in leaves:
            gpus, nics = self._held(leaf, "gpu"), self._held(leaf, "nic")
            width = max(len(gpus), len(nics), 1) * _SLOT
            self._spread(gpus, x, width, self.y_gpu)
            self._spread(nics, x, width, self.y_nic)
            self.places[leaf] = _Place(x, self.y_pcie[self.depth[leaf]], width - 6, 26)
            x += width + 8
        direct = [child for child, top in self.above.items() if top == cpu]
        own = [[child for child in direct if self.kinds[child] == kind] for kind in ("gpu", "nic")]
        if any(own):
            width = max(map(len, own)) * _SLOT
            self._spread(own[0], x, width, self.y_gpu)
            self._spread(own[1], x, width, self.y_nic)
            x += width
        low = self._low(cpu)
        width = max(x - start - 8, len(low) * _SMALL, 120.0)
        self.places[cpu] = _Place(start, self.y_cpu, width - 6)
        self._storage(low, start, width)
        self.right = start + width
        for name in sorted(self.inner, key=lambda one: -self.depth[one]):
            if name not in self.places and self._root(name) == cpu:
                self._bridge(name)

    def _held(self, switch: str, kind: str) -> list[str]:
        return [child for child, top in self.above.items() if top == switch and self.kinds[child] == kind]

    def _holds(self, switch: str) -> bool:
        return bool(self._held(switch, "gpu") or self._held(switch, "nic"))

    def _root(self, name: str) -> str:
        while self.kinds.get(name) == "pcie":
            name = self.above.get(name, "")
        return name

    def _bridge(self, name: str) -> None:
        """A switch above others, as wide as they are."""
        below = [
            self.places[child] for child, top in self.above.items() if top == name and child in self.places
        ]
        if below:
            left = min(place.left for place in below)
            right = max(place.left + place.width for place in below)
            self.places[name] = _Place(left, self.y_pcie[self.depth[name]], right - left, 26)

    def _spread(self, names: list[str], x: float, width: float, y: float) -> None:
        step = width / max(len(names), 1)
        for place, name in enumerate(names):
            self.places[name] = _Place(x + place * step + (step - _SLOT) / 2 + 8, y, _SLOT - 16)

    def _low(self, cpu: str) -> list[str]:
        """Storage ports and drives of a processor, ports of a card together."""
        ports = []
        for child, top in self.above.items():
            if top == cpu and self.kinds[child] == "pcie" and self._is_card(child):
                ports += [port for port, card in self.above.items() if card == child]
        return ports + [
            child
            for child, top in self.above.items()
            if top == cpu and self.kinds[child] in ("drive", "storage")
        ]

    def _storage(self, low: list[str], start: float, width: float) -> None:
        carded = any(self.kinds[self.above[name]] == "pcie" for name in low)
        step = width / max(len(low), 1)
        for place, name in enumerate(low):
            y = self.y_low + (54.0 if carded else 0.0)
            self.places[name] = _Place(start + place * step + 3, y, step - 6)
        for card in dict.fromkeys(self.above[name] for name in low if self.kinds[self.above[name]] == "pcie"):
            ports = [self.places[name] for name in low if self.above[name] == card]
            left, right = ports[0].left, ports[-1].left + ports[-1].width
            self.places[card] = _Place(left, self.y_low, right - left, 26)

    def _top_row(self) -> None:
        if not self.chips:
            return
        gpus = [self.places[name] for name in self._of("gpu") if name in self.places]
        left, right = min(place.left for place in gpus), max(place.left + place.width for place in gpus)
        step = (right - left + 12) / len(self.chips)
        for place, chip in enumerate(self.chips):
            self.places[chip] = _Place(left + place * step, self.y_chip, step - 12)

    def legend(self) -> list[tuple[str, str]]:
        """(kind of wire, what it carries) for each kind and rate."""
        entries: dict[tuple[str, str], None] = {}
        for wire in self.drawing.wires:
            rate = format_quantity(wire.bandwidth, "B/s")
            if wire.kind == "nvlink":
                links = f"{wire.lanes} NVLink{'s' if wire.lanes > 1 else ''}"
                ends = {self.kinds[wire.one], self.kinds[wire.other]}
                between = {1: "GPU to GPU" if "gpu" in ends else "board to board", 2: "GPU to switch"}[
                    len(ends)
                ]
                entries["nvlink", f"{links}, {rate} one way, {between}"] = None
            elif wire.kind == "pcie":
                what = (
                    "storage port"
                    if "storage" in (self.kinds[wire.one], self.kinds[wire.other])
                    else "PCI Express"
                )
                entries["pcie", f"{what}, {rate} one way"] = None
            else:
                what = {"socket": "between processors", "drive": "drive, reading"}[wire.kind]
                entries[wire.kind, f"{what}, {rate}"] = None
        return list(entries)


def server_size(drawing: Drawing) -> tuple[float, float]:
    """Width and height of the picture."""
    return _Layout(drawing).size


def server_svg(drawing: Drawing) -> list[str]:
    """SVG elements of the picture."""
    layout = _Layout(drawing)
    lines = [line for wire in drawing.wires for line in _wire(layout, wire)]
    lines += [line for box in drawing.boxes for line in _box(layout, box)]
    y = layout.size[1] - _LEGEND * len(layout.legend()) + 4
    for kind, text in layout.legend():
        lines.append(f'<path class="wire w-{kind}" stroke-width="3" d="M6 {y - 4:.1f}h26"/>')
        lines.append(f'<text class="muted" x="40" y="{y:.1f}">{escape(text)}</text>')
        y += _LEGEND
    return lines


def _box(layout: _Layout, box: Box) -> list[str]:
    place = layout.places.get(box.name)
    if place is None:
        return []
    label = box.name.removeprefix("storage-")
    stem = label.rstrip("0123456789")
    names = {"gpu": "GPU", "nic": "NIC", "cpu": "CPU", "pcie": "PCIe", "nvswitch": "NVSwitch"}
    title = f"{names.get(stem, stem)} {label[len(stem) :]}".strip()
    if box.kind == "cpu" and box.note:
        title += f": {box.note}"
    elif box.kind == "pcie" and place.width > 90 and stem == "pcie":
        title = f"PCIe switch {label[len(stem) :]}"
    fault = " fault" if box.slow else ""
    rect = (
        f'<rect class="box {box.kind}{fault}" x="{place.left:.1f}" y="{place.top:.1f}" width="{place.width:.1f}"'
        f' height="{place.high:.1f}" rx="4"><title>{escape(box.note or box.name)}</title></rect>'
    )
    size = " small" if place.width < 76 else ""
    y = place.top + place.high / 2 + 4.5
    text = f'<text class="mid{size}" x="{place.middle:.1f}" y="{y:.1f}">{escape(title)}</text>'
    port = []
    if box.kind in ("nic", "storage"):
        port = [f'<path class="wire w-port" stroke-width="2" d="M{place.middle:.1f} {place.bottom:.1f}v16"/>']
    return [*port, rect, text]


def _wire(layout: _Layout, wire: Wire) -> list[str]:
    one, other = layout.places.get(wire.one), layout.places.get(wire.other)
    if one is None or other is None:
        return []
    kinds = {layout.kinds[wire.one], layout.kinds[wire.other]}
    wide = min(1.3 + 1.1 * wire.lanes, 6.0) if wire.kind == "nvlink" else 2.0
    if kinds == {"gpu"}:
        low, high = sorted((one, other), key=lambda place: place.left)
        left, right, up = low.middle + 8, high.middle - 8, low.top - 30 - 15 * layout.reach(wire)
        path = f"M{left:.1f} {low.top:.1f}C{left:.1f} {up:.1f} {right:.1f} {up:.1f} {right:.1f} {low.top:.1f}"
    elif one.top == other.top:
        low, high = sorted((one, other), key=lambda place: place.left)
        path = f"M{low.left + low.width:.1f} {low.top + low.high / 2:.1f}H{high.left:.1f}"
        wide = 5.0
    else:
        upper, lower = sorted((one, other), key=lambda place: place.top)
        narrow = upper if upper.width < lower.width else lower
        x = narrow.middle
        if kinds == {"gpu", "nvswitch"} and layout.fanned:
            path = f"M{upper.middle:.1f} {upper.bottom:.1f}L{lower.middle:.1f} {lower.top:.1f}"
            return [f'<path class="wire w-nvlink" stroke-width="{wide:.1f}" d="{path}"/>']
        if kinds == {"pcie", "cpu"} and upper.top < layout.y_cpu:
            x = upper.left + 3  # between the columns, past the adapters
        path = f"M{x:.1f} {upper.bottom:.1f}V{lower.top:.1f}"
    return [f'<path class="wire w-{wire.kind}" stroke-width="{wide:.1f}" d="{path}"/>']
