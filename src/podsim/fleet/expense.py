"""Energy and money of a predicted plan: of one step, or of its whole run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from podsim.answers.expense import Expense, Offer
from podsim.answers.prediction import Prediction
from podsim.errors import PodsimError
from podsim.fleet.power import busy_share, cluster_power
from podsim.fleet.power_cost import Site, find_offer, list_offers, read_site
from podsim.hardware.cluster import Cluster


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
