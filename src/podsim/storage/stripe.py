"""Stripes of data and parity over servers: space, the work of writing, and the effect of lost servers.

A stripe of D data and P parity blocks is on D+P servers, another choice each time, so that all servers share every load.

    net space     raw x (n - spares) / n x D / (D+P) x usable                          (Weka documentation)
    writing       a byte comes in once, and (D+P)/D bytes go out to the stripe's servers and come in there:
                  1 + 2 (D+P)/D times the work of reading it
    a small write is logged on P+1 servers, so that P may fail before it is written out: P+1 operations
    reading with f of n servers lost: a share f/n of the blocks is read as D others, so 1 + f/n (D-1) times the work;
                  at best, if the rest of the stripe is needed anyway, no more than before

Source: github.com/weka/docs-weka-io for space, widths and protection; the counts of transfers are this module's
reasoning and fit the ceilings of the reference architecture. Known error: none is measured for lost servers.
Stops being true: writes that fill no stripe even after gathering, and a system whose clients send parity.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

from podsim.errors import StorageError
from podsim.storage.storage_parts import StorageSystem, Stripe

FILL = 0.5
"""share of the net space in use that a rebuild is reckoned with, unless told"""


def net_capacity(system: StorageSystem) -> float:
    """B that can be stored; of a system without known protection, its raw space."""
    stripe = system.stripe
    if stripe is None:
        return system.capacity
    kept = (system.servers - stripe.spares) / system.servers
    return system.capacity * kept * stripe.data / stripe.width * stripe.usable


def kept_bytes(system: StorageSystem, fill: float) -> float:
    """B on all drives, parity included, with a share `fill` of the net space in use; 0 without known protection."""
    stripe = system.stripe
    return net_capacity(system) * fill * stripe.width / stripe.data if stripe else 0.0


def write_work(stripe: Stripe | None) -> tuple[float, float]:
    """(bytes, operations) that servers handle for one byte, and one small operation, written."""
    if stripe is None:
        return 1.0, 1.0
    return 1.0 + 2.0 * stripe.width / stripe.data, 1.0 + stripe.parity


def read_work(stripe: Stripe | None, servers: int, failed: int) -> float:
    """Bytes that servers read for one byte asked for, with `failed` of them lost and nothing rebuilt."""
    if stripe is None or failed == 0:
        return 1.0
    return 1.0 + failed / servers * (stripe.data - 1)


def lost_share(stripe: Stripe, servers: int, failed: int, blocks: int) -> float:
    """Share of the stripes that had at least `blocks` blocks on the failed servers."""
    ways = comb(servers, stripe.width)
    most = min(failed, stripe.width)
    return sum(
        comb(failed, k) * comb(servers - failed, stripe.width - k)
        for k in range(blocks, most + 1)
        if 0 <= stripe.width - k <= servers - failed
    ) / ways  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Damage:
    """What lost servers leave."""

    failed: int
    lost: float
    """share. The share of the stripes that cannot be read any more."""
    exposed: float
    """share. The share of the stripes that would not survive another failure."""
    rebuild: float
    """B. The bytes to rebuild; 0 if nothing can or must be rebuilt."""
    moved: float
    """B. The bytes that the other servers read and write for it."""
    restores: bool
    """Whether full protection returns without the lost servers."""


def damage(system: StorageSystem, failed: int, *, fill: float = FILL) -> Damage:
    """The effect of `failed` lost servers, with a share `fill` of the net space in use.

    Raises StorageError for more servers than there are, a fill outside 0 to 1, a system of unknown protection.
    """
    stripe = system.stripe
    problems = []
    if not 0 <= failed <= system.servers:
        problems.append(
            f"{failed} failed servers: {system.name} has {system.servers}, so 0 to {system.servers}"
        )
    if not 0.0 <= fill <= 1.0:
        problems.append(f"fill={fill:g}: a share of the space in use, 0 to 1")
    if stripe is None:
        problems.append(
            f"{system.name}: its protection is not known, so what a lost server does cannot be said"
        )
    if problems or stripe is None:
        raise StorageError("; ".join(problems))
    n = system.servers
    lost = lost_share(stripe, n, failed, stripe.parity + 1)
    exposed = lost_share(stripe, n, failed, failed) if 0 < failed == stripe.parity else 0.0
    restores = failed <= stripe.survives and n - failed >= stripe.width
    rebuild = kept_bytes(system, fill) * failed / n if restores else 0.0
    return Damage(
        failed=failed, lost=lost, exposed=exposed, rebuild=rebuild,
        moved=rebuild * (stripe.data + 1), restores=restores,
    )  # fmt: skip
