"""Where groups of ranks lie: what leaves a node is timed on the network, held against ranks counted one by one."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from podsim.hardware.cluster import load_cluster
from podsim.training.groups import group_table, send_table, stage_exchanges, tied_seconds
from podsim.training.memory import weight_table
from podsim.training.pipeline_stages import stages_table
from podsim.training.plan import Plan
from podsim.training.plan_values import SCHEDULE_CODES, Grid
from podsim.training.predict import predict_plan
from podsim.training.shapes import group_seconds
from podsim.training.software import load_software
from podsim.workload.catalog import load_model

GRID = Grid(gpus_per_node=8, plan=Plan(dp=4096, global_batch=4096))


@pytest.mark.parametrize(
    ("size", "stride"), [*product((1, 2, 3, 4, 5, 6, 8, 9, 12, 16), (1, 2, 3, 4, 5, 6, 8, 12, 16))]
)
def test_members_on_a_node_are_those_of_the_group_that_is_spread_most(size: int, stride: int) -> None:
    block = size * stride
    counts = [
        [base + first + stride * i for i in range(size)]
        for base in range(0, 8 * block, block)
        for first in range(stride)
    ]
    nodes = [[rank // 8 for rank in ranks] for ranks in counts]
    assert int(GRID.per_node(size, stride)) == min(group.count(node) for group in nodes for node in group)


@pytest.mark.parametrize(("gpus", "tp"), [(8, 2), (8, 4), (72, 1), (72, 2), (72, 16)])
def test_a_plan_that_fits_a_node_lies_on_it(gpus: int, tp: int) -> None:
    """Also where its groups do not tile the node: three ranks, two apart, on eight GPUs."""
    ranks = gpus // tp - 1
    inside = Grid(gpus_per_node=gpus, plan=Plan(tp=tp, dp=ranks, global_batch=ranks))
    assert (int(inside.tp), int(inside.data(ranks))) == (tp, ranks)


@pytest.mark.parametrize("ep", [1, 2, 4, 8])
@pytest.mark.parametrize("zero", [0, 1, 3])
def test_replicas_of_experts_meet_over_the_network(ep: int, zero: int) -> None:
    """Expert groups fill nodes, so that each expert's gradients leave them: no faster than all adapters carry them."""
    cluster, model = load_cluster("dgx-a100-80gb:8"), load_model("mixtral-8x7b")
    plan = Plan(dp=64, ep=ep, zero=zero, global_batch=64, sequence=4096).arrays()
    software, weights = load_software(plan.software), weight_table(model, plan)
    counts = stages_table(model, plan).blocks[0]
    told = stage_exchanges(model, cluster, plan, software, weights, counts)
    held = float((counts * weights.expert).sum()) * software.gradient_bytes  # of one rank
    layers = float(counts[1:-1].sum()) if zero == 3 else 1.0
    seconds = float((told.layer_reduce if zero == 3 else told.reduce)[0]) * layers
    # a ring over 64 / ep replicas, whose 8 / ep members on a node share its adapters with ep rings of other experts
    rounds = (1 if zero else 2) * (1 - ep / 64)
    assert seconds > rounds * held / (cluster.node_bandwidth / ep)


SPREAD = (
    Plan(tp=2, pp=4, dp=3, global_batch=24, overlap_grad=False),  # replicas of three on two nodes
    Plan(tp=6, dp=4, global_batch=24),  # tensor-parallel groups of six
    Plan(tp=4, pp=6, dp=1, global_batch=24),  # every other stage on another node
    Plan(tp=1, pp=12, dp=2, global_batch=24),
)


@pytest.mark.parametrize("plan", SPREAD, ids=lambda plan: f"tp={plan.tp},pp={plan.pp},dp={plan.dp}")
def test_a_job_of_several_nodes_feels_its_network(plan: Plan) -> None:
    cluster, model = load_cluster("dgx-a100-80gb:3"), load_model("gpt-18b")
    slow = replace(cluster, network=replace(cluster.network, bandwidth=cluster.network.bandwidth / 100))
    assert predict_plan(model, slow, plan).step_time > 1.05 * predict_plan(model, cluster, plan).step_time


def test_an_optimizer_takes_turns_of_its_host() -> None:
    """A millisecond for each layer of the fullest stage."""
    cluster, model = load_cluster("dgx-a100-80gb:8"), load_model("gpt-18b")
    plan = Plan(pp=np.array([1, 4, 1]), dp=np.array([64, 16, 64]), zero=np.array([1, 0, 0]), global_batch=64)
    plain = replace(load_software(Plan().software), host_update=0.0)
    slow = replace(plain, host_update=1e-3)
    added = [group_table(model, cluster, plan.arrays(), each).optimizer for each in (plain, slow)]
    layers = model.layer_count
    assert added[1] - added[0] == pytest.approx(1e-3 * np.array([layers, layers / 4, layers]))


def test_where_another_rank_ends_the_step_it_has_no_embedding() -> None:
    """Weight gradients apart: the stage with the fewest parameters may end last, and the first may, too."""
    cluster, model = load_cluster("dgx-a100-80gb:1"), load_model("gpt2-xl")
    software = load_software(Plan().software)
    plan = Plan(pp=4, dp=2, schedule=SCHEDULE_CODES["zb-h1"], global_batch=16).arrays()
    first, last = (group_table(model, cluster, plan, software, first=each) for each in (True, False))
    tied = weight_table(model, plan).dense[0]
    assert first.embedding == tied_seconds(model, cluster, plan, software, tied) > 0
    assert last.embedding == 0
    assert last.reduce < first.reduce


@pytest.mark.parametrize(("tp", "pp", "crosses"), [(1, 2, False), (4, 2, False), (8, 2, True)])
def test_tied_embeddings_are_added_by_two_ranks(tp: int, pp: int, crosses: bool) -> None:
    """The first and the last stage: both on a node, or on two, whose adapters the GPUs of a stage share."""
    cluster, model = load_cluster("dgx-a100-80gb:2"), load_model("gpt2-xl")
    software = load_software(Plan().software)
    plan = Plan(tp=tp, pp=pp, global_batch=16).arrays()
    told = tied_seconds(model, cluster, plan, software, np.array([1e8]))
    expected = group_seconds(
        "all_reduce", np.array([1e8 * software.gradient_bytes]), cluster, software, ranks=np.array([2]),
        members=np.array([1 if crosses else 2]), sharing=np.array([tp if crosses else 1]), stride=np.array([tp]),
    )  # fmt: skip
    assert told == pytest.approx(expected)


def test_only_the_third_zero_level_exchanges_layers() -> None:
    cluster, model = load_cluster("dgx-a100-80gb:1"), load_model("gpt2-xl")
    plan = Plan(dp=8, zero=np.array([0, 1, 2, 3]), global_batch=8).arrays()
    told = group_table(model, cluster, plan, load_software(Plan().software))
    assert (told.layer_gather > 0).tolist() == (told.layer_reduce > 0).tolist() == [False, False, False, True]
    assert (told.gather > 0).tolist() == [False, True, True, False]


def test_two_of_five_sends_of_six_stages_of_half_a_node_leave_it() -> None:
    cluster, model = load_cluster("dgx-a100-80gb:3"), load_model("gpt-18b")
    software = load_software(Plan().software)
    plan = Plan(tp=np.full(4, 4), pp=np.array([2, 6, 3, 5]), dp=np.array([1, 1, 2, 1]), micro_batch=4)
    inside, some, outside, half = send_table(model, cluster, plan.arrays(), software).mean_seconds
    assert inside < outside
    assert half == pytest.approx((inside + outside) / 2)  # two of four, of five stages
    assert some == pytest.approx(inside + 0.4 * (outside - inside))
