"""What a rank must keep while a table runs: activations of micro-batches, and copies of weights."""

from __future__ import annotations

from collections import Counter

import numpy as np

from podsim.axes import Floats
from podsim.schedules.actions import ScheduleTable, Work


def held(table: ScheduleTable) -> Floats:
    """High water of activations, in what one micro-batch leaves in one part, [ranks].

    A forward stores; a whole backward frees; of a split backward the weight gradient does. A backward still holds what
    it frees while it runs, and so does a forward beside it. The order on a rank decides, not durations.
    """
    group = np.cumsum(~table.beside) - 1  # actions that run side by side
    rank = table.rank[~table.beside]
    stored = np.bincount(group, table.work == Work.FORWARD)
    freed = np.bincount(group, np.isin(table.work, (Work.BACKWARD, Work.WEIGHT)))
    before = np.cumsum(stored - freed) - (stored - freed)
    first = np.searchsorted(rank, rank)
    out = np.zeros(table.ranks)
    np.maximum.at(out, rank, before - before[first] + stored)
    return out


def weight_copies(table: ScheduleTable) -> Floats:
    """Copies of the weights of a rank's share of the model (parts / ranks of it), [ranks].

    A bidirectional schedule holds every part twice. An asynchronous one stashes each version that a micro-batch in
    flight has used, beside the newest.
    """
    share = np.bincount(table.stage_rank, minlength=table.ranks) * table.ranks / table.parts
    if table.version is None:
        return share
    return np.asarray([share[rank] * _versions(table, rank) for rank in range(table.ranks)])


def _versions(table: ScheduleTable, rank: int) -> int:
    """Most versions of weights that a rank of an asynchronous table holds at once."""
    assert table.version is not None
    row = table.row(rank)
    flying: Counter[int] = Counter()
    newest, ended, most = 0, 0, 1
    for work, version in zip(table.work[row].tolist(), table.version[row].tolist(), strict=True):
        if work == Work.FORWARD:
            flying[version] += 1
        elif work in (Work.BACKWARD, Work.WEIGHT):
            flying[version] -= 1
            ended += 1
            newest = ended // max(table.update or table.micro_batches, 1)
        most = max(most, sum(1 for v, n in flying.items() if n > 0 and v != newest) + 1)
    return most
