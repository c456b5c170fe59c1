"""What lies on paths through schedule tables, as counts.

Axes: Q paths, E actions on them, S stages of all tables, W kinds of work, B blocks, C columns of counts, X of
BESIDE.
"""

from __future__ import annotations

import numpy as np

from podsim.schedules.actions import Work
from podsim.schedules.joined import Joined
from podsim.training.paths_played import Traced
from podsim.training.plan import BESIDE, Array

_FAR = tuple(f"far{beside}" for beside in BESIDE)
_NUMBERS = ("ahead", "back", "charges", "closing", "staying", "after", "pairs", "first", *_FAR)


class Counts:
    """Columns of a table of counts (..., C), by what they count."""

    def __init__(self, counts: Array, width: int) -> None:
        """`width`: blocks."""
        shape, cuts = counts.shape[:-1], np.cumsum([4 * width, 4 * width, 4])
        works, paired, self.actions_W, self._numbers = np.split(counts, cuts, axis=-1)
        self.works_WB = works.reshape(*shape, 4, width)
        self.paired_WB = paired.reshape(*shape, 4, width)

    def __getattr__(self, name: str) -> Array:
        """One of the plain numbers."""
        if name not in _NUMBERS:
            raise AttributeError(name)
        return self._numbers[..., _NUMBERS.index(name)]

    @property
    def far_X(self) -> Array:
        """Sends to another node, if BESIDE ranks share one each, as the last axis."""
        return self._numbers[..., -len(BESIDE) :]


def _table(works_QWB: Array, paired_QWB: Array, actions_QW: Array, numbers: dict[str, Array]) -> Array:
    """Counts (Q, C) as Counts reads them."""
    columns = np.stack([numbers[name] for name in _NUMBERS], axis=1)
    count = len(columns)
    return np.hstack([works_QWB.reshape(count, -1), paired_QWB.reshape(count, -1), actions_QW, columns])


def alone(block_B: Array, micro_batches: int) -> Array:
    """Counts of the path of a single rank (1, C), which holds so many of each block."""
    works, actions = np.zeros((1, 4, len(block_B))), np.zeros((1, 4))
    works[0, :2] = micro_batches * block_B
    actions[0, :2] = micro_batches
    numbers = dict.fromkeys(_NUMBERS, np.zeros(1)) | {"first": np.ones(1)}
    return _table(works, np.zeros_like(works), actions, numbers)


def counted(joined: Joined, traced: Traced, counts_SB: Array) -> Array:
    """Counts of traced paths (Q, C); `counts_SB`: copies of each block in each stage."""
    path_E, action_E = traced.path_E, traced.action_E
    paths, width = traced.ahead_Q.size, counts_SB.shape[1]
    work_E, stage_E, rank_E = joined.work[action_E], joined.stage[action_E], joined.rank[action_E]

    def summed(key_E: Array, value_E: Array, length: int) -> Array:
        return np.bincount(key_E, weights=value_E, minlength=length)

    def by_work(chosen_E: Array) -> Array:
        key_E = 4 * path_E[chosen_E] + work_E[chosen_E]
        blocks = [summed(key_E, counts_SB[stage_E[chosen_E], block], 4 * paths) for block in range(width)]
        return np.stack(blocks, axis=1).reshape(paths, 4, width)

    pair_E = joined.is_paired[action_E]
    ends_E = joined.last_gradient[stage_E] == action_E
    begins_E = np.append(True, path_E[1:] != path_E[:-1])
    staying, after = _stays(ends_E, rank_E, begins_E, path_E, paths)
    charged_E = joined.is_sending[stage_E] & (work_E != Work.WEIGHT)
    numbers = {
        "ahead": traced.ahead_Q,
        "back": traced.back_Q,
        "charges": summed(path_E, charged_E, paths) - traced.ahead_Q - traced.back_Q,
        "closing": np.maximum(summed(path_E, ends_E, paths) - 1, 0),
        "staying": staying,
        "after": after,
        "pairs": summed(path_E, pair_E, paths) / 2.0,
        "first": joined.holds_first[rank_E[begins_E]].astype(float),
        **dict(zip(_FAR, traced.far_XQ, strict=True)),
    }
    actions = np.bincount(4 * path_E + work_E, minlength=4 * paths).reshape(paths, 4).astype(float)
    return _table(by_work(np.full(path_E.size, True)), by_work(pair_E), actions, numbers)


def _stays(ends_E: Array, rank_E: Array, begins_E: Array, path_E: Array, paths: int) -> tuple[Array, Array]:
    """(closing passes after which a path stays on their rank, passes that follow there at least before another).

    `ends_E`: which actions are closing passes; paths go from their last action back, and begin where `begins_E`.
    """
    place_E = np.arange(path_E.size)
    # passes that follow are those back to where the rank changed, another closing pass was, or the path begins
    broken_E = begins_E | ends_E | np.append(rank_E[1:] != rank_E[:-1], True)
    follow_E = place_E[1:] - np.maximum.accumulate(np.where(broken_E, place_E, 0))[:-1]
    stays = np.flatnonzero(ends_E[1:] & ~begins_E[1:] & (rank_E[1:] == rank_E[:-1]))
    staying = np.bincount(path_E[1:][stays], minlength=paths).astype(float)
    after = np.full(paths, np.inf)
    np.minimum.at(after, path_E[1:][stays], follow_E[stays])
    return staying, np.where(staying > 0, after, 0.0)
