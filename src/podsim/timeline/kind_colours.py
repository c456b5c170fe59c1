"""One colour for each kind of op, the same in every picture: Okabe and Ito's palette, then darker and lighter ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from podsim.report.chart_marks import BLUE

_KNOWN = {
    "forward": BLUE, "backward": "#D55E00", "weight": "#E69F00", "recompute": "#CC79A7", "optimizer": "#6F5BD0",
    "tp": "#009E73", "pp": "#56B4E9", "dp": "#7A5A2E", "cp": "#7CC8AD", "ep": "#F2B59B", "bubble": "#D3D7DE",
    "compute": "#D55E10", "memory": "#E6A010", "launch": "#CC79A8", "host": "#4D4D4E", "send": "#56B4EA",
    "tp beside": "#8ED1BD", "push": "#009E74", "pull": "#56B4EB", "wait": "#D3D7DF", "all-reduce": "#7A5A30",
}  # fmt: skip
"""kinds that every simulated step has: the same colour whatever else is there"""
_OTHERS = (
    "#8C6BB1", "#003F63", "#A6C8E0", "#7F3700", "#B5CF6B", "#00543D", "#E3A8C6", "#4D4D4D", "#D9C27A", "#5C6F7B",
)  # fmt: skip


def colours(kinds: Iterable[str]) -> Mapping[str, str]:
    """Colour of each kind as "#rrggbb": a fixed colour for well-known kinds, otherwise one that no other kind here has.

    Beyond twenty kinds the colours repeat.
    """
    named = list(dict.fromkeys(kinds))
    taken = {_KNOWN[kind] for kind in named if kind in _KNOWN}
    free = [colour for colour in (*_KNOWN.values(), *_OTHERS) if colour not in taken]
    rest = [kind for kind in named if kind not in _KNOWN]
    spare = free or [*_KNOWN.values(), *_OTHERS]
    given = {kind: spare[index % len(spare)] for index, kind in enumerate(rest)}
    return {kind: _KNOWN.get(kind, given.get(kind, BLUE)) for kind in named}


def rgb(colour: str) -> tuple[float, float, float]:
    """Red, green and blue of "#rrggbb", each from 0 to 1."""
    red, green, blue = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    return red, green, blue


def ink_on(colour: str) -> str:
    """Black or white, whichever is easier to read on a colour."""
    red, green, blue = rgb(colour)
    return "#ffffff" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.6 else "#1f2328"
