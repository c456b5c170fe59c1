"""Machines of equal size: how many accelerators of each kind one amount of power, money or arithmetic buys.

    power   the largest power of the servers, W       amount = "2 MW"
    peak    the dense 16-bit peak, FLOP/s             amount = "1 EFLOP/s"
    price   the hire of the accelerators, USD/h       amount = "1000"

A machine takes the largest number of nodes within the amount that is a power of two, or three times one, so that plans
can divide it; a torus takes a power of two of its chips.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from podsim.answers.expense import HOUR
from podsim.errors import PodsimError
from podsim.fleet.price_offers import price_offer
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.hardware.parts import matmul_peak
from podsim.units import format_quantity, parse_quantity

_MOST_NODES = 1 << 16


def _power(node: Cluster, settings: Mapping[str, Any]) -> float:
    return node.system.power


def _peak(node: Cluster, settings: Mapping[str, Any]) -> float:
    return matmul_peak(node.gpu, "bf16" if "bf16" in node.gpu.peaks else "fp16") * node.gpus


def _price(node: Cluster, settings: Mapping[str, Any]) -> float:
    """USD/h of a node, at the settings' price, else at the default."""
    offer = price_offer(str(settings.get("price", "")), node)
    if offer is None:
        raise PodsimError(
            f'{node.name}: no price is known; give the design a price, as price = "2.10" (USD of one and an hour)'
        )
    return offer.low * node.gpus * HOUR


class Share(NamedTuple):
    """What machines have in common."""

    name: str
    unit: str
    of_node: Callable[[Cluster, Mapping[str, Any]], float]


SHARES = {
    share.name: share
    for share in (Share("power", "W", _power), Share("peak", "FLOP/s", _peak), Share("price", "", _price))
}


def read_amount(equal: str, amount: object) -> float:
    """The amount in SI; PodsimError for an unknown kind, or an amount that is none."""
    if equal not in SHARES:
        raise PodsimError(f"equal={str(equal)[:40]!r} may be {', '.join(SHARES)}")
    text = str(amount if amount is not None else "")
    if not text:
        raise PodsimError(
            f'equal = "{equal}" needs an amount, as amount = "2 MW", "1 EFLOP/s" or 1000 (USD an hour)'
        )
    value = parse_quantity(text, SHARES[equal].unit, what="amount")
    if value <= 0:
        raise PodsimError(f"amount={text[:40]}: more than nothing is needed")
    return value


def equal_gpus(settings: Mapping[str, Any], equal: str, amount: float) -> int:
    """The accelerators of the machine `on` of some settings within an amount; PodsimError if not even a node is."""
    share = SHARES[equal]
    named = load_cluster(str(settings["on"]))
    node = named.subset(named.gpus_per_node)
    is_torus = named.system.topology == "torus"  # of one "node", whose slices are powers of two
    unit = 1 if is_torus else node.gpus
    unit_amount = share.of_node(node, settings) * unit / node.gpus
    count = min(int(amount / unit_amount), _MOST_NODES)
    if count < 1:
        need = format_quantity(unit_amount, share.unit) if share.unit else f"{unit_amount:,.2f} USD/h"
        what = "accelerator" if unit == 1 else "node"
        raise PodsimError(f"{named.name}: one {what} needs {need}, more than the amount")
    power = 1 << count.bit_length() - 1
    larger = 3 * power // 2
    return (larger if 1 < larger <= count and not is_torus else power) * unit
