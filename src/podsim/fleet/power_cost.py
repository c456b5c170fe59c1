"""Energy, carbon dioxide and money of GPU time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import isfinite

from podsim.answers.expense import HOUR, Expense, Offer
from podsim.answers.prediction import Prediction
from podsim.errors import PlanError, PodsimError, UnitError, unknown_name
from podsim.fleet.power import LOADS, busy_share, cluster_power, load_power, read_cap
from podsim.fleet.power_catalog import PriceEntry, figures, prices
from podsim.hardware.cluster import Cluster

YEAR, KWH = 365.0 * 86400.0, 3.6e6


@dataclass(frozen=True, kw_only=True)
class Site:
    """The site of a machine, with its prices."""

    pue: float
    carbon: float
    """The carbon intensity of electricity, in kg/J."""
    electricity: float
    """The price of electricity, in USD/J."""
    assumptions: tuple[str, ...]


def read_site(pue: float | None, carbon: float | None, electricity: float | None) -> Site:
    """The site from a user's values (kg and USD per kWh), with defaults of the catalog as stated assumptions.

    Raises PlanError with all impossible values.
    """
    default = {name: getattr(figures(), name) for name in ("pue", "carbon", "electricity")}
    given = {"pue": pue, "carbon": carbon, "electricity": electricity}
    bounds = {"pue": (1.0, 5.0, ""), "carbon": (0.0, 5.0, " kg/kWh"), "electricity": (0.0, 10.0, " USD/kWh")}
    wrong = [
        f"{name}={value:g}: a site has {bounds[name][0]:g} to {bounds[name][1]:g}{bounds[name][2]}"
        for name, value in given.items()
        if value is not None and not (isfinite(value) and bounds[name][0] <= value <= bounds[name][1])
    ]
    if wrong:
        raise PlanError(wrong)
    assumptions = [
        f"{name} {default[name].value:g}{bounds[name][2]}: {default[name].source} ({default[name].date})"
        for name, value in given.items()
        if value is None
    ]
    return Site(
        pue=default["pue"].value if pue is None else pue,
        carbon=(default["carbon"].value if carbon is None else carbon) / KWH,
        electricity=(default["electricity"].value if electricity is None else electricity) / KWH,
        assumptions=tuple(assumptions),
    )


@lru_cache(maxsize=64)
def list_offers(cluster: Cluster, site: Site) -> tuple[Offer, ...]:
    """The packaged prices of the cluster's GPU, in the catalog's order. Prices of owned GPUs include electricity."""
    return tuple(
        _make_offer(name, entry, cluster, site)
        for name, entry in prices().items()
        if cluster.gpu.name in entry.gpus
    )


def _make_offer(name: str, entry: PriceEntry, cluster: Cluster, site: Site) -> Offer:
    if entry.purchase is not None:
        watts = load_power(cluster, "training", pue=site.pue).site / cluster.gpus
        low = high = entry.purchase / entry.per / (entry.years * YEAR) + watts * site.electricity
    else:
        assert entry.low is not None
        low, high = entry.low / HOUR, (entry.high or entry.low) / HOUR
    return Offer(
        name=name,
        provider=entry.provider,
        kind=entry.kind,
        date=entry.date,
        source=entry.source,
        low=low,
        high=high,
    )


def find_offer(text: str, cluster: Cluster, site: Site) -> Offer:
    """The price that a text names: an entry of the catalog, or USD per GPU-hour.

    Raises PodsimError for an unknown name and for another GPU, and UnitError for an impossible amount.
    """
    words = text.strip().lower().removesuffix("/h").removesuffix("usd").removeprefix("$").strip()
    try:
        amount = float(words)
    except ValueError:
        amount = None
    if amount is not None:
        if not (isfinite(amount) and 0 < amount < 1e6):
            raise UnitError(f"price {text[:40]!r}: a GPU costs more than 0 USD an hour, such as 2.10")
        return Offer(
            name=f"{amount:g} USD", provider="the user", kind="for a GPU and an hour", date="now", source="the user",
            low=amount / HOUR, high=amount / HOUR,
        )  # fmt: skip
    known = prices()
    if text not in known:
        raise PodsimError(f"{unknown_name('price', text, known)}; or USD for a GPU and an hour, such as 2.10")
    if cluster.gpu.name not in known[text].gpus:
        fitting = [name for name, entry in known.items() if cluster.gpu.name in entry.gpus]
        raise PodsimError(
            f"price {text} is of {', '.join(known[text].gpus)}, the cluster has {cluster.gpu.name}: "
            f"{', '.join(fitting) or 'no price is known, give USD for a GPU and an hour'}"
        )
    return _make_offer(text, known[text], cluster, site)


def check_hours(
    cluster: Cluster,
    gpu_hours: float,
    *,
    load: str,
    cap: str,
    site: Mapping[str, float | None],
    price: Sequence[str],
) -> None:
    """Check what prices GPU-hours on a cluster; `site` are the values of `read_site`, `price` those of `find_offer`.

    Raises PlanError with all that cannot be.
    """
    is_number = isinstance(gpu_hours, (int, float)) and isfinite(gpu_hours)
    problems = (
        []
        if is_number and 0 < gpu_hours < 1e12
        else [f"gpu_hours={gpu_hours:g}: a run takes more than 0 GPU hours"]
    )
    if load not in LOADS:
        problems.append(unknown_name("load", load, LOADS))
    usual = read_site(None, None, None)
    checks: list[Callable[[], object]] = [partial(read_site, **site), partial(read_cap, cap)]
    for check in checks + [partial(find_offer, text, cluster, usual) for text in price]:
        try:
            check()
        except PlanError as error:
            problems += error.problems
        except PodsimError as error:
            problems.append(str(error))
    if problems:
        raise PlanError(problems)


def expense_of(
    prediction: Prediction,
    cluster: Cluster,
    *,
    price: str = "",
    tokens: float | None = None,
    pue: float | None = None,
    carbon: float | None = None,
    within: Cluster | None = None,
) -> Expense:
    """Energy and money of a predicted plan: of a run over a number of tokens, or of one step.

    A run takes the days that it is expected to, with failures, and draws its mean power in all of them.
    `within` is a larger cluster whose switches are shared.
    """
    site = read_site(pue, carbon, None)
    step = prediction.step_time * prediction.tokens_per_second
    if tokens is not None and not step <= tokens <= 1e18:
        raise PodsimError(f"tokens={tokens:g}: a run trains {step:g} (one step) to 1e18 tokens")
    run = prediction.training
    duration = prediction.step_time if tokens is None else tokens / prediction.tokens_per_second
    if run is not None and run.tokens == tokens:
        duration = run.expected
    watts = cluster_power(cluster, busy_share(prediction.parts), within=within)
    offer = find_offer(price, cluster, site) if price else None
    hours = duration * prediction.gpus
    energy = watts * duration * site.pue
    return Expense(
        duration=duration, gpus=prediction.gpus, power=watts, energy=energy, carbon=energy * site.carbon, offer=offer,
        low=offer.low * hours if offer else 0.0, high=offer.high * hours if offer else 0.0,
        tokens=step if tokens is None else tokens,
        assumptions=assumptions_of(site, [offer] if offer else []),
    )  # fmt: skip


def assumptions_of(site: Site, offers: Sequence[Offer]) -> tuple[str, ...]:
    """What was assumed of a site, of its electricity only where an owned machine pays for it."""
    owned = any(offer.kind.startswith("owned") for offer in offers)
    return tuple(text for text in site.assumptions if owned or not text.startswith("electricity"))


def with_expense(
    prediction: Prediction,
    cluster: Cluster,
    *,
    price: str = "",
    pue: float | None = None,
    carbon: float | None = None,
) -> Prediction:
    """The prediction with energy and money of its run with failures, at the price asked for or the market's.

    Without a request, what cannot be priced or powered is left out.
    """
    is_asked = bool(price) or pue is not None or carbon is not None
    run = prediction.training
    if run is None and not is_asked:
        return prediction
    part = cluster.subset(prediction.gpus)
    try:
        expense = expense_of(
            prediction, part, price=price or usual_price(part), tokens=run.tokens if run else None, pue=pue, carbon=carbon
        )  # fmt: skip
    except PodsimError:
        if is_asked:
            raise
        return prediction
    return replace(prediction, expense=expense)


def usual_price(cluster: Cluster) -> str:
    """The market price of a cluster's GPU, or else the first of the catalog; "" if it has none."""
    offers = list_offers(cluster, read_site(None, None, None))
    names = [offer.name for offer in offers if offer.provider == "market"] or [offer.name for offer in offers]
    return names[0] if names else ""
