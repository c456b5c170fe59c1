"""Schedules that split the backward: input gradients go first, as others wait for them; weight gradients fill gaps.

Source: Qi et al. 2023, "Zero Bubble Pipeline Parallelism", arXiv 2401.10241 (ZB-H1 and ZB-H2 in section 2, ZB-V in
section 6).
"""

from __future__ import annotations

from podsim.schedules.actions import Phase, Program, ScheduleTable, assemble, loop, program, vee


def _lagging(warm: int, lag: int, m: int) -> Program:
    """`warm` forwards, then an input gradient after each forward, weight gradients `lag` input gradients late."""
    warm, lag = min(warm, m), min(lag, m)
    ahead = m - warm  # input gradients that have a forward before them
    both = ("F0 I0 W0", ahead - lag) if lag < ahead else ("I0", lag - ahead)
    phases: list[Phase] = [
        (warm, "F0"),
        (min(lag, ahead), "F0 I0"),
        (both[1], both[0]),
        (m - max(lag, ahead), "I0 W0"),
        (lag, "W0"),
    ]
    return program(phases)


def zb_h1(p: int, v: int, m: int) -> ScheduleTable:
    """As many micro-batches in flight as 1F1B: rank r starts p - r - 1 forwards ahead, its weight gradients lag r."""
    return assemble("zb-h1", m, loop(p, 1), lambda rank: _lagging(p - rank - 1, rank, m))


def zb_h2(p: int, v: int, m: int) -> ScheduleTable:
    """Twice as many in flight: rank r starts 2 (p - r - 1) forwards ahead, its weight gradients lag 2 r."""
    return assemble("zb-h2", m, loop(p, 1), lambda rank: _lagging(2 * (p - rank - 1), 2 * rank, m))


def zb_v(p: int, v: int, m: int) -> ScheduleTable:
    """Two chunks a rank, down the ranks and up again, so that the first backward starts where the first forward did.

    Written for 2p - 1 micro-batches or more; of fewer, those that do not exist are left out of the order.
    """
    many = max(m, 2 * p - 1)

    def of_rank(rank: int) -> Program:
        turns = many - (2 * p - rank - 1)  # forwards of the first chunk left after warming up
        back, last = "I0 W0 F1 I1 W1", p - rank - 1
        phases: list[Phase] = [
            (2 * (p - rank) - 1, "F0"),
            (rank, "F1 F0"),
            (p - rank, "F1 I1 W1"),
            (turns, f"F0 {back}"),
            (last, back),
            (rank, "I0 I1"),
            (p - rank, "I0 W0"),
            (rank, "W1"),
            (rank, "W0"),
        ]
        order = program(phases)
        return order.keep(order.micro < m)

    return assemble("zb-v", m, vee(p), of_rank)
