"""Schedules without a flush: the pipeline never drains, and weights that a micro-batch uses are older than the newest.

Sources: PipeDream, Narayanan et al. 2019 (SOSP); PipeDream-2BW, Narayanan et al. 2021, arXiv 2006.09503.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from podsim.schedules.actions import ScheduleTable, Work, updates_before
from podsim.schedules.classic import one_f_one_b


def pipedream(p: int, v: int, m: int) -> ScheduleTable:
    """1F1B without a flush, weights updated after every backward; a backward takes the weights of its forward.

    Rank r has p - r micro-batches in flight, and as many versions of its weights: the gradient of a micro-batch is
    p - r - 1 updates old when it is applied (weight stashing; staleness differs from rank to rank).
    """
    table = replace(one_f_one_b(p, v, m), name="pipedream", flush=False, update=1)
    newest = updates_before(table)
    forward_SM = np.zeros((table.stages, m), np.int64)
    forward = table.work == Work.FORWARD
    forward_SM[table.stage[forward], table.micro[forward]] = newest[forward]
    return replace(table, version=forward_SM[table.stage, table.micro])


def pipedream_2bw(p: int, v: int, m: int) -> ScheduleTable:
    """The same order, weights updated once in p micro-batches (the fewest it allows), two versions on every rank.

    All ranks run a batch with the weights of two batches ago: staleness is one update everywhere.
    """
    table = replace(one_f_one_b(p, v, m), name="pipedream-2bw", flush=False, update=p)
    return replace(table, version=np.maximum(table.micro // p - 1, 0))
