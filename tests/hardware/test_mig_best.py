"""Best layouts: against brute force, the white paper's node, fleets, what does not fit."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.errors import MigError, NoFitError
from podsim.hardware.mig.best import Assignment, Wish, best_fleet, fewest_gpus
from podsim.hardware.mig.change import additions, change_to
from podsim.hardware.mig.layouts import check, extensions, layouts, maximal, read_layout
from podsim.hardware.mig.profiles import Slicing, find_profile, slicings

A100 = slicings()["a100-40gb"]
A30 = slicings()["a30-24gb"]


def best_layout(slicing: Slicing, wishes: list[Wish], objective: str = "throughput") -> Assignment:
    """The best layout of one GPU for all these jobs."""
    (assignment,) = best_fleet(slicing, 1, wishes, objective=objective)
    assert assignment is not None
    return assignment


def _brute(wishes: list[Wish], objective: str) -> float | None:
    """Every layout, every way to give its instances to the jobs."""
    jobs = [wish for wish in wishes for _ in range(wish.count)]
    best = None
    for layout in maximal(A30, every=True):
        profiles = [find_profile(A30, name) for name in layout.profiles]
        if any(one.media for one in profiles) or len(profiles) < len(jobs):
            continue
        for some in permutations(profiles, len(jobs)):
            speeds = [job.speed(A30, one) for job, one in zip(jobs, some, strict=True)]
            if all(speeds):
                value = sum(speeds) if objective == "throughput" else min(speeds)
                best = value if best is None else max(best, value)
    return best


@given(
    st.lists(
        st.tuples(st.integers(1, 2), st.sampled_from([0.0, 5e9, 1e10]), st.floats(0, 1)),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(["throughput", "slowest"]),
)
@settings(max_examples=40, deadline=None)
def test_one_gpu_is_exact(given: list[tuple[int, float, float]], objective: str) -> None:
    wishes = [Wish(name=f"j{n}", count=c, memory=m, fixed=f) for n, (c, m, f) in enumerate(given)]
    value = _brute(wishes, objective)
    if value is None:
        with pytest.raises(NoFitError):
            best_layout(A30, wishes, objective=objective)
    else:
        found = best_layout(A30, wishes, objective=objective)
        assert found.value == pytest.approx(value)
        assert len([job for job in found.jobs if job]) == sum(one.count for one in wishes)
        check(A30, found.layout.instances)


def test_the_white_papers_node() -> None:
    """14 instances for inference fill two GPUs; 56 users one DGX A100."""
    two = best_fleet(A100, 2, [Wish(name="inference", count=14, profile="1g")])
    assert [None if one is None else len(one.jobs) for one in two] == [7, 7]
    eight = best_fleet(A100, 8, [Wish(name="user", count=56, profile="1g")])
    assert sum(len(one.jobs) for one in eight if one) == 56
    with pytest.raises(
        NoFitError, match=r"57 x 1g\.5gb do not fit on 8 GPUs of a100-40gb; they need 9 at least"
    ):
        best_fleet(A100, 8, [Wish(name="user", count=57, profile="1g")])


def test_a_small_job_with_much_memory_takes_the_instance_with_more_memory() -> None:
    found = best_layout(A100, [Wish(name="big", count=4, memory=8e9, fixed=1.0)])
    assert set(found.layout.profiles) == {"1g.10gb"}
    assert found.value == pytest.approx(4.0)


def test_a_fleet_is_no_worse_than_dealing_jobs_out() -> None:
    wishes = [Wish(name="a", count=6, fixed=0.0), Wish(name="b", count=6, fixed=0.9)]
    fleet = best_fleet(A100, 3, wishes)
    dealt = best_layout(A100, [Wish(name="a", count=2, fixed=0.0), Wish(name="b", count=2, fixed=0.9)])
    assert sum(one.value for one in fleet if one) >= 3 * dealt.value - 1e-9
    jobs = sorted(job for one in fleet if one for job in one.jobs)
    assert jobs == ["a"] * 6 + ["b"] * 6
    slow = best_fleet(A100, 3, wishes, objective="slowest")
    least = min(speed for one in slow if one for speed in one.speeds)
    assert least >= min(speed for one in fleet if one for speed in one.speeds) - 1e-9


def test_fewest_by_hand() -> None:
    assert fewest_gpus(A100, {"1g.5gb": 57}) == 9
    assert fewest_gpus(A100, {"3g.20gb": 3}) == 2
    assert fewest_gpus(A100, {"4g.20gb": 2, "3g.20gb": 2}) == 2
    assert fewest_gpus(A100, {"4g.20gb": 1, "3g.20gb": 1, "1g.5gb": 1}) == 2
    assert fewest_gpus(A100, {"1g.5gb": 50_000, "2g.10gb": 50_000}) == 21_429  # a bound: too many ways to try


@pytest.mark.parametrize(
    "counts",
    [
        {"3g.20gb": 3, "2g.10gb": 5, "1g.5gb": 2},
        {"4g.20gb": 1, "3g.20gb": 3, "2g.10gb": 2, "1g.5gb": 4},
        {"1g.5gb": 9, "2g.10gb": 1},
    ],
)
def test_what_fits_is_found_where_packing_by_size_fails(counts: dict[str, int]) -> None:
    wishes = [Wish(name=name.replace(".", "-"), count=n, profile=name) for name, n in counts.items()]
    twice = [Wish(name="first", count=1, profile=wishes[0].profile), *wishes]
    twice[1] = Wish(name=wishes[0].name, count=wishes[0].count - 1, profile=wishes[0].profile)
    for asked in (wishes, twice):
        fleet = best_fleet(A100, fewest_gpus(A100, counts), asked)
        held = sorted(name for one in fleet if one for name in one.layout.profiles)
        assert held == sorted(name for name, n in counts.items() for _ in range(n))
        with pytest.raises(NoFitError):
            best_fleet(A100, fewest_gpus(A100, counts) - 1, asked)


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (Wish(name="x", memory=50e9), "needs 50 GB; the largest instance has 42.4 GB"),
        (Wish(name="x", fixed=2.0), "must be from 0 to 1"),
        (Wish(name="x", profile="9g"), "unknown profile"),
    ],
)
def test_wishes_that_nothing_meets(wish: Wish, said: str) -> None:
    with pytest.raises(MigError, match=said):
        best_layout(A100, [wish])
    with pytest.raises(MigError, match="objective"):
        best_layout(A100, [Wish(name="y")], objective="speed")


def test_a_change_keeps_what_it_can() -> None:
    now = read_layout(A100, "1g@2 3g@4")
    change = change_to(A100, now.instances, read_layout(A100, "3g,2g,2g"))
    assert [str(one) for one in change.keep] == ["3g.20gb@4"]
    assert [str(one) for one in change.destroy] == ["1g.5gb@2"]
    assert [str(one) for one in change.create] == ["2g.10gb@0", "2g.10gb@2"]
    assert change.reachable
    stuck = change_to(A100, now.instances, read_layout(A100, "4g,3g"), busy=now.instances)
    assert [str(one) for one in stuck.stopped] == ["1g.5gb@2"]
    assert not stuck.reachable


@given(st.sampled_from(layouts(A100)), st.sampled_from(layouts(A100)))
@settings(max_examples=40, deadline=None)
def test_a_change_adds_up(before: object, after: object) -> None:
    now, target = before.instances, after  # type: ignore[attr-defined]
    change = change_to(A100, now, target)  # type: ignore[arg-type]
    assert set(change.keep) | set(change.destroy) == set(now)
    assert set(change.keep) | set(change.create) == set(change.target.instances)
    assert change.target.profiles == target.profiles  # type: ignore[attr-defined]
    fixed = change_to(A100, now, target, free=False)  # type: ignore[arg-type]
    assert len(change.destroy) <= len(fixed.destroy)


def test_additions_by_hand() -> None:
    found = additions(A100, read_layout(A100, "4g@0"))
    assert found == {
        "1g.5gb": 3, "1g.5gb+me": 1, "1g.10gb": 2, "2g.10gb": 1, "3g.20gb": 1, "4g.20gb": 0, "7g.40gb": 0,
    }  # fmt: skip
    assert extensions(A100, read_layout(A100, "7g")) == 1
