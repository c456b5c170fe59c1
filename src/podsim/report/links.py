"""What the switches of a simulated step would report: which link was busiest, who used it, where it is, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from podsim.report.table import Table, paragraph
from podsim.results.simulated import LinkUse, SimulatedStep
from podsim.units import format_quantity

Floats: TypeAlias = NDArray[np.float64]
LEVELS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9)
"""lower ends of the classes of utilisation that links and times are counted in"""
_BARS = " ▁▂▃▄▅▆▇█"
_SHOWN, _BINS = 8, 40


def utilisation(use: LinkUse, seconds: float) -> float:
    """Share of what a link could have carried in a length of time that it did carry."""
    return use.bytes / (use.capacity * seconds) if seconds > 0 and use.capacity > 0 else 0.0


def use_over_time(use: LinkUse, seconds: float, bins: int) -> Floats:
    """Mean utilisation in each of `bins` equal parts of a length of time: the bytes carried there over what fits."""
    edges = np.linspace(0.0, seconds, bins + 1)
    if not len(use.time):
        return np.zeros(bins)
    time = np.append(use.time, max(seconds, float(use.time[-1])))
    carried = np.concatenate([[0.0], np.cumsum(use.rate * np.diff(time))])
    share = np.diff(np.interp(edges, time, carried)) / (use.capacity * seconds / bins)
    return np.asarray(share)


def levels_of(use: LinkUse, seconds: float) -> Floats:
    """Share of a length of time that a link's utilisation spends in each class of LEVELS, the first of them idle."""
    if not len(use.time) or seconds <= 0:
        return np.asarray([1.0, *[0.0] * (len(LEVELS) - 1)])
    time = np.append(use.time, max(seconds, float(use.time[-1])))
    held = np.diff(np.clip(time, 0.0, seconds))
    place = np.searchsorted(np.array(LEVELS), use.rate / use.capacity + 1e-9, side="right") - 1
    spent = np.bincount(np.clip(place, 0, None), held, len(LEVELS))
    spent[0] += seconds - held.sum()
    return np.asarray(spent / seconds)


def ranked(step: SimulatedStep) -> list[LinkUse]:
    """Links that carried something, the busiest first."""
    used = [use for use in step.links if use.bytes > 0]
    return sorted(used, key=lambda use: -utilisation(use, step.step_time))


def carriers(use: LinkUse) -> str:
    """Who used a link: kinds of op with their shares of its bytes, "tp 80 %, dp 20 %"."""
    whole = sum(use.carried.values())
    order = sorted(use.carried.items(), key=lambda item: -item[1])
    told = [
        f"{kind} {held / whole:.0%}".replace("%", " %") for kind, held in order[:3] if held > 0.005 * whole
    ]
    return ", ".join(told) if whole else "-"


def _when(use: LinkUse, seconds: float) -> str:
    """The tenth of the step in which the link is busiest, and how busy it is there."""
    share = use_over_time(use, seconds, 10)
    top = int(np.argmax(share))
    return f"{share[top]:.0%} from {format_quantity(top * seconds / 10, 's', digits=3)}".replace("%", " %", 1)


def _sparkline(share: Floats) -> str:
    return "".join(_BARS[int(np.clip(np.ceil(one * 8 - 1e-9), 0, 8))] for one in share)


def link_lines(step: SimulatedStep, width: int, *, shown: int = _SHOWN) -> list[str]:
    """The busiest links as a table with their use over time, then how many links are how busy."""
    links = ranked(step)
    if not links:
        return ["Links: none carried anything"]
    table = Table("lrrrrll", header=("busiest links", "each", "sent", "used", "busy", "busiest tenth", "by"))
    for use in links[:shown]:
        name = use.name + (f" x{use.copies:,}" if use.copies > 1 else "")
        table.add(
            name, format_quantity(use.capacity, "B/s"), format_quantity(use.bytes, "B"),
            _share(utilisation(use, step.step_time)), _share(use.busy / step.step_time),
            _when(use, step.step_time), carriers(use),
        )  # fmt: skip
    for gone in ((), (1,), (1, 4), (1, 2, 4)):
        made = table.without(*gone)
        if made.fits(width):
            break
    lines = [line for line, _ in made.lines(width)]
    lines += ["", *_over_time(links[:shown], step, width), "", *_levels(links, step, width)]
    return lines


def _share(share: float) -> str:
    return f"{share * 100:.1f} %"


def _over_time(links: Sequence[LinkUse], step: SimulatedStep, width: int) -> list[str]:
    """A line of bars for each link: its mean utilisation in equal parts of the step."""
    names = max(len(use.name) for use in links)
    bins = max(10, min(_BINS * 2, width - names - 6))
    end = format_quantity(step.step_time, "s", digits=3)
    head = f"  {'use over the step':{names}}  0 s".ljust(names + 4 + bins - len(end)) + end
    return [
        head,
        *(
            f"  {use.name:{names}}  {_sparkline(use_over_time(use, step.step_time, bins))}".rstrip()
            for use in links
        ),
    ]


def _levels(links: Sequence[LinkUse], step: SimulatedStep, width: int) -> list[str]:
    """How many links, copies counted, are how busy over the step, and how long the busiest is at each level."""
    mean = np.array([utilisation(use, step.step_time) for use in links])
    copies = np.array([use.copies for use in links])
    idle = sum(use.copies for use in step.links) - int(copies.sum())
    place = np.clip(np.searchsorted(np.array(LEVELS), mean, side="right") - 1, 0, None)
    count = np.bincount(place, copies, len(LEVELS)).astype(int)
    count[0] += idle
    spent = levels_of(links[0], step.step_time)
    ends = [*LEVELS[1:], 1.0]
    names = [f"{low * 100:.0f} to {high * 100:.0f} %" for low, high in zip(LEVELS, ends, strict=True)]
    table = Table("lrrl", header=("used", "links", "time of the busiest", ""))
    room = max(10, min(40, width - 50))
    for name, links_there, share in zip(names, count.tolist(), spent.tolist(), strict=True):
        table.add(name, f"{links_there:,}", _share(share), "▇" * round(room * share))
    lines = [line for line, _ in table.lines(width)]
    some = f"{idle:,} of {idle + int(copies.sum()):,} links carried nothing." if idle else ""
    return lines + (paragraph(some, width, indent="  ") if some else [])
