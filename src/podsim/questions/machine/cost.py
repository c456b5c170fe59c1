"""`podsim cost`: the energy, carbon dioxide and money of GPU-hours on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass

from podsim.answers.answer import Answer, View
from podsim.answers.expense import HOUR, Offer
from podsim.answers.fields import shown
from podsim.fleet.power import load_power, read_cap
from podsim.fleet.power_cost import assumptions_of, check_hours
from podsim.fleet.price_offers import find_offer, list_offers
from podsim.fleet.site import read_site
from podsim.hardware.cluster import load_cluster
from podsim.options.fleet_options import PoweredCluster
from podsim.options.question import option, question


@dataclass(frozen=True, kw_only=True)
class CostOptions(PoweredCluster):
    """GPU-hours on a cluster, and their prices."""

    gpu_hours: float = option(MISSING, "GPU-hours, summed over GPUs.", example="10000")
    price: Sequence[str] = option((), "A price of the catalog, or USD per GPU-hour; default all. Repeatable.")
    load: str = option("training", "idle, training or peak.")
    carbon: float | None = option(None, "Carbon dioxide of the electricity, kg per kWh.")
    electricity: float | None = option(None, "Price of electricity, USD per kWh.")


@dataclass(frozen=True, kw_only=True)
class BillRow:
    """GPU hours at one price."""

    offer: Offer
    low: float = shown("USD", ":,.0f")
    """USD. The cost at the low end of the price."""
    high: float = shown("to", ":,.0f")
    """USD. The cost at the high end of the price."""


@dataclass(frozen=True, kw_only=True)
class Bill(Answer, view=View(rows="rows")):
    """GPU hours on a cluster: the energy by two accounts, and the money by every price."""

    cluster: str
    gpu_time: float = shown("GPU hours", lambda seconds: f"{seconds / HOUR:,.0f}")
    """s. The time of one GPU, summed over GPUs."""
    plain_energy: float
    """J. The energy as model cards count it: GPU-hours times the GPU's limit."""
    plain_carbon: float
    """kg. The carbon dioxide of that energy."""
    energy: float
    """J. The energy at the meter of the site: GPUs at the load, servers, switches, building."""
    carbon: float
    """kg. The carbon dioxide of that energy."""
    load: str
    rows: tuple[BillRow, ...] = shown(
        "prices", missing="none of this GPU is known; give --price in USD per GPU-hour"
    )
    assumptions: tuple[str, ...]


@question(CostOptions)
def cost(options: CostOptions) -> Bill:
    """Energy, carbon dioxide and money of GPU-hours on a cluster, at each price.

    There are two energies: as model cards count it (hours times the GPU's limit), and as the whole machine draws it
    under a load, at the meter. Raises PodsimError with everything that cannot be.
    """
    part = load_cluster(options.cluster, dict(options.overrides or {}))
    values = {"pue": options.pue, "carbon": options.carbon, "electricity": options.electricity}
    check_hours(part, options.gpu_hours, load=options.load, cap=options.cap, site=values, price=options.price)
    site, seconds = read_site(**values), options.gpu_hours * HOUR
    drawn = load_power(part, options.load, pue=site.pue, cap=read_cap(options.cap))
    offers = [find_offer(text, part, site) for text in options.price] or list(list_offers(part, site))
    energy, plain = drawn.site / part.gpus * seconds, part.gpu.power * seconds
    return Bill(
        cluster=part.name, gpu_time=seconds, plain_energy=plain, plain_carbon=plain * site.carbon, energy=energy,
        carbon=energy * site.carbon, load=options.load, assumptions=assumptions_of(site, offers),
        rows=tuple(BillRow(offer=o, low=o.low * seconds, high=o.high * seconds) for o in offers),
    )  # fmt: skip
