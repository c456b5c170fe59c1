"""`podsim power` and `podsim cost`: the power of a cluster, and the energy and money of GPU-hours on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from podsim.answers.expense import Bill, BillRow, PowerReport
from podsim.errors import PlanError, PodsimError, unknown_name
from podsim.fleet.power import capped_speed, count_switches, load_power, make_node
from podsim.fleet.power_catalog import figures
from podsim.fleet.power_cost import HOUR, assumptions_of, find_offer, list_offers, read_site
from podsim.fleet.power_hpl import hpl
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.options.fleet_options import CostOptions, PowerOptions
from podsim.options.question import question
from podsim.units import parse_quantity

LOADS = ("idle", "training", "peak")


@question(PowerOptions)
def power(options: PowerOptions) -> PowerReport:
    """What a cluster draws idle, in training, at its highest and in High-Performance Linpack, by component.

    Raises PodsimError for an unknown cluster, and for an impossible cap or PUE.
    """
    part = _part(options.cluster, options.gpus, options.overrides)
    watts = _watts(options.cap)
    site = read_site(options.pue, None, None)
    node = make_node(part, watts)
    benchmark = hpl(part, cap=watts)
    loads = [load_power(part, load, pue=site.pue, cap=watts) for load in LOADS]
    if benchmark is not None:
        loads.append(load_power(part, "HPL", pue=site.pue, cap=watts, busy=benchmark.busy))
    f = figures()
    sources = {
        f"{t.source} ({t.date}{'' if t.confirmed == 'yes' else ', unconfirmed'})" for t in (f.gpu, f.server)
    }
    sources |= {f"{f.switch.source} ({f.switch.date})"} if count_switches(part) else set()
    sources |= {f"{f.cap.source} ({f.cap.date})"} if watts is not None else set()
    return PowerReport(
        cluster=part.name, nodes=part.nodes, gpus=part.gpus, cap=node.limit, speed=capped_speed(part, watts),
        limit=node.maximum, pue=site.pue, switches=count_switches(part), loads=tuple(loads), benchmark=benchmark,
        sources=(*sorted(sources), *(text for text in site.assumptions if text.startswith("pue"))),
    )  # fmt: skip


@question(CostOptions)
def cost(options: CostOptions) -> Bill:
    """Energy, carbon dioxide and money of GPU-hours on a cluster, at each price.

    There are two energies: as model cards count it (hours times the GPU's limit), and as the whole machine draws it
    under a load, at the meter. Raises PodsimError with everything that cannot be.
    """
    from math import isfinite

    problems = []
    if not (
        isinstance(options.gpu_hours, (int, float))
        and isfinite(options.gpu_hours)
        and 0 < options.gpu_hours < 1e12
    ):
        problems.append(f"gpu_hours={options.gpu_hours:g}: a run takes more than 0 GPU hours")
    if options.load not in LOADS:
        problems.append(unknown_name("load", options.load, LOADS))
    checks: list[Callable[[], object]] = [
        partial(read_site, options.pue, options.carbon, options.electricity),
        partial(_watts, options.cap),
    ]
    for check in checks + _price_checks(options.cluster, options.price, options.overrides):
        try:
            check()
        except PlanError as error:
            problems += error.problems
        except PodsimError as error:
            problems.append(str(error))
    if problems:
        raise PlanError(problems)
    part, watts, site = (
        _part(options.cluster, None, options.overrides),
        _watts(options.cap),
        read_site(options.pue, options.carbon, options.electricity),
    )
    seconds = options.gpu_hours * HOUR
    drawn = load_power(part, options.load, pue=site.pue, cap=watts)
    offers = [find_offer(text, part, site) for text in options.price] or list(list_offers(part, site))
    energy, plain = drawn.site / part.gpus * seconds, part.gpu.power * seconds
    return Bill(
        cluster=part.name, gpu_time=seconds, plain_energy=plain, plain_carbon=plain * site.carbon, energy=energy,
        carbon=energy * site.carbon, load=options.load, assumptions=assumptions_of(site, offers),
        rows=tuple(BillRow(offer=o, low=o.low * seconds, high=o.high * seconds) for o in offers),
    )  # fmt: skip


def _part(cluster: str, gpus: int | None, overrides: Mapping[str, str] | None) -> Cluster:
    return load_cluster(cluster, dict(overrides or {}), gpus)


def _watts(cap: str) -> float | None:
    return parse_quantity(cap, "W", what="cap") if cap else None


def _price_checks(
    cluster: str, price: Sequence[str], overrides: Mapping[str, str] | None
) -> list[Callable[[], object]]:
    """Calls that raise where a price cannot be read, one for each."""
    part, site = _part(cluster, None, overrides), read_site(None, None, None)
    return [partial(find_offer, text, part, site) for text in price]
