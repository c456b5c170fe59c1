"""What sets of active lanes got is remembered, so that the same set is never solved twice.

Kernels of the simulation (podsim.network.play_engine); records and counters are those of podsim.network.play_state.
"""

from __future__ import annotations

from podsim.jit import kernel
from podsim.network.collectives.table import Floats, Ints
from podsim.network.play_state import MEMO, STORED, Records


@kernel
def memo_slot(sign: int, memo: Records) -> int:
    """Where a set of active lanes is remembered, or would be."""
    mask = len(memo) - 1
    at = (sign ^ (sign >> 32)) & mask
    while memo[at].at >= 0 and memo[at].sign != sign:
        at = (at + 1) & mask
    return int(at)


@kernel
def remember(n: int, sign: int, flows: Records, members: Ints, memo: Records, memo_rates: Records, lane_rate: Floats,
              number: Ints) -> None:  # fmt: skip
    """Keep the rates of the n flows found; when memory is full, forget all others."""
    if number[STORED] + n > len(memo_rates) or 2 * number[MEMO] >= len(memo):
        number[STORED] = number[MEMO] = 0
        for i in range(len(memo)):
            memo[i].at = -1
    if n > len(memo_rates):
        return
    slot, at = memo_slot(sign, memo), number[STORED]
    memo[slot].sign = sign
    memo[slot].at = at
    memo[slot].lanes = n
    for i in range(n):
        lane = flows[members[i]].lane
        memo_rates[at + i].lane = lane
        memo_rates[at + i].rate = lane_rate[lane]
    number[STORED] += n
    number[MEMO] += 1
