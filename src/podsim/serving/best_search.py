"""Every candidate of a search of the best way to serve, in closed form: layouts, limits, replicas, and split pools.

A candidate is a layout, a budget of tokens and a limit of sequences for its steps, and a number of replicas; or a pool
that reads prompts, and another that decodes. Candidates are columns of numbers, one estimate for all of a layout at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from podsim.axes import Floats, Ints, Shaped
from podsim.serving.best_layouts import Layout
from podsim.serving.serving_plan import ServingPlan
from podsim.serving.steady_load import (
    BUDGETS,
    SEQUENCES,
    Curves,
    Workload,
    at_rate,
    decode_curves,
    mixed_curves,
    prefill_figures,
    wait_seconds,
)

LIMITS = np.array([8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024], float)
"""count. The most sequences of a step that are tried."""
_BEYOND = np.unique(np.round(np.geomspace(1, 8192, 80)))
"""count. The replicas with which the fewest GPUs for a load are sought, on any number of clusters."""


@dataclass(frozen=True, kw_only=True)
class Objective:
    """What latencies must keep, and at which percentile."""

    first: float = np.inf
    """s. The longest time to the first token."""
    each: float = np.inf
    """s. The longest time per output token."""
    percentile: int = 99
    """count. The percentile that keeps them."""

    def pressure(self, first: Floats, each: Floats) -> Floats:
        """share. How near latencies come to the limits: above 1 they break one."""
        shares = [
            np.divide(seconds, limit) if np.isfinite(limit) else np.where(np.isfinite(seconds), 0.0, np.inf)
            for seconds, limit in ((first, self.first), (each, self.each))
        ]
        return np.asarray(np.maximum(*shares))


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Ways to serve, a row each."""

    layout: Shaped[Ints, "candidate"]
    """The number of the layout; of a split pool the one that decodes."""
    prefill: Shaped[Ints, "candidate"]
    """The number of the layout that reads prompts, -1 where one pool does both."""
    budget: Shaped[Ints, "candidate"]
    """The position of the tokens of a step in BUDGETS."""
    limit: Shaped[Floats, "candidate"]
    """count. The most sequences of a step."""
    replicas: Shaped[Floats, "candidate"]
    """count. The replicas; of a split pool those that decode."""
    prefill_replicas: Shaped[Floats, "candidate"]
    """count. The replicas that read prompts."""
    gpus: Shaped[Floats, "candidate"]
    """count. The GPUs of all replicas."""
    first: Shaped[Floats, "candidate"]
    """s. The time to the first token at the objective's percentile, infinite above the capacity."""
    each: Shaped[Floats, "candidate"]
    """s. The time per output token at the objective's percentile."""
    active: Shaped[Floats, "candidate"]
    """count. The mean sequences that a replica decodes."""
    capacity: Shaped[Floats, "candidate"]
    """1/s. The requests of all replicas at the most."""

    def __len__(self) -> int:
        """The number of candidates."""
        return len(self.gpus)

    def where(self, keep: npt.NDArray[np.bool_]) -> Candidates:
        """Some of them."""
        return Candidates(**{name: column[keep] for name, column in vars(self).items()})


def joined(parts: Sequence[Candidates]) -> Candidates:
    """Candidates of several parts in one."""
    names = vars(parts[0])
    return Candidates(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def pinned(candidates: Candidates, pins: Mapping[str, int]) -> Candidates:
    """The candidates with the user's replicas, and those limits of a step that are nearest to the user's."""
    if not pins.keys() & {"replicas", "max_batch", "max_batched_tokens"}:
        return candidates
    keep = np.ones(len(candidates), bool)
    if "replicas" in pins:
        keep &= candidates.replicas == pins["replicas"]
    if "max_batch" in pins:
        keep &= candidates.limit == _nearest(LIMITS, pins["max_batch"])
    if "max_batched_tokens" in pins:
        keep &= BUDGETS[candidates.budget] == _nearest(BUDGETS, pins["max_batched_tokens"])
    return candidates.where(keep)


def _nearest(values: Floats, wanted: float) -> float:
    return float(values[np.argmin(np.abs(values - wanted))])


def one_pool(
    layouts: Sequence[Layout], load: Workload, objective: Objective, gpus: int
) -> tuple[Candidates, int]:
    """(candidates whose replicas both read prompts and decode, the fewest GPUs that keep the objective, on any number).

    0 is none.
    """
    parts = [_of_layout(number, layout, load, objective, gpus) for number, layout in enumerate(layouts)]
    fewest = [count for _, count in parts if count]
    return joined([part for part, _ in parts]), min(fewest, default=0)


def _of_layout(
    number: int, layout: Layout, load: Workload, objective: Objective, gpus: int
) -> tuple[Candidates, int]:
    """(candidates of a layout on the GPUs, the fewest GPUs of its replicas that keep the objective; 0 is none)."""
    inside = np.arange(1, gpus // layout.plan.gpus + 1, dtype=float)
    counts = np.unique(np.concatenate([inside[:256], _BEYOND]))
    limit = np.minimum(LIMITS, layout.sequences[:, None])
    curves = mixed_curves(layout.cost, load, layout.plan.accepted_tokens, mixed=layout.scheduler.mixed)
    first, each, active = at_rate(curves, load, load.rate / counts, limit, objective.percentile)
    reach = capacity(curves, limit)[:, None, :] * counts[:, None]
    shape = first.shape
    budgets, replicas, limits = np.meshgrid(np.arange(len(BUDGETS)), counts, LIMITS, indexing="ij")
    legal = (limits <= BUDGETS[budgets]) & (limits <= layout.max_batch)
    keeps = legal & (objective.pressure(first, each) <= 1)
    fewest = int(replicas[keeps].min()) * layout.plan.gpus if keeps.any() else 0
    legal &= replicas * layout.plan.gpus <= gpus
    columns = {
        "layout": np.full(shape, number), "prefill": np.full(shape, -1), "budget": budgets, "limit": limits,
        "replicas": replicas, "prefill_replicas": np.zeros(shape), "gpus": replicas * layout.plan.gpus, "first": first,
        "each": each, "active": active, "capacity": np.broadcast_to(reach, shape),
    }  # fmt: skip
    return Candidates(**{name: np.asarray(column)[legal] for name, column in columns.items()}), fewest


def capacity(curves: Curves, limit: Shaped[Floats, "budget limit"]) -> Shaped[Floats, "budget limit"]:
    """1/s. The most requests of a replica that decodes no more than `limit` sequences."""
    rising = np.maximum.accumulate(curves.rate, axis=1)
    rows = [np.interp(most, SEQUENCES, rate) for most, rate in zip(limit, rising, strict=True)]
    return np.array(rows)


def split_pools(
    layouts: Sequence[Layout], load: Workload, objective: Objective, gpus: int, bandwidth: float
) -> Candidates | None:
    """The candidates with a pool for prompts and one for decoding, joined by links of `bandwidth` for each GPU."""
    parts = []
    pairs = [
        (p, d)
        for p in range(len(layouts))
        for d in range(len(layouts))
        if _is_pair(layouts[p], layouts[d], gpus)
    ]
    prefills = {p: prefill_figures(layouts[p].cost, load) for p, _ in pairs}
    decodes = {d: decode_curves(layouts[d].cost, load, layouts[d].plan.accepted_tokens) for _, d in pairs}
    for p, d in pairs:
        reading, decoding = layouts[p], layouts[d]
        counts = np.array(list(_pool_sizes(reading.plan.gpus, decoding.plan.gpus, gpus)), float)
        limit = np.minimum(LIMITS, decoding.sequences.max())[None, :]
        each = at_rate(decodes[d], load, load.rate / counts[:, 1], limit, objective.percentile)
        moved = load.input_tokens * reading.room.token_bytes + reading.room.state_bytes
        transfer = moved / (bandwidth * min(reading.plan.gpus, decoding.plan.gpus))
        busy = load.rate / (counts[:, 0] * prefills[p].rate[:, None])
        service = np.broadcast_to(prefills[p].seconds[:, None], busy.shape)
        turn = np.broadcast_to(1 / prefills[p].rate[:, None], busy.shape)
        wait = wait_seconds(turn, np.minimum(busy, 0.999), load.input_spread, objective.percentile)
        first = np.where(busy < 1, service + wait + transfer, np.inf)
        best = np.argmin(first, axis=0)
        shape = (len(counts), len(LIMITS))
        reach = np.minimum(
            (counts[:, 0] * prefills[p].rate.max())[:, None], capacity(decodes[d], limit) * counts[:, 1:]
        )  # fmt: skip
        over = ~np.isfinite(each[0][0])
        columns = {
            "layout": np.full(shape, d), "prefill": np.full(shape, p), "budget": np.broadcast_to(best[:, None], shape),
            "limit": np.broadcast_to(LIMITS, shape), "replicas": np.broadcast_to(counts[:, 1:], shape),
            "prefill_replicas": np.broadcast_to(counts[:, :1], shape),
            "gpus": np.broadcast_to((counts @ [reading.plan.gpus, decoding.plan.gpus])[:, None], shape),
            "first": np.where(over, np.inf, np.min(first, axis=0)[:, None] + 0 * LIMITS),
            "each": each[1][0], "active": each[2][0], "capacity": reach,
        }  # fmt: skip
        parts.append(Candidates(**{name: np.asarray(column).ravel() for name, column in columns.items()}))
    return joined(parts) if parts else None


def _is_pair(reading: Layout, decoding: Layout, gpus: int) -> bool:
    """Whether two layouts may be a pool for prompts and one for decoding: of one engine and its formats."""
    first, last = reading.plan, decoding.plan
    same = (first.engine, first.precision, first.cache) == (last.engine, last.precision, last.cache)
    plain = first.draft_tokens == 0 and first.pipeline == last.pipeline == 1
    return same and plain and first.gpus + last.gpus <= gpus


def _pool_sizes(reading: int, decoding: int, gpus: int) -> Iterator[tuple[int, int]]:
    """(replicas for prompts, replicas for decoding) on at most some GPUs."""
    for x in range(1, min(gpus // reading, 16) + 1):
        for y in range(1, min((gpus - x * reading) // decoding, 16) + 1):
            yield x, y


@dataclass(frozen=True, kw_only=True)
class Way:
    """One candidate, spelled out."""

    plan: ServingPlan
    """The pool that decodes, or does both."""
    prefill: ServingPlan | None
    """The pool that reads prompts, if there are two."""
    gpus: int
    """count. The GPUs of all replicas."""


def way_of(layouts: Sequence[Layout], candidates: Candidates, row: int) -> Way:
    """The plans of a candidate."""
    budget = int(BUDGETS[candidates.budget[row]])
    limits = {"max_batch": int(candidates.limit[row]), "max_batched_tokens": budget}
    plan = replace(layouts[candidates.layout[row]].plan, replicas=int(candidates.replicas[row]), **limits)
    prefill = None
    if candidates.prefill[row] >= 0:
        prefill = replace(
            layouts[candidates.prefill[row]].plan, replicas=int(candidates.prefill_replicas[row]), **limits
        )
    return Way(plan=plan, prefill=prefill, gpus=int(candidates.gpus[row]))


def best_rows(candidates: Candidates, objective: Objective, gpus: int, count: int) -> list[int]:
    """The rows that are simulated: the fewest GPUs first, of each layout its best limits, then nearest to the objective.

    Estimates err: those that break the objective by less than a third are kept, too.
    """
    pressure = objective.pressure(candidates.first, candidates.each)
    inside = np.flatnonzero((candidates.gpus <= gpus) & (pressure < 4 / 3))
    if not len(inside):
        inside = np.flatnonzero((candidates.gpus <= gpus) & np.isfinite(pressure))
    order = inside[np.lexsort((-candidates.capacity[inside], pressure[inside], candidates.gpus[inside]))]
    keys = ("layout", "prefill", "replicas", "prefill_replicas")
    columns = np.stack([np.asarray(getattr(candidates, name)[order], float) for name in keys])
    _, first = np.unique(columns, axis=1, return_index=True)
    distinct = order[np.sort(first)]
    sizes = candidates.gpus[distinct]
    position = np.arange(len(distinct)) - np.searchsorted(sizes, sizes)
    late = position >= count // 2  # more GPUs get their turn before these
    chosen = distinct[np.argsort(late, kind="stable")][:count]
    others = order[~np.isin(order, chosen)][: count - len(chosen)]
    rows: list[int] = [*chosen.tolist(), *others.tolist()]
    return rows


def fewest_gpus(candidates: Candidates, objective: Objective) -> int:
    """count. The fewest GPUs of any candidate that keeps the objective; 0 if none does."""
    keeps = objective.pressure(candidates.first, candidates.each) <= 1
    return int(candidates.gpus[keeps].min()) if keeps.any() else 0


def front_points(layouts: Sequence[Layout], load: Workload) -> tuple[Floats, Floats, Ints, Floats]:
    """The Pareto front, the fastest user first: tokens/s of a user and of a GPU, number of the layout, sequences."""
    columns = []
    for number, layout in enumerate(layouts):
        accepted = layout.plan.accepted_tokens
        curves = mixed_curves(layout.cost, load, accepted, mixed=layout.scheduler.mixed)
        most = np.minimum(layout.sequences, layout.max_batch)[:, None]
        valid = (curves.rate > 0) & (most >= SEQUENCES)
        user = 1 / curves.step[valid]
        each = curves.rate[valid] * load.output_tokens / layout.plan.gpus
        active = np.broadcast_to(SEQUENCES, valid.shape)[valid]
        columns.append(np.array([user, each, np.full(len(user), number), active]))
    user, each, number, active = np.concatenate(columns, axis=1)
    order = np.lexsort((-each, -user))
    high = np.maximum.accumulate(each[order])
    keep = order[np.diff(high, prepend=0.0) > 0]
    return user[keep], each[keep], number[keep].astype(np.int64), active[keep]
