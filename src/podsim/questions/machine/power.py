"""`podsim power`: the power of a cluster by load and component, and its High-Performance Linpack."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.answer import Answer, View
from podsim.answers.expense import Benchmark, LoadPower
from podsim.answers.fields import shown
from podsim.fleet.power import (
    LOADS,
    capped_speed,
    count_switches,
    load_power,
    make_node,
    power_sources,
    read_cap,
)
from podsim.fleet.power_hpl import hpl, law_words
from podsim.fleet.site import read_site
from podsim.hardware.cluster import load_cluster
from podsim.options.fleet_options import PoweredCluster
from podsim.options.question import option, question
from podsim.units import format_quantity

_OVER = "; over 100 % it holds the GPUs back; peaks are of single samples, all GPUs at once"
"""what a load above a server's limit means"""


@dataclass(frozen=True, kw_only=True)
class PowerOptions(PoweredCluster):
    """A cluster, and what bounds its power."""

    gpus: int | None = option(None, "GPUs of it; default all.")


@dataclass(frozen=True, kw_only=True)
class PowerReport(Answer, view=View(rows="loads")):
    """What a cluster draws: by load and component, against its limit, and in High-Performance Linpack."""

    cluster: str
    nodes: int
    gpus: int = shown("GPUs")
    cap: float = shown("cap of a GPU")
    """W. The power that each GPU may draw."""
    speed: float = shown("speed under it", ":.0%", hide_if=1.0)
    """factor. The speed of arithmetic under that cap, relative to none."""
    limit: float = shown("limit of a server", of_row=lambda report: report.limit_text)
    """W. The power for which one server is built."""
    pue: float = shown("PUE", ":g")
    """factor. The power of the site over that of the machine."""
    switches: float = shown(format=":,.4g")
    """count. The switches, or a part's share of them."""
    loads: tuple[LoadPower, ...]
    benchmark: Benchmark | None = shown(title="High-Performance Linpack")
    """The Linpack result; None: its GPUs have no double-precision tensor peak."""
    sources: tuple[str, ...]

    @property
    def limit_text(self) -> str:
        """The power for which a server is built, and the share of it under each load."""
        shares = ", ".join(f"{load.load} {load.node / self.limit:.0%}" for load in self.loads)
        is_over = any(load.node > self.limit for load in self.loads)
        return f"{format_quantity(self.limit, 'W')}: {shares}" + (_OVER if is_over else "")


@question(PowerOptions)
def power(options: PowerOptions) -> PowerReport:
    """What a cluster draws idle, in training, at its highest and in High-Performance Linpack, by component.

    Raises PodsimError for an unknown cluster, and for an impossible cap or PUE.
    """
    part = load_cluster(options.cluster, dict(options.overrides or {}), options.gpus)
    cap = read_cap(options.cap)
    site = read_site(options.pue, None, None)
    node, benchmark = make_node(part, cap), hpl(part, cap=cap)
    loads = [load_power(part, load, pue=site.pue, cap=cap) for load in LOADS]
    if benchmark is not None:
        loads.append(load_power(part, "HPL", pue=site.pue, cap=cap, busy=benchmark.busy))
    linpack = [] if benchmark is None else [f"Linpack: {law_words()}"]
    return PowerReport(
        cluster=part.name, nodes=part.nodes, gpus=part.gpus, cap=node.limit, speed=capped_speed(part, cap),
        limit=node.maximum, pue=site.pue, switches=count_switches(part), loads=tuple(loads), benchmark=benchmark,
        sources=(*power_sources(part, cap), *linpack, *(text for text in site.assumptions if text.startswith("pue"))),
    )  # fmt: skip
