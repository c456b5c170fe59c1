"""Plans of divided GPUs by hand: jobs read from text, GPUs of nodes, pods, commands, and what is said beside."""

from __future__ import annotations

import pytest

from podsim.errors import MigError
from podsim.hardware.catalog import load_gpu
from podsim.hardware.mig.best import Assignment, Wish
from podsim.hardware.mig.commands import read_parted
from podsim.hardware.mig.layouts import read_layout
from podsim.hardware.mig.measured_slices import interference, neighbour_share
from podsim.hardware.mig.mig_plans import _pods, _spans, _strategy, make_gpus, make_plan
from podsim.hardware.mig.profiles import slicings
from podsim.hardware.mig.wishes import read_machine, read_wishes

A100 = slicings()["a100-40gb"]
HALVES = Assignment(layout=read_layout(A100, "3g,3g"), jobs=("serve", "serve"), speeds=(1.0, 1.0), value=2.0)
MIXED = Assignment(layout=read_layout(A100, "4g,1g"), jobs=("serve", "try"), speeds=(1.0, 1.0), value=2.0)


def test_jobs_as_text() -> None:
    found = read_wishes(A100, ["training:4xgpu", "inference = 14 x 1g", "bert:5x8GB@0.4", "any:1*0.5 GiB"])
    assert found == (
        Wish(name="training", count=4, profile="gpu"), Wish(name="inference", count=14, profile="1g.5gb"),
        Wish(name="bert", count=5, memory=8e9, fixed=0.4), Wish(name="any", count=1, memory=2**29),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        ([], "no jobs; give some"), (["a:1xgpu", "b:1xgpu", "a:2x1g"], "^a is given twice$"),
        (["a"], "a: expected NAME:NUMBERxWHAT"), (["A_b:1xgpu"], "name 'A_b': small letters"),
        (["a:0xgpu"], "0 jobs; 1 to 100,000"), (["a:100001xgpu"], "100001 jobs"), (["a:1x9g"], "or gpu, or a memory"),
        (["a:1x1g@0.5"], "@0.5 belongs to a job that takes any instance; 1g.5gb was asked"),
        (["a:1x8GB@1e"], "@1e: the share of time"), (["a:1xgpu@0.5"], "gpu was asked for"),
    ],
)  # fmt: skip
def test_jobs_that_cannot_be_read(jobs: list[str], said: str) -> None:
    with pytest.raises(MigError, match=said):
        read_wishes(A100, jobs)


def test_the_machine_of_a_gpu_is_one() -> None:
    assert read_machine("a100-40gb")[1:] == (1, 1)
    gpu, nodes, per_node = read_machine("dgx-a100-40gb:3")
    assert (gpu.name, nodes, per_node) == ("a100-sxm4-40gb", 3, 8)


def test_whole_gpus_come_first_then_divided_then_idle_ones() -> None:
    gpus = make_gpus(2, 2, ["train"], [HALVES, None, MIXED])
    assert [(gpu.node, gpu.index, gpu.mode, gpu.jobs) for gpu in gpus] == [
        (0, 0, "whole", ("train",)), (0, 1, "mig", ("serve", "serve")), (1, 0, "mig", ("serve", "try")),
        (1, 1, "idle", ()),
    ]  # fmt: skip
    assert [gpu.layout for gpu in gpus] == [None, HALVES.layout, MIXED.layout, None]
    assert [gpu.speeds for gpu in gpus] == [(1.0,), (1.0, 1.0), (1.0, 1.0), ()]


def test_a_plan_of_two_nodes() -> None:
    wishes = read_wishes(A100, ["train:1xgpu", "serve:2x3g", "more:1x4g", "try:1x1g"])
    gpus = make_gpus(2, 2, ["train"], [HALVES, MIXED])
    plan = make_plan("on", load_gpu("a100-40gb"), A100, 2, wishes, gpus, "throughput", [0.5, 0.25])
    assert (plan.devices, plan.value, plan.least, plan.strategy) == (5, 0.75, 2, "mixed")
    first, second = plan.commands
    assert (first[0], second[0]) == ("node 0", "node 1")
    assert first[1][:2] == ("nvidia-smi -i 1 -mig 1", "nvidia-smi mig -i 1 -cgi 9:0,9:4 -C")
    parted = read_parted(plan.parted)
    assert {name: [entry.devices for entry in made] for name, made in parted.items()} == {
        "podsim-0": [(0,), (1,)], "podsim-1": [(0,), (1,)],
    }  # fmt: skip
    assert "serve-3g" in plan.kubernetes  # its instances have two profiles, so two jobs
    assert "serve-4g" in plan.kubernetes
    assert "try-1g" not in plan.kubernetes
    assert [note for note in plan.notes if "left over" in note or "unused" in note] == [
        "1 GPU is left over", "3 compute slices of divided GPUs stay unused",
    ]  # fmt: skip
    assert any("reset of the GPU" in note for note in plan.notes)
    slowest = make_plan("on", load_gpu("a100-40gb"), A100, 2, wishes, gpus, "slowest", [0.5, 0.25])
    assert slowest.value == 0.25


def test_a_plan_of_equal_nodes_and_one_without_instances() -> None:
    same = make_gpus(2, 1, [], [HALVES, HALVES])
    plan = make_plan("on", load_gpu("a100-40gb"), A100, 2, (), same, "throughput", [])
    assert [where for where, _ in plan.commands] == ["nodes 0, 1"]
    assert (list(read_parted(plan.parted)), plan.strategy, plan.value, plan.least) == (
        ["podsim"],
        "single",
        0.0,
        0,
    )
    idle = make_plan(
        "on", load_gpu("a100-40gb"), A100, 1, (), make_gpus(1, 4, ["a", "a"], []), "throughput", []
    )
    assert (idle.commands, idle.strategy, idle.notes) == ((), "none", ("2 GPUs are left over",))


@pytest.mark.parametrize(
    ("profile", "count", "pods"),
    [
        ("1g.5gb", 5, (5, 1)),
        ("", 4, (1, 4)),
        ("", 8, (1, 8)),
        ("", 16, (2, 8)),
        ("", 12, (12, 1)),
        ("", 1, (1, 1)),
    ],
)
def test_whole_gpus_of_a_job_stand_in_few_pods(profile: str, count: int, pods: tuple[int, int]) -> None:
    assert _pods(profile, count, 8) == pods


def test_words_of_plans() -> None:
    assert (_spans([3]), _spans([0, 2])) == ("node 3", "nodes 0, 2")
    one, other = HALVES.layout, MIXED.layout
    assert [_strategy([one, one]), _strategy([one, None]), _strategy([other]), _strategy([None])] == [
        "single", "mixed", "mixed", "none",
    ]  # fmt: skip


def test_neighbours_cost_in_proportion_to_six() -> None:
    mean = sum(interference().values()) / 5
    shares = [neighbour_share("a100-40gb/1g.5gb", instances) for instances in (1, 4, 7, 9)]
    assert shares == pytest.approx([0.0, mean / 2, mean, mean])
    assert neighbour_share("a100-40gb", 7) == 0.0
