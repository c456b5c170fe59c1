"""Which ranks are alike: an equitable partition, as coarse as can be, counted by hand where that is easy."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.simulation.lower_links import divide, rank_number
from podsim.training.plan import Plan


def groups_of(plan, r, x, t):
    """Members of every group of a rank, by the book: (name, whether their order counts, ranks)."""
    pp, tp, xs = int(plan.pp), int(plan.tp), int(plan.dp) * int(plan.cp)
    cp, ep = int(plan.cp), int(plan.ep)
    yield "tp", False, [(r, x, k) for k in range(tp)]
    yield "cp", False, [(r, x // cp * cp + k, t) for k in range(cp)]
    yield "ep", False, [(r, x // ep * ep + k, t) for k in range(ep)]
    yield "dp", False, [(r, k, t) for k in range(xs)]
    yield "line", True, [(k, x, t) for k in range(pp)]


def seen(plan, label, rank):
    """What a rank sees of the classes of its groups."""
    out = []
    for name, ordered, members in groups_of(plan, *rank):
        classes = [int(label[m]) for m in members]
        out.append((name, tuple(classes) if ordered else tuple(sorted(Counter(classes).items()))))
    return tuple(out)


def coarsest(plan, mark):
    """Colours refined until nothing changes, rank by rank."""
    ranks = [tuple(map(int, place)) for place in np.ndindex(mark.shape)]
    colour = {rank: (rank[0], int(mark[rank])) for rank in ranks}
    while True:
        names = {c: i for i, c in enumerate(sorted(set(map(repr, colour.values()))))}
        label = np.empty(mark.shape, int)
        for rank in ranks:
            label[rank] = names[repr(colour[rank])]
        finer = {rank: (int(label[rank]), seen(plan, label, rank)) for rank in ranks}
        if len(set(map(repr, finer.values()))) == len(names):
            return label
        colour = finer


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_the_coarsest_equitable_partition(data):
    pp, cp, dp, tp = (
        data.draw(st.sampled_from(choice)) for choice in ((1, 2, 3), (1, 2), (1, 2, 4), (1, 2, 4))
    )
    ep = data.draw(st.sampled_from([e for e in (1, 2, 4) if (dp * cp) % e == 0]))
    plan = Plan(pp=pp, cp=cp, dp=dp, tp=tp, ep=ep)
    shape = (pp, dp * cp, tp)
    mark = np.zeros(shape, int)
    for _ in range(data.draw(st.integers(0, 3))):
        mark[tuple(data.draw(st.integers(0, n - 1)) for n in shape)] = data.draw(st.integers(1, 2))
    found = divide(plan, mark)
    wanted = coarsest(plan, mark)
    pairs = set(zip(found.label.ravel().tolist(), wanted.ravel().tolist(), strict=True))
    assert len(pairs) == found.count == wanted.max() + 1
    views = {}
    for rank in np.ndindex(shape):
        views.setdefault(int(found.label[rank]), set()).add(seen(plan, found.label, rank))
    assert all(len(view) == 1 for view in views.values())
    assert found.copies.sum() == mark.size
    for c in range(found.count):
        place = tuple(found.first[c])
        assert found.label[place] == c
        assert found.line[c].tolist() == found.label[:, place[1], place[2]].tolist()


def test_without_trouble_a_class_for_each_stage():
    found = divide(Plan(pp=4, dp=8, tp=8), np.zeros((4, 8, 8), int))
    assert found.copies.tolist() == [64] * 4


def test_one_slow_rank_by_hand():
    """On each stage the slow rank's own position, its tensor row, its data column, and all the others: 4 x 4."""
    mark = np.zeros((4, 8, 8), int)
    mark[1, 2, 3] = 1
    found = divide(Plan(pp=4, dp=8, tp=8), mark)
    assert found.count == 16
    assert sorted(found.copies.tolist()) == sorted([1, 7, 7, 49] * 4)
    assert found.copies[found.label[1, 2, 3]] == 1
    assert found.copies[found.label[0, 2, 3]] == 1  # sends to it, or waits for it


def test_expert_groups_divide_further():
    """Eight data ranks in expert groups of four: the slow one, three beside it, four of the other group."""
    mark = np.zeros((1, 8, 1), int)
    mark[0, 1, 0] = 1
    assert sorted(divide(Plan(dp=8, ep=4), mark).copies.tolist()) == [1, 3, 4]
    assert sorted(divide(Plan(dp=8), mark).copies.tolist()) == [1, 7]


def test_unfolded_every_rank_is_its_own():
    plan = Plan(pp=2, dp=3, tp=4)
    found = divide(plan, np.zeros((2, 3, 4), int), unfold=True)
    assert found.copies.tolist() == [1] * 24
    for c in range(24):
        assert int(rank_number(plan, *found.first[c])) == c
    assert len(set(found.groups["tp"].tolist())) == 6
    assert len(set(found.groups["dp"].tolist())) == 8


@pytest.mark.parametrize("name", ["tp", "cp", "ep", "dp"])
def test_groups_are_made_of_their_classes(name):
    plan = Plan(pp=2, cp=2, dp=2, tp=2, ep=2)
    mark = np.zeros((2, 4, 2), int)
    mark[0, 1, 1] = 1
    found = divide(plan, mark)
    for rank in np.ndindex(mark.shape):
        members = next(m for n, _, m in groups_of(plan, *rank) if n == name)
        met = {int(found.groups[name][found.label[m]]) for m in members}
        assert len(met) == 1
