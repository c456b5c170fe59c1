"""The clock that a GPU's power limit leaves to its SMs under steady load, as a share of the boost clock.

    room  = (limit - static) / (utilisation / full x watts x SMs x boost clock)
    share = 1                        room >= 1
            room^slope               down to the lowest voltage, at share `floor`
            room / floor^(1/slope-1) below, where power is in proportion to the clock

`utilisation` is the arithmetic's share of peak at the boost clock, and `full` that of long products. A GPU whose kernels
were measured keeps their clock, which its constants hold. Others borrow constants, and so run at their own share over
that of the GPU they borrow from.

Source: counting; constants and their sources in power_clock.toml. Known error: for published rates of BERT behind
Triton with batches of 8 and 16, 6 % on a T4 over a V100 (fitted), and 5 % on an A30 over an A100 (not fitted). Limits:
no temperature; short bursts run faster; traffic of memory is part of `static`. A MIG instance is not slowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from podsim.axes import Floats
from podsim.hardware.catalog import load_gpu
from podsim.hardware.parts import Gpu
from podsim.kernels.constants import kernel_constants
from podsim.packaged import packaged_toml


@dataclass(frozen=True, kw_only=True)
class PowerClock:
    """The constants of the law."""

    static: float
    """W. The power of an idle GPU at full clock, apart from the share of its limit."""
    static_share: float
    """share. The share of the limit that memory and an idle GPU at full clock take."""
    slope: float
    """factor. The exponent of the clock over the power of busy SMs."""
    floor: float
    """share. The share of the boost clock at the lowest voltage."""
    full: float
    """share. The share of peak of long products at the boost clock."""
    watts: dict[str, float]
    """J. The energy of a cycle of an SM in long products at the boost clock, by compute capability: W per SM and Hz."""


@cache
def power_clock() -> PowerClock:
    """The packaged constants."""
    table = packaged_toml("kernels/power_clock.toml")
    return PowerClock(
        static=table["static"]["watts"], static_share=table["static"]["share"], slope=table["slope"]["value"],
        floor=table["floor"]["value"], full=table["full"]["value"],
        watts={key: 1e-9 * part["watts"] for key, part in table["sm"].items()},
    )  # fmt: skip


def clock_share(gpu: Gpu, utilisation: Floats) -> Floats:
    """The share of the boost clock under the power limit, for each utilisation; 1 for an unknown chip."""
    known = power_clock()
    joules = known.watts.get(f"{gpu.compute_capability:.1f}")
    if joules is None or "/" in gpu.name or not gpu.power:
        return np.ones_like(utilisation)
    dynamic = gpu.power * (1.0 - known.static_share) - known.static
    room = max(dynamic, 1.0) / (np.maximum(utilisation / known.full, 1e-6) * joules * gpu.sms * gpu.clock)
    bend = known.floor ** (1.0 / known.slope)
    above = np.maximum(room, bend) ** known.slope
    return np.asarray(np.minimum(np.where(room < bend, room * known.floor / bend, above), 1.0))


def borrowed_clock(gpu: Gpu, utilisation: Floats) -> Floats:
    """The factor on speeds that constants of another GPU give this one; 1 where its own kernels were measured."""
    constants = kernel_constants(gpu)
    if not constants.extrapolated:
        return np.ones_like(utilisation)
    return np.minimum(clock_share(gpu, utilisation) / clock_share(load_gpu(constants.base), utilisation), 1.0)
