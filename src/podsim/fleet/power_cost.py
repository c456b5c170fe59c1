"""Energy, carbon dioxide and money of GPU time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import isfinite

from podsim.answers.expense import Expense, Offer
from podsim.answers.prediction import Prediction
from podsim.errors import PlanError, PodsimError, raise_all, unknown_name
from podsim.fleet.power import LOADS, busy_share, cluster_power, read_cap
from podsim.fleet.price_offers import find_offer, price_offer
from podsim.fleet.site import Site, read_site
from podsim.hardware.cluster import Cluster


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
    raise_all(problems, PlanError)


def expense_of(
    prediction: Prediction,
    cluster: Cluster,
    *,
    price: str = "",
    tokens: float | None = None,
    pue: float | None = None,
    carbon: float | None = None,
) -> Expense:
    """Energy and money of a predicted plan: of a run over a number of tokens, or of one step.

    A run takes the days that it is expected to, with failures, and draws its mean power in all of them.
    """
    site = read_site(pue, carbon, None)
    step = prediction.step_time * prediction.tokens_per_second
    if tokens is not None and not step <= tokens <= 1e18:
        raise PodsimError(f"tokens={tokens:g}: a run trains {step:g} (one step) to 1e18 tokens")
    run = prediction.training
    duration = prediction.step_time if tokens is None else tokens / prediction.tokens_per_second
    if run is not None and run.tokens == tokens:
        duration = run.expected
    watts = cluster_power(cluster, busy_share(prediction.parts))
    offer = price_offer(price, cluster, site)
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
    """The prediction with energy and money of its run with failures, at the price asked for or the default.

    Without a request, what cannot be priced or powered is left out.
    """
    is_asked = bool(price) or pue is not None or carbon is not None
    run = prediction.training
    if run is None and not is_asked:
        return prediction
    part = cluster.subset(prediction.gpus)
    try:
        expense = expense_of(
            prediction, part, price=price, tokens=run.tokens if run else None, pue=pue, carbon=carbon
        )
    except PodsimError:
        if is_asked:
            raise
        return prediction
    return replace(prediction, expense=expense)
