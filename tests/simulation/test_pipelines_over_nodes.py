"""Pipelines of which a node holds several stages, but not all: some sends stay on it, others leave it."""

from __future__ import annotations

import pytest

from podsim.hardware.cluster import load_cluster
from podsim.network.nccl import send_seconds
from podsim.simulation.events import play
from podsim.simulation.lower import lower
from podsim.simulation.outcome import outcome
from podsim.training.batch import prepare, step_cost
from podsim.training.groups import send_table
from podsim.training.plan import Plan
from podsim.training.plan_values import Grid

close = pytest.approx


def crossings(stages, stride, gpus):
    """Neighbouring stages whose first ranks are on different nodes."""
    return [s for s in range(stages - 1) if s * stride // gpus != (s + 1) * stride // gpus]


@pytest.mark.parametrize(("tp", "pp", "dp"), [(1, 8, 2), (4, 4, 1), (2, 8, 1), (2, 2, 4), (8, 2, 1)])
def test_what_leaves_a_node_is_what_crosses_its_border(two, small, tp, pp, dp):
    """Each micro-batch's activations and gradients go over the adapters at the border, and over no others."""
    plan = Plan(tp=tp, pp=pp, dp=dp, global_batch=16, zero=0, sequence_parallel=tp > 1)
    lowered = lower(small, two, plan)
    step = outcome(small, two, plan, lowered, play(lowered.ops), 1.0)
    assert all(use.rate.max() <= use.capacity * (1 + 1e-9) for use in step.links)
    borders = crossings(pp, tp * dp, 8)
    one = small.sequence * small.hidden * 2 / tp * int(plan.micro_batches)
    sent = {use.name.split(":")[0]: use.carried["pp"] for use in step.links if use.carried.get("pp")}
    expected = {}
    for stage in range(pp):
        both = (stage in borders) + (stage - 1 in borders)
        if both:
            expected |= {f"out of stage {stage}": close(both * one), f"into stage {stage}": close(both * one)}
    assert sent == expected


@pytest.mark.parametrize(("tp", "pp", "beside"), [(1, 16, 8), (2, 8, 4), (4, 4, 2), (8, 2, 1), (1, 8, 4)])
def test_each_send_takes_what_its_way_takes(two, small, tp, pp, beside):
    plan = Plan(tp=tp, pp=pp, dp=16 // tp // pp, global_batch=16, sequence_parallel=tp > 1)
    assert int(Grid(gpus_per_node=8, plan=plan).stages) == beside
    stride = int(plan.tp * plan.dp)
    size = small.sequence * small.hidden * 2 / tp
    within = float(send_seconds(size, two, crosses_node=False, stride=stride, extent=8)[()])
    between = float(send_seconds(size, two, crosses_node=True, stride=stride, extent=8)[()])
    lowered = lower(small, two, plan, kernels=False)
    seconds = sorted({piece.seconds for piece in lowered.pieces if piece.kind == "send"})
    assert seconds == close([within, between] if beside > 1 else [between])
    sends = prepare(small, two, plan).sends.table
    far = len(crossings(pp, stride, 8))
    mean = (far * between + (pp - 1 - far) * within) / (pp - 1)
    assert float(sends.mean_seconds[0]) == close(mean)


def test_nodes_of_their_own_and_one_node_have_one_kind_of_send(two, small):
    one = load_cluster("dgx-a100:1")
    for cluster, plan in (
        (two, Plan(tp=8, pp=2, global_batch=4)), (one, Plan(tp=1, pp=8, global_batch=8)),
        (two, Plan(tp=1, pp=1, dp=16, global_batch=16)),
    ):  # fmt: skip
        assert not send_table(
            small, cluster, plan.wide(), prepare(small, cluster, plan).software
        ).further_seconds.any()


@pytest.mark.parametrize(
    ("schedule", "v"), [("gpipe", 1), ("1f1b", 1), ("interleaved", 3), ("zb-v", 2), ("dualpipe", 1)]
)
@pytest.mark.parametrize(("tp", "pp"), [(1, 8), (2, 8), (4, 4)])
def test_the_closed_form_counts_them_too(small, schedule, v, tp, pp):
    """Half the bandwidth: a send over a border takes many times as long as one within a node."""
    slow = load_cluster("dgx-a100-80gb:2", {"network.bandwidth": "100 Gb/s"})
    plan = Plan(
        tp=tp, pp=pp, dp=16 // tp // pp, global_batch=32, schedule=schedule, virtual_stages=v, zero=0,
        overlap_grad=False,
    )  # fmt: skip
    played = play(lower(small, slow, plan, kernels=False).ops).seconds
    assert 1 - 1e-9 <= played / float(step_cost(small, slow, plan).seconds[0]) <= 1.03
