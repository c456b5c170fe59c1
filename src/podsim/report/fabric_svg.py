"""The SVG of a fabric: one server above, then a picture of each network, the first of each layer with its cables."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

from markupsafe import Markup

from podsim.errors import PodsimError
from podsim.hardware.fabrics.describe import Drawing, Layer, Net
from podsim.quoting import visible_lines
from podsim.report.fabric_server import server_picture
from podsim.units import format_quantity
from podsim.whole_files import write_whole

_STYLE = """\
text{font:13px 'DejaVu Sans',Arial,sans-serif;fill:#1f2328}
.title{font-size:17px;font-weight:bold}.head{font-size:14px;font-weight:bold}.muted{fill:#59636e;font-size:12px}
.small{font-size:11px}.mid{text-anchor:middle}.box{stroke-width:1.2}.wire{fill:none;stroke-linecap:round}
.gpu{fill:#d7efe4;stroke:#00795a}.nvswitch{fill:#c3e6d6;stroke:#00795a}.pcie{fill:#e3ebf5;stroke:#5b7aa5}
.cpu{fill:#eceef0;stroke:#59636e}.nic{fill:#fde3cf;stroke:#b84f00}.storage{fill:#efe3f7;stroke:#7c4fa3}
.drive{fill:#f7f0fb;stroke:#7c4fa3}.w-nvlink{stroke:#00795a}.w-pcie{stroke:#5b7aa5}.w-socket{stroke:#59636e}
.w-drive{stroke:#7c4fa3}.w-port{stroke:#b84f00;stroke-dasharray:4 3}.fault{stroke:#cf222e;stroke-width:2.4}
.node{fill:#5fb894;stroke:none}.server{fill:#b99bd6;stroke:none}.leaf{fill:#e08a3c;stroke:none}
.spine{fill:#3d7ab8;stroke:none}.core{fill:#7c4fa3;stroke:none}.chip{fill:#d7efe4;stroke:#00795a}
.band{fill:#f3f4f6}.l-node{stroke:#00795a}.l-leaf{stroke:#e08a3c}.l-spine{stroke:#3d7ab8}.one{stroke-width:1.1;fill:none}
.l-server{stroke:#7c4fa3}
"""
_LEFT, _ROOM, _RIGHT = 190, 980, 30
_STEP, _BOX = 110, 20
_CHIP = 34


def fabric_svg(drawing: Drawing) -> str:
    """One SVG document, the same for the same drawing; nothing in it is fetched."""
    width = 60.0 + _CHIP * max(*drawing.torus, 14) if drawing.torus else _LEFT + _ROOM + _RIGHT
    server, server_width, server_height = server_picture(drawing) if drawing.boxes else ([], 0.0, 0.0)
    width = max(width, server_width + 60)
    body = [_text(24, 34, drawing.title, "title")]
    y = 62.0
    if drawing.torus:
        y = _torus(body, drawing, y)
    if drawing.boxes:
        more = f", one of {drawing.servers:,}" if drawing.servers > 1 else ""
        body.append(_text(24, y, f"Inside a server: {drawing.server}{more}", "head"))
        body.append(f'<g transform="translate({(width - server_width) / 2:.0f} {y + 14:.0f})">')
        body += [*server, "</g>"]
        y += server_height + 50
    for net in drawing.nets:
        y = _net(body, net, y)
    if drawing.faults:
        body.append(_text(24, y, f"Broken or slow: {drawing.faulty:,} links", "head"))
        for fault in drawing.faults:
            y += 18
            body.append(_text(24, y, fault, "small"))
        y += 30
    return visible_lines(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {y:.0f}" width="{width:.0f}"'
        f' height="{y:.0f}" role="img">\n<title>{escape(drawing.title)}</title>\n<style>{_STYLE}</style>\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def draw_file(drawing: Drawing, path: Path) -> None:
    """Write the drawing as SVG; PodsimError for another suffix."""
    if path.suffix.lower() != ".svg":
        raise PodsimError(f"--plot {str(path)[-80:]}: the drawing is SVG; give a name that ends in .svg")
    write_whole(path, fabric_svg(drawing))


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{named}>{escape(text)}</text>'


def _net(body: list[str], net: Net, y: float) -> float:
    """A network from its top layer down; gives where the next picture starts."""
    body.append(_text(24, y, net.title, "head"))
    body.append(_text(_LEFT, y, taper_text(net.taper, net.bisection), "muted"))
    ends = [layer for layer in net.layers if layer.kind in ("node", "server")]
    switches = [layer for layer in net.layers if layer not in ends][::-1]
    rows: list[tuple[Layer, list[tuple[float, float]], float]] = []
    y += 22
    for layer in switches:
        rows.append((layer, _places(layer, _LEFT, _ROOM), y))
        y += _STEP
    total = sum(layer.count for layer in ends)
    start = float(_LEFT)
    for layer in ends:
        room = (
            _ROOM * layer.count / total if len(ends) == 1 else (_ROOM - 60) * max(layer.count / total, 0.25)
        )
        rows.append((layer, _places(layer, start, room), y))
        start += room + 60
    bundles = [_bundle(layer, places, top, _upper_layer(layer, rows)) for layer, places, top in rows]
    body += [band for bands, _ in bundles for band in bands]
    body += [line for _, lines in bundles for line in lines]
    body.append(_text(_LEFT, y + 76, "lines: cables of the first of each layer", "muted"))
    for layer, places, top in rows:
        body += _boxes(layer, places, top)
        body += _labels(layer, places, top, len(ends) > 1 and layer is ends[-1])
    return y + 125


def _upper_layer(
    layer: Layer, rows: Sequence[tuple[Layer, list[tuple[float, float]], float]]
) -> tuple[list[tuple[float, float]], float] | None:
    """The positions and height of the layer that a layer is wired to."""
    kind = {"node": "leaf", "server": "leaf", "leaf": "spine", "spine": "core"}.get(layer.kind)
    return next(((places, top) for other, places, top in rows if other.kind == kind), None)


def _places(layer: Layer, start: float, room: float) -> list[tuple[float, float]]:
    """(left, width) of each switch or node, groups a little apart."""
    gap = min(14.0, room / 6 / max(len(layer.groups) - 1, 1)) if len(layer.groups) > 1 else 0.0
    step = min((room - gap * (len(layer.groups) - 1)) / layer.count, 46.0)
    size = step * 0.8 if step > 3 else step * 0.86
    used = step * layer.count + gap * (len(layer.groups) - 1)
    x, places = start + (room - used) / 2, []
    for group in layer.groups:
        for _ in range(group):
            places.append((x + (step - size) / 2, size))
            x += step
        x += gap
    return places


def _bundle(
    layer: Layer,
    places: list[tuple[float, float]],
    top: float,
    above: tuple[list[tuple[float, float]], float] | None,
) -> tuple[list[str], list[str]]:
    """All cables to the layer above as a band, and those of the first part as lines."""
    if above is None or not layer.cables:
        return [], []
    high, roof = above
    bottom = roof + _BOX
    corners = [
        (places[0][0], top), (places[-1][0] + places[-1][1], top),
        (high[-1][0] + high[-1][1], bottom), (high[0][0], bottom),
    ]  # fmt: skip
    shape = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    left, size = places[0]
    lines = [
        f'<path class="one l-{layer.kind}" d="M{left + size / 2:.1f} {top:.1f}'
        f'L{high[index][0] + high[index][1] / 2:.1f} {bottom:.1f}"/>'
        for index in layer.first
        if index < len(high)
    ]
    return [f'<polygon class="band" points="{shape}"/>'], lines


def _boxes(layer: Layer, places: list[tuple[float, float]], top: float) -> list[str]:
    round_ = 2 if places[0][1] > 6 else 0
    return [
        f'<rect class="{layer.kind}" x="{left:.2f}" y="{top:.1f}" width="{size:.2f}" height="{_BOX}" rx="{round_}"/>'
        for left, size in places
    ]


def _labels(layer: Layer, places: list[tuple[float, float]], top: float, aside: bool) -> list[str]:
    """Count and switch on the left, cables up above them. A second layer of ends has its labels below its boxes."""
    plural = {"leaf": "leaves"}.get(layer.kind, layer.kind + "s") if layer.count > 1 else layer.kind
    name = f"{layer.count:,} {plural}"
    about = group_text(layer.groups, layer.group) if layer.group else ""
    cables = f"{layer.cables:,} x {format_quantity(layer.bandwidth * 8, 'b/s')}" if layer.cables else ""
    if aside:
        left = places[0][0]
        return [_text(left, top + 38, name), _text(left, top + 55, f"{cables} up", "muted")]
    texts = [_text(24, top + 15, name)]
    lines = [text for text in (layer.switch, about) if text]
    texts += [_text(24, top + 32 + 16 * n, text, "muted") for n, text in enumerate(lines)]
    if cables:
        texts.append(_text(24, top - 24, f"{cables} ↕", "muted"))
    return texts


def _torus(body: list[str], drawing: Drawing, y: float) -> float:
    """The first two dimensions as a grid, rings hinted at by stubs."""
    shape = [*drawing.torus, 1][:2]
    rows, columns = shape[0], shape[1]
    more = "".join(f" x {size}" for size in drawing.torus[2:])
    size, rate = " x ".join(map(str, drawing.torus)), format_quantity(drawing.torus_bandwidth, "B/s")
    said = f"torus of {size} chips, {rate} a link"
    body.append(
        _text(24, y, said + (f"; one layer of {more.removeprefix(' x ')} is drawn" if more else ""), "head")
    )
    step, x, top = min(_CHIP, _ROOM / columns), 60.0, y + 36
    far = x + (columns - 1) * step, top + (rows - 1) * step
    for row in range(rows):
        at = top + row * step
        body.append(f'<path class="wire w-nvlink" d="M{x - 20:.1f} {at:.1f}H{far[0] + 20:.1f}"/>')
    for column in range(columns):
        at = x + column * step
        body.append(f'<path class="wire w-nvlink" d="M{at:.1f} {top - 20:.1f}V{far[1] + 20:.1f}"/>')
    half = step * 0.28
    body += [
        f'<rect class="chip" x="{x + column * step - half:.1f}" y="{top + row * step - half:.1f}"'
        f' width="{2 * half:.1f}" height="{2 * half:.1f}" rx="2"/>'
        for row in range(rows)
        for column in range(columns)
    ]
    body.append(_text(x - 20, far[1] + 48, "lines that leave the grid come back on the other side", "muted"))
    return far[1] + 80


def taper_text(taper: float, bisection: float) -> str:
    """The capacity of a network, in words; a taper of 0 means that nothing joins the switches."""
    halves = f"{format_quantity(bisection, 'B/s')} between halves, one way"
    if not taper:
        return halves if bisection else "switches that nothing joins"
    if abs(taper - 1) < 1e-9:
        return f"as much bandwidth up from a full leaf as down; {halves}"
    if taper < 1:
        return f"{1 / taper:.3g} times as much bandwidth up from a full leaf as down; {halves}"
    return f"{taper:.3g}:1 tapered; {halves}"


def group_text(sizes: Sequence[int], name: str) -> str:
    """The composition of groups: 7 units of 20."""
    low, high = min(sizes), max(sizes)
    return f"{len(sizes)} {name}s of {low}" + (f" to {high}" if high > low else "")


def drawing_figures(drawing: Drawing) -> list[Markup]:
    """The drawing as an image, which keeps its styles to itself."""
    data = base64.b64encode(fabric_svg(drawing).encode()).decode()
    return [
        Markup('<figure><img alt="{}" src="data:image/svg+xml;base64,{}"></figure>').format(
            drawing.title, data
        )
    ]
