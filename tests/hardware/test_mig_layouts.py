"""MIG layouts: the published list, the rule as a theorem, placement, what cannot be."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.errors import CatalogError, MigError
from podsim.hardware.catalog import load_gpu, names
from podsim.hardware.mig.layouts import (
    Instance,
    Layout,
    check,
    extensions,
    layouts,
    maximal,
    place,
    problems_of,
    read_layout,
)
from podsim.hardware.mig.profiles import find_profile, slicing_names, slicing_of, slicings
from podsim.hardware.mig.split import slice_of, split

A100 = slicings()["a100-40gb"]

# The 19 maximal layouts as published for the A100: profile@slice.
PUBLISHED = """\
7g@0
4g@0 3g@4
4g@0 2g@4 1g@6
4g@0 1g@4 1g@5 1g@6
3g@0 3g@4
3g@0 2g@4 1g@6
3g@0 1g@4 1g@5 1g@6
2g@0 2g@2 3g@4
2g@0 1g@2 1g@3 3g@4
1g@0 1g@1 2g@2 3g@4
1g@0 1g@1 1g@2 1g@3 3g@4
2g@0 2g@2 2g@4 1g@6
2g@0 2g@2 1g@4 1g@5 1g@6
2g@0 1g@2 1g@3 2g@4 1g@6
2g@0 1g@2 1g@3 1g@4 1g@5 1g@6
1g@0 1g@1 2g@2 2g@4 1g@6
1g@0 1g@1 2g@2 1g@4 1g@5 1g@6
1g@0 1g@1 1g@2 1g@3 2g@4 1g@6
1g@0 1g@1 1g@2 1g@3 1g@4 1g@5 1g@6
"""


def _short(layout: Layout) -> str:
    return " ".join(f"{one.profile.partition('.')[0]}@{one.start}" for one in layout.instances)


def test_the_19_maximal_layouts_of_the_a100_and_297_in_all() -> None:
    assert {_short(one) for one in maximal(A100)} == set(PUBLISHED.splitlines())
    assert len(maximal(A100)) == 19
    assert len(layouts(A100)) == 297
    assert len({one.profiles for one in layouts(A100)}) == 37
    assert len({one.profiles for one in maximal(A100)}) == 14


@pytest.mark.parametrize("name", ["a100-80gb", "h100-80gb", "h200-141gb"])
def test_other_gpus_of_eight_slices_have_the_same_layouts(name: str) -> None:
    assert {_short(one) for one in maximal(slicings()[name])} == set(PUBLISHED.splitlines())


def test_a30_by_hand() -> None:
    """Four slices: 4g; 2g in halves 0 and 2; 1g anywhere: (2g or what two 1g can be) squared, and 4g."""
    a30 = slicings()["a30-24gb"]
    assert len(layouts(a30)) == (1 + 4) ** 2 - 1 + 1
    assert {_short(one) for one in maximal(a30)} == {
        "4g@0", "2g@0 2g@2", "2g@0 1g@2 1g@3", "1g@0 1g@1 2g@2", "1g@0 1g@1 1g@2 1g@3",
    }  # fmt: skip


@pytest.mark.parametrize("every", [False, True])
def test_enumeration_against_every_subset_of_placements(every: bool) -> None:
    """Another way to the same set: all subsets of the A30's placements that break no rule."""
    a30 = slicings()["a30-24gb"]
    profiles = a30.profiles if every else a30.basic
    spots = [
        Instance(profile=p.name, start=s, size=p.size, compute=p.compute) for p in profiles for s in p.starts
    ]
    legal = {
        frozenset(some)
        for number in range(1, 5)
        for some in combinations(spots, number)
        if not problems_of(a30, some)
    }
    assert {frozenset(one.instances) for one in layouts(a30, every=every)} == legal
    grown = {one for one in legal if not any(one < other for other in legal)}
    assert {frozenset(one.instances) for one in maximal(a30, every=every)} == grown


@given(st.sampled_from(layouts(A100)), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_a_layout_keeps_the_rule_and_comes_back_from_its_text(layout: Layout, random: object) -> None:
    taken = [at for one in layout.instances for at in one.slices]
    assert len(taken) == len(set(taken))
    assert layout.compute <= 7
    assert layout.memory <= 8
    texts = [str(one) for one in layout.instances]
    random.shuffle(texts)  # type: ignore[attr-defined]
    assert read_layout(A100, ", ".join(texts)) == layout
    freely = read_layout(A100, ",".join(layout.profiles))
    assert freely.profiles == layout.profiles
    assert extensions(A100, freely) >= extensions(A100, layout)
    assert 1 <= extensions(A100, layout) <= 297


def test_small_instances_are_placed_where_they_block_least() -> None:
    """A 1g at slice 6 leaves 4g, 3g and 2g; at slice 0 it would take 4g away."""
    assert str(read_layout(A100, "1g.5gb")) == "1g.5gb@6"
    assert str(read_layout(A100, "4g,2g,1g")) == "4g.20gb@0 2g.10gb@4 1g.5gb@6"
    assert [one.start for one in read_layout(A100, "14:2").instances] == [2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("3g@0,2g@2", "3g.20gb@0 (memory slices 0 to 3) and 2g.10gb@2 (memory slices 2 to 3) both need memory slice 2"),
        ("2g@3", "2g.10gb may start at memory slice 0, 2, 4"),
        ("4g,4g", "a GPU holds 1 at most"),
        ("4g,2g,2g", "4 (4g.20gb) + 2 x 2 (2g.10gb) = 8 compute slices; a100-40gb has 7"),
        ("3g,3g,1g", "2 x 4 (3g.20gb) + 1 (1g.5gb) = 9 memory slices; a100-40gb has 8"),
        ("1g@0,4g", "no room for 4g.20gb, which needs 4 memory slices: blocked at 0 by 1g.5gb@0"),
        ("1g.5gb+me,1g.5gb+me", "a GPU holds 1 at most"),
        ("5g", "unknown profile '5g'"),
        ("1g.6gb", "1g.6gb is a profile of a30-24gb"),
        ("3g@x", "cannot read '3g@x'"),
        ("9x1g", "1 to 8 instances"),
        ("2x1g@0", "one at a given start"),
        ("", "no instances"),
        ("1g " * 100, "100 instances given"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told(text: str, said: str) -> None:
    with pytest.raises(MigError) as caught:
        read_layout(A100, text)
    assert any(said in problem for problem in caught.value.problems), caught.value.problems


def test_all_problems_at_once() -> None:
    with pytest.raises(MigError) as caught:
        read_layout(A100, "5g, 3g@0, 2g@2, 2g@3")
    assert len(caught.value.problems) == 5


def test_instances_that_are_there_stay() -> None:
    there = read_layout(A100, "2g@2").instances
    made = place(A100, [find_profile(A100, "3g")], fixed=there)
    assert str(made) == "2g.10gb@2 3g.20gb@4"
    with pytest.raises(MigError, match=r"blocked at 0 by 2g\.10gb@2"):
        place(A100, [find_profile(A100, "4g")], fixed=there)
    with pytest.raises(MigError, match="both need"):
        check(A100, [*there, *read_layout(A100, "3g@0").instances])


@pytest.mark.parametrize("name", slicing_names())
def test_every_table_agrees_with_its_gpu(name: str) -> None:
    gpu = load_gpu(name)
    slicing = slicing_of(gpu)
    assert gpu.mig
    assert slicing.source
    whole = slicing.whole
    assert whole.sms <= gpu.sms
    assert (whole.compute, whole.size) == (slicing.compute_slices, slicing.memory_slices)
    for one in slicing.profiles:
        assert one.sms * one.most <= gpu.sms
        assert one.size * one.most <= slicing.memory_slices
        assert all(0 <= start <= slicing.memory_slices - one.size for start in one.starts)
        assert find_profile(slicing, one.name) == find_profile(slicing, str(one.id)) == one


def test_gpus_that_cannot_be_divided() -> None:
    without = [name for name in names("gpu") if not load_gpu(name).mig]
    assert without
    for name in without:
        with pytest.raises(MigError, match="has no MIG; GPUs that can be divided: a100"):
            slicing_of(load_gpu(name))
    with pytest.raises(MigError, match="profiles are unknown"):
        slicing_of(load_gpu("h20"))
    with pytest.raises(MigError, match="is already an instance"):
        split(load_gpu("a100-40gb/3g.20gb"), "1g")
    with pytest.raises(CatalogError, match="unknown gpu"):
        load_gpu("a101/1g")


def test_a_slice_is_a_gpu() -> None:
    """1g.5gb by hand: 14 of 108 SMs, one of eight memory slices of 1555 GB/s, 4.75 GiB."""
    whole = load_gpu("a100-40gb")
    one = slice_of(whole, "1g.5gb")
    assert one.sms == 14
    assert one.peaks["bf16"] == pytest.approx(312e12 * 14 / 108)
    assert one.memory_bandwidth == pytest.approx(1555e9 / 8)
    assert one.memory == 4.75 * 2**30
    assert one.l2 == pytest.approx(whole.l2 / 8)
    assert one.power == pytest.approx(400 * 14 / 108)
    assert one.sparse_peaks["int8"] == pytest.approx(1248e12 * 14 / 108)
    assert (one.name, one.fraction) == ("a100-sxm4-40gb/1g.5gb", 1 / 8)
    assert one.nvlink == 0
    assert one.l2 == pytest.approx(40e6 / 8)
    assert one.power == pytest.approx(400 * 14 / 108)
    assert one.sparse_peaks["bf16"] == pytest.approx(624e12 * 14 / 108)
    assert (one.name, one.fraction, one.mig) == ("a100-sxm4-40gb/1g.5gb", 1 / 8, False)
    assert (one.nvlink, one.nvlinks, one.nvlink_bandwidth, one.nvlink_latency, one.bridge) == (
        0,
        0,
        0,
        0,
        False,
    )
    assert not one.mig
    assert one == load_gpu("a100-40gb/1g.5gb") == load_gpu("a100-sxm4-40gb/19")
    made = split(whole, "4g,2g,1g")
    assert [gpu.sms for gpu in made] == [56, 28, 14]
    assert sum(gpu.memory_bandwidth for gpu in made) == pytest.approx(whole.memory_bandwidth * 7 / 8)
