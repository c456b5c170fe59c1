"""Prices per GPU-hour: those of the catalog, a user's, and the default.

The default is the middle one of the rents of the newest date (fleet/prices.toml). A GPU without a rent of the last year
of the catalog has an estimate:

    price = price of another GPU x list price / list price of that GPU

The other GPU is the one nearest in list price that has such a rent. Source: fleet/list_prices.toml. Known error, on
the GPUs that have a rent of their own: Hopper and Blackwell within 8 %, the A100 32 % low. Limits: scarcity, age, and
cards for games, whose makers bar them from data centres.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from math import isfinite, log
from typing import TYPE_CHECKING

from podsim.answers.expense import HOUR, Offer
from podsim.errors import PlanError, PodsimError, UnitError, unknown_name
from podsim.fleet.power import load_power
from podsim.fleet.power_catalog import list_prices, prices
from podsim.fleet.site import Site, read_site
from podsim.hardware.cluster import Cluster

if TYPE_CHECKING:
    from podsim.fleet.power_schema import PriceEntry

ESTIMATED = "estimated"
"""The name of a price that is none of the catalog's."""
_YEAR = 365.0 * 86400.0
_RECENT = 12
"""months before the newest price, of rents that may be the default"""


@lru_cache(maxsize=64)
def list_offers(cluster: Cluster, site: Site | None = None) -> tuple[Offer, ...]:
    """The prices of the cluster's GPU, the default first, then in the catalog's order; none for an unknown GPU.

    A MIG instance has its share of its GPU's prices, by memory. Prices of owned GPUs include electricity.
    """
    gpu, is_instance, _ = cluster.gpu.name.partition("/")
    offers = [_make_offer(name, prices()[name], cluster, site) for name in _names(gpu)]
    usual = _usual_offer(gpu)
    if usual is not None:
        offers = [usual, *(offer for offer in offers if offer.name != usual.name)]
    return (
        tuple(_of_instance(offer, cluster.gpu.fraction) for offer in offers) if is_instance else tuple(offers)
    )


def is_rent(entry: PriceEntry) -> bool:
    """Whether a price is what a tenant pays."""
    return not entry.kind.startswith("own")


def _names(gpu: str) -> list[str]:
    return [name for name, entry in prices().items() if gpu in entry.gpus]


def _of_instance(offer: Offer, share: float) -> Offer:
    ends = {name: getattr(offer, name) * share for name in ("low", "high", "least", "most")}
    return replace(offer, kind=f"{share:.3g} of a GPU, {offer.kind}", **ends)


def _make_offer(name: str, entry: PriceEntry, cluster: Cluster, site: Site | None) -> Offer:
    if entry.purchase is None:
        return _rented(name, entry)
    site = site or read_site(None, None, None)
    watts = load_power(cluster, "training", pue=site.pue).site / cluster.gpus
    own = entry.purchase / entry.per / (entry.years * _YEAR) + watts * site.electricity
    return replace(_rented(name, entry), low=own, high=own, least=own, most=own)


def _rented(name: str, entry: PriceEntry) -> Offer:
    """The offer of an entry with a price per GPU-hour."""
    low = (entry.low or 0.0) / HOUR
    high = (entry.high or entry.low or 0.0) / HOUR
    return Offer(
        name=name, provider=entry.provider, kind=entry.kind, date=entry.date, source=entry.source,
        low=low, high=high, least=low, most=high,
    )  # fmt: skip


def _month(date: str) -> int:
    """The months of a date such as "2026-08", "early 2026" or "undated"."""
    when = re.search(r"(\d{4})(?:-(\d\d))?", date)
    return 12 * int(when[1]) + int(when[2] or 1) if when else 0


def _rents(gpu: str) -> dict[str, PriceEntry]:
    """The rents of a GPU in the last year of the catalog."""
    first = max(_month(entry.date) for entry in prices().values()) - _RECENT
    known = {name: prices()[name] for name in _names(gpu)}
    return {name: entry for name, entry in known.items() if is_rent(entry) and _month(entry.date) >= first}


def _usual_offer(gpu: str) -> Offer | None:
    """The default price of a GPU: of the catalog, or an estimate; None for an unknown GPU."""
    rents = _rents(gpu)
    if not rents:
        return _estimate(gpu)
    offers = [_rented(name, entry) for name, entry in rents.items()]
    newest = max(_month(offer.date) for offer in offers)
    of_date = sorted((offer for offer in offers if _month(offer.date) == newest), key=lambda offer: offer.low)
    least, most = min(offer.low for offer in offers), max(offer.high for offer in offers)
    return replace(of_date[(len(of_date) - 1) // 2], least=least, most=most)


def _estimate(gpu: str) -> Offer | None:
    """The price of a GPU without a rent, by the ratio of list prices."""
    table = next((table for table in list_prices() if gpu in table.usd), None)
    if table is None:
        return None
    own = table.usd[gpu]
    rented = [name for name in table.usd if name != gpu and _rents(name)]
    other = min(rented, key=lambda name: abs(log(table.usd[name] / own)))
    offer, ratio = _usual_offer(other), own / table.usd[other]
    assert offer is not None
    low, high = offer.low * ratio, offer.high * ratio
    return replace(
        offer, name=ESTIMATED, provider=ESTIMATED, kind=f"{ratio:.3g} of the price of {other}",
        source=f"{offer.name}, and the list prices {own:,g} and {table.usd[other]:,g} USD: {table.source}",
        low=low, high=high, least=low, most=high,
    )  # fmt: skip


def price_offer(
    text: str, cluster: Cluster, site: Site | None = None, *, objective: str = ""
) -> Offer | None:
    """The price that a text names, or else the default; None for a GPU without any. Raises as `find_offer` does.

    Raises PlanError for a GPU without any where the objective is cost.
    """
    offers = (find_offer(text, cluster, site),) if text else list_offers(cluster, site)
    if objective == "cost" and not offers:
        raise PlanError(
            [f"objective=cost: no price of {cluster.gpu.name} is known; give one, such as price=2.10"]
        )
    return offers[0] if offers else None


def find_offer(text: str, cluster: Cluster, site: Site | None = None) -> Offer:
    """The price that a text names: one of `list_offers`, or USD per GPU-hour.

    Raises PodsimError for an unknown name and for another GPU, and UnitError for an impossible amount.
    """
    words = text.strip().lower().removesuffix("/h").removesuffix("usd").removeprefix("$").strip()
    try:
        amount = float(words)
    except ValueError:
        return _named_offer(text, cluster, site)
    if not (isfinite(amount) and 0 < amount < 1e6):
        raise UnitError(f"price {text[:40]!r}: a GPU costs more than 0 USD an hour, such as 2.10")
    usd = amount / HOUR
    return Offer(
        name=f"{amount:g} USD", provider="the user", kind="per GPU-hour", date="now", source="the user",
        low=usd, high=usd, least=usd, most=usd,
    )  # fmt: skip


def _named_offer(text: str, cluster: Cluster, site: Site | None) -> Offer:
    offers = {offer.name: offer for offer in list_offers(cluster, site)}
    if text in offers:
        return offers[text]
    if text in prices():
        raise PodsimError(
            f"price {text} is of {', '.join(prices()[text].gpus)}, the cluster has {cluster.gpu.name}: "
            f"{', '.join(offers) or 'no price is known, give USD per GPU-hour'}"
        )
    raise PodsimError(f"{unknown_name('price', text, prices())}; or USD per GPU-hour, such as 2.10")
