"""A plan of instances with its files: two nodes of two A100, of which one GPU stays whole and one is divided."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podsim.hardware.catalog import load_gpu
from podsim.hardware.mig.best import Assignment, Wish
from podsim.hardware.mig.layouts import Layout, read_layout
from podsim.hardware.mig.mig_plans import WHOLE, _notes, _pods, _spans, _strategy, make_gpus, make_plan
from podsim.hardware.mig.profiles import slicing_of

GPU = load_gpu("a100-sxm4-40gb")
A100 = slicing_of(GPU)
TWO = read_layout(A100, "3g,2g")
DIVIDED = Assignment(layout=TWO, jobs=("bert", "small"), speeds=(0.5, 0.25), value=0.75)


def test_whole_gpus_come_first_and_idle_ones_last() -> None:
    gpus = make_gpus(2, 2, ["training"], [DIVIDED, DIVIDED])
    assert [(gpu.node, gpu.index, gpu.mode, gpu.jobs) for gpu in gpus] == [
        (0, 0, "whole", ("training",)), (0, 1, "mig", ("bert", "small")), (1, 0, "mig", ("bert", "small")),
        (1, 1, "idle", ()),
    ]  # fmt: skip
    assert [gpu.speeds for gpu in gpus] == [(1.0,), (0.5, 0.25), (0.5, 0.25), ()]
    assert [gpu.layout for gpu in gpus] == [None, TWO, TWO, None]


def test_the_plan_has_what_an_operator_runs() -> None:
    gpus = make_gpus(2, 2, ["training"], [DIVIDED])
    wishes = (
        Wish(name="training", profile=WHOLE),
        Wish(name="bert", profile="3g.20gb"),
        Wish(name="small", memory=1e9),
    )
    for objective, value in (("throughput", 0.75), ("slowest", 0.25)):
        plan = make_plan("dgx", GPU, A100, 2, wishes, gpus, objective, [0.5, 0.25])
        assert plan.value == value
    assert (plan.devices, plan.least, plan.strategy, plan.nodes) == (3, 1, "mixed", 2)
    assert [where for where, _ in plan.commands] == ["node 0"]  # the other has no instance
    assert "podsim-0:" in plan.parted
    assert "podsim-1:" in plan.parted
    assert "nvidia.com/mig-3g.20gb" in plan.kubernetes
    alike = make_gpus(2, 1, [], [DIVIDED, DIVIDED])
    same = make_plan("dgx", GPU, A100, 2, wishes, alike, "throughput", [])
    assert [where for where, _ in same.commands] == ["nodes 0, 1"]
    assert "podsim:" in same.parted
    assert (same.value, same.least) == (0.0, 1)
    assert make_plan("dgx", GPU, A100, 2, wishes[:1], alike, "slowest", []).least == 0


@pytest.mark.parametrize(
    ("profile", "count", "per_node", "pods"),
    [
        ("1g.5gb", 5, 8, (5, 1)),
        ("", 5, 8, (1, 5)),
        ("", 8, 8, (1, 8)),
        ("", 16, 8, (2, 8)),
        ("", 12, 8, (12, 1)),
    ],
)
def test_pods(profile: str, count: int, per_node: int, pods: tuple[int, int]) -> None:
    assert _pods(profile, count, per_node) == pods


def test_the_strategy_of_the_device_plugin() -> None:
    ones, twos = read_layout(A100, "1g,1g"), read_layout(A100, "2g")
    cases: list[tuple[list[Layout | None], str]] = [
        ([], "none"), ([None], "none"), ([ones, ones], "single"), ([ones, None], "mixed"), ([ones, twos], "mixed"),
    ]  # fmt: skip
    assert [_strategy(layouts) for layouts, _ in cases] == [word for _, word in cases]
    assert (_spans([3]), _spans([0, 2])) == ("node 3", "nodes 0, 2")


def test_notes() -> None:
    told = _notes(GPU, A100, make_gpus(1, 4, ["training"], [DIVIDED]))
    assert any("switched on by a reset" in note for note in told)
    assert "2 GPUs are left over" in told
    assert "2 compute slices of divided GPUs stay unused" in told  # 3 and 2 of seven
    assert "1 GPU is left over" in _notes(GPU, A100, make_gpus(1, 2, ["training"], []))
    assert len(_notes(GPU, A100, make_gpus(1, 1, ["training"], []))) == 0
    full = replace(DIVIDED, layout=read_layout(A100, "4g,3g"))
    assert not any("unused" in note for note in _notes(GPU, A100, make_gpus(1, 1, [], [full])))
    doubtful = replace(A100, confirmed="partial", notes={"7g": "by analogy"})
    assert _notes(GPU, doubtful, ())[-1] == f"profiles of {A100.name}: 7g by analogy"
    assert not any(
        "reset" in note for note in _notes(load_gpu("h100-sxm5-80gb"), A100, make_gpus(1, 1, [], [DIVIDED]))
    )
