"""Ways through a tree of switches: up to the lowest common layer of both ends, and down.

On the way up there is a choice at every switch, on the way down among equal cables. Four draws for each pair make the
choice: cable up from the leaf, cable up from the spine, cable down from the core, cable down from the spine.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Bools, Floats, Ints, Shaped
from podsim.hardware.fabrics.fabric_links import NONE, Hops, Routing
from podsim.hardware.fabrics.tree import Tree

REDRAWS = 8
"""The number of hashed attempts to avoid broken links, before a search through all ways."""


def mix(values: Ints, seed: int = 0) -> NDArray[np.uint64]:
    """64-bit hashes of integers (the finaliser of splitmix64, G. Steele, D. Lea, C. Flood, OOPSLA 2014)."""
    z = values.astype(np.uint64) + np.uint64((0x9E3779B97F4A7C15 * (seed + 1)) % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def tree_hops(
    tree: Tree, source: Ints, destination: Ints, pair: Ints, routing: Routing, rate: Floats
) -> Hops:
    """(links of the tree from port to port, whether there is no way).

    pair: a number for each pair, for the hash. rate: B/s of the links of the tree, 0 if broken.
    """
    if routing.choice == "adaptive" and tree.uplinks:
        hops = _adaptive(tree, source, destination, pair, routing.seed, rate)  # [pair, hop]
    else:
        hops = _way(tree, source, destination, _draws(tree, (source, destination), pair, routing, 0))
    lost = np.zeros(len(source), np.bool_)
    if tree.uplinks == 0 and tree.leaves > 1:
        lost |= tree.leaf[source] != tree.leaf[destination]
    if tree.planes > 1:
        lost |= tree.plane(tree.group[tree.leaf[source]]) != tree.plane(tree.group[tree.leaf[destination]])
    broken = rate == 0.0
    if not broken.any():
        return hops, lost
    left = np.flatnonzero(_is_cut(hops, broken) & ~lost)
    for again in range(1, REDRAWS):
        if not len(left):
            break
        ends = source[left], destination[left]
        hops[left] = _way(tree, *ends, _draws(tree, ends, pair[left], routing, again))
        left = left[_is_cut(hops[left], broken)]
    if len(left):
        hops[left], lost[left] = _any_way(tree, source[left], destination[left], broken)
    return hops, lost


def _is_cut(hops: Shaped[Ints, "pair hop"], broken: Bools) -> Bools:
    """Whether hops include a broken link."""
    crossed = broken[np.maximum(hops, 0)] & (hops >= 0)  # [pair, hop]
    return np.asarray(crossed.any(axis=1))


def _draws(
    tree: Tree, ends: tuple[Ints, Ints], pair: Ints, routing: Routing, again: int
) -> tuple[Ints, Ints, Ints, Ints]:
    """Four draws for each pair."""
    if routing.choice in ("destination", "static"):
        rails = int(tree.rail.max(initial=0)) + 1
        turn = ends[routing.choice == "destination"] // rails + again
        up, spines = max(tree.uplinks, 1), max(tree.spines, 1)
        return turn, turn // up, turn // (up * 4), turn // spines
    bits = mix(pair, routing.seed * 64 + again)
    mask = np.uint64(0xFFFF)
    leaf_up, spine_up, core_down, spine_down = (
        ((bits >> np.uint64(16 * n)) & mask).astype(np.int64) for n in range(4)
    )
    return leaf_up, spine_up, core_down, spine_down


def _way(tree: Tree, source: Ints, destination: Ints, draws: tuple[Ints, Ints, Ints, Ints]) -> Ints:
    """The way that four draws choose, [pair, hop]: port up, leaf up, spine up, core down, spine down, port down."""
    first = tree.first
    hops = np.full((len(source), 6), NONE, np.int64)  # [pair, hop]
    hops[:, 0] = first["port_up"] + source
    hops[:, 5] = first["port_down"] + destination
    if not tree.uplinks:
        return hops
    here, there = tree.leaf[source], tree.leaf[destination]
    near = here == there
    up = draws[0] % tree.uplinks
    spine = up % tree.spines
    hops[:, 1] = first["leaf_up"] + here * tree.uplinks + up
    if tree.cores:
        group, other_group = tree.group[here], tree.group[there]
        per_spine = tree.group_cables // tree.spines
        cable = tree.first_cables[group] + spine * per_spine[group] + draws[1] % per_spine[group]
        low = (
            cable - tree.first_cables[other_group]
        ) % tree.cores  # the first cable of the other group at that core
        down = low + tree.cores * (draws[2] % ((tree.group_cables[other_group] - 1 - low) // tree.cores + 1))
        hops[:, 2] = first["core_up"] + cable
        hops[:, 3] = first["core_down"] + tree.first_cables[other_group] + down
        hops[group == other_group, 2:4] = NONE
        spine = np.where(group == other_group, spine, down // per_spine[other_group])
    back = spine if tree.multiple == 1 else spine + tree.spines * (draws[3] % tree.multiple)
    hops[:, 4] = first["leaf_down"] + there * tree.uplinks + back
    hops[near, 1:5] = NONE
    return hops


def _shape(tree: Tree) -> tuple[int, int, int]:
    """The largest choices of cables: up from a spine, down from a core to a group, down from a spine to a leaf."""
    if not tree.cores:
        return 1, 1, tree.multiple
    most = int(tree.group_cables.max())
    return most // tree.spines, -(-most // tree.cores), tree.multiple


def _any_way(tree: Tree, source: Ints, destination: Ints, broken: Bools) -> Hops:
    """The first way of all without a broken link."""
    hops = np.full((len(source), 6), NONE, np.int64)  # [pair, hop]
    lost = np.ones(len(source), np.bool_)
    ends = broken[tree.first["port_up"] + source] | broken[tree.first["port_down"] + destination]
    left = np.flatnonzero(~ends)
    for draw in product(range(max(tree.uplinks, 1)), *(range(n) for n in _shape(tree))):
        if not len(left):
            break
        leaf_up, spine_up, core_down, spine_down = (np.full(len(left), n) for n in draw)
        way = _way(tree, source[left], destination[left], (leaf_up, spine_up, core_down, spine_down))
        good = ~_is_cut(way, broken)
        hops[left[good]], lost[left[good]] = way[good], False
        left = left[~good]
    return hops, lost


def _adaptive(tree: Tree, source: Ints, destination: Ints, pair: Ints, seed: int, rate: Floats) -> Ints:
    """The ways of pairs in turn, each by the way whose fullest link has the most room; one pair per leaf at a time.

    Under one group of spines, all ways are compared. Over cores, first the cables up from the leaf, then the rest.
    """
    load = np.zeros(tree.links)
    hops = _way(tree, source, destination, (0 * pair, 0 * pair, 0 * pair, 0 * pair))  # [pair, hop]
    leaf, high = tree.leaf[source], tree.leaf[source] != tree.leaf[destination]
    far = high & (tree.group[leaf] != tree.group[tree.leaf[destination]])
    turn = mix(pair, seed).astype(np.int64) & 0xFFFF
    up, spine_up, core_down, spine_down = (np.arange(n) for n in (tree.uplinks, *_shape(tree)))
    for batch in _batches(leaf, np.flatnonzero(high)):
        near_ones, far_ones = batch[~far[batch]], batch[far[batch]]
        for pairs, ups, others in (
            (near_ones, up, (up[:1], up[:1])),
            (far_ones, up[:1], (spine_up, core_down)),
        ):
            if not len(pairs):
                continue
            candidate_draws = np.array(
                [grid.ravel() for grid in np.meshgrid(ups, *others, spine_down, indexing="ij")]
            )
            ends = source[pairs], destination[pairs]
            if pairs is far_ones:
                first = tree.first["leaf_up"] + leaf[pairs][:, None] * tree.uplinks + up  # [pair, candidate]
                best = _least_full(_fullness(load, rate, first[:, :, None]), turn[pairs])
                draws = np.broadcast_to(candidate_draws, (len(pairs), *candidate_draws.shape)).copy()
                draws[:, 0] = best[:, None]
            else:
                draws = np.broadcast_to(candidate_draws, (len(pairs), *candidate_draws.shape))
            hops[pairs] = _roomiest_way(tree, ends, draws, (load, rate, turn[pairs]))
            used = hops[pairs]
            np.add.at(load, used[used >= 0], 1.0)
    return hops


def _batches(leaf: Ints, pairs: Ints) -> list[Ints]:
    """The pairs in batches with one pair of each leaf, in order."""
    order = pairs[np.argsort(leaf[pairs], kind="stable")]
    start = np.searchsorted(leaf[order], leaf[order])
    rank = np.arange(len(order)) - start
    by_rank = order[np.argsort(rank, kind="stable")]
    return np.split(by_rank, np.cumsum(np.bincount(rank))[:-1]) if len(order) else []


def _roomiest_way(
    tree: Tree,
    ends: tuple[Ints, Ints],
    draws: Shaped[Ints, "pair draw candidate"],
    state: tuple[Floats, Floats, Ints],
) -> Ints:
    """The way, among those of K draws, whose fullest link is least full."""
    load, rate, turn = state
    pairs, _, candidates = draws.shape
    source, destination = (np.repeat(end, candidates) for end in ends)
    leaf_up, spine_up, core_down, spine_down = (draws[:, n].ravel() for n in range(4))
    hops = _way(tree, source, destination, (leaf_up, spine_up, core_down, spine_down)).reshape(
        pairs, candidates, 6
    )
    best = _least_full(_fullness(load, rate, hops[:, :, 1:5]), turn)
    return hops[np.arange(pairs), best]


def _fullness(load: Floats, rate: Floats, hops: Shaped[Ints, "pair candidate hop"]) -> Floats:
    """Flows per B/s on the fullest link of each candidate after its choice, [pair, candidate]; infinite if broken."""
    links = np.maximum(hops, 0)  # [pair, candidate, hop]
    after, rates = load[links] + 1.0, rate[links]
    full = np.divide(after, rates, out=np.full_like(after, np.inf), where=rates > 0)  # [pair, candidate, hop]
    fullest: Floats = np.where(hops >= 0, full, 0.0).max(axis=2)
    return fullest


def _least_full(full: Shaped[Floats, "pair candidate"], turn: Ints) -> Ints:
    """The least full candidate; among equals the first one after `turn`."""
    candidates = full.shape[1]
    order = (np.arange(candidates) + turn[:, None]) % candidates  # [pair, candidate]
    turned = np.take_along_axis(full, order, axis=1)  # [pair, candidate]
    best: Ints = order[np.arange(len(turn)), turned.argmin(axis=1)]
    return best
