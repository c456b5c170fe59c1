from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.hardware.cluster import Cluster, load_cluster
from podsim.kernels.elementwise import memory_seconds
from podsim.training.batch import cost_slice, layout_of, prepare, step_cost
from podsim.training.plan import Plan
from podsim.training.plan_values import SCHEDULE_CODES
from podsim.training.predict import RESOURCES, predict_plan, speed_up
from podsim.training.rules import facts, violations
from podsim.training.shapes import Item, memory_times
from podsim.training.software import load_software
from podsim.training.step import SPLIT
from podsim.workload.catalog import load_model
from podsim.workload.model import Model, TensorOp

GPT3 = Plan(
    tp=8, pp=8, virtual_stages=3, dp=1, micro_batch=1, global_batch=64, sequence_parallel=True,
    recompute="selective", schedule="interleaved", flash=False, precision="fp16", software="megatron-2022",  # type: ignore[arg-type]
)  # fmt: skip


def test_parts_add_up(gpt3: Model, selene: Cluster) -> None:
    prediction = predict_plan(gpt3, selene, GPT3)
    assert sum(prediction.parts.values()) == pytest.approx(prediction.step_time, rel=1e-12)
    assert set(prediction.parts) == set(SPLIT)
    assert sum(prediction.memory_kinds.values()) == pytest.approx(prediction.memory, rel=1e-12)


def test_arrays_equal_scalars(gpt3: Model, selene: Cluster) -> None:
    """A row of an array plan costs what the scalar plan costs."""
    many = Plan(
        tp=np.array([8, 4, 8, 2]), pp=np.array([8, 16, 1, 8]), dp=np.array([8, 8, 64, 32]),
        zero=np.array([0, 1, 3, 1]), micro_batch=np.array([1, 2, 1, 1]), global_batch=512,
        recompute=np.array([2, 1, 0, 2]), recompute_layers=np.array([0, 0, 0, 3]),
        sequence_parallel=np.array([True, False, True, False]), flash=np.array([True, False, True, True]),
        virtual_stages=np.array([1, 3, 1, 2]), schedule=np.array([1, 2, 1, 2]),
        overlap_grad=np.array([True, False, True, True]), overlap_tp=np.array([False, True, False, False]),
    )  # fmt: skip
    together = step_cost(gpt3, selene, many)
    for place in range(4):
        alone = step_cost(gpt3, selene, many.take(place))
        assert together.seconds[place] == pytest.approx(alone.seconds[0], rel=1e-12)
        assert together.memory[place] == pytest.approx(alone.memory[0], rel=1e-12)


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("schedule", ["1f1b", "zb-v", "dualpipe"])
def test_a_plan_costs_the_same_beside_longer_pipelines(
    gpt22: Model, node: Cluster, schedule: str, share: float
) -> None:
    """A pipeline that lacks classes of stages, which others in the array have; ranks with a part of a core, too."""
    code = SCHEDULE_CODES[schedule]
    many = Plan(
        pp=np.array([1, 2, 4]), dp=np.array([8, 4, 2]), schedule=np.array([SCHEDULE_CODES["1f1b"], code, code]),
        virtual_stages=np.array([1, *[2 if schedule == "zb-v" else 1] * 2]), global_batch=64, recompute=2,
        recompute_layers=2, zero=np.array([1, 1, 0]),
    )  # fmt: skip
    tables = replace(prepare(gpt22, node, many.arrays()), core_share=share)
    together = cost_slice(tables, slice(0, 3))
    for place in range(3):
        alone = replace(prepare(gpt22, node, many.take(place)), core_share=share)
        cost = cost_slice(alone, slice(0, 1))
        assert together.seconds[place] == pytest.approx(cost.seconds[0], rel=1e-12)
        assert together.parts[:, place] == pytest.approx(cost.parts[:, 0], rel=1e-9, abs=1e-12)


def test_a_memory_bound_op_of_experts_by_hand(node: Cluster) -> None:
    """3 x 1,024 tokens on two ranks, each to two experts, of which an op sees half: 1,536 elements of 2 B."""
    block = replace(load_model("mixtral-8x7b").kinds[1], top_k=2)
    sizes = {"read": 2.0, "write": 1.0, "read_back": 3.0, "write_back": 2.0, "share": 0.5, "expert": True}
    op = TensorOp(name="gate", kind="elementwise", split="column", fused=False, **sizes)
    plan, software = Plan(tp=2, micro_batch=3).arrays(), load_software("megatron-core")
    told = memory_times(node.gpu, [Item(op=op, block=block)], plan, 1024, software)
    for seconds, each in ((told.forward, 3), (told.backward, 5)):
        expected = memory_seconds(node.gpu, 1536 * each * 2) / software.memory_speed
        assert seconds.ravel() == pytest.approx(expected)


def test_syncs_of_a_pass_hide_or_do_not(gpt22: Model, node: Cluster) -> None:
    """Tensor parallelism: a layer has two syncs each way, the embedding one forward, the head one backward."""
    plan = Plan(tp=2, pp=4, schedule=SCHEDULE_CODES["dualpipe"], global_batch=16)
    exchanges = layout_of(prepare(gpt22, node, plan), slice(0, 1)).passes.exchanges
    assert exchanges is not None
    forward, backward = (exchanges.seconds + exchanges.hidden)[:, :, 0]
    sync = forward[0]
    assert forward == pytest.approx(sync * np.array([1, 2, 0]))
    assert backward == pytest.approx(sync * np.array([0, 2, 1]))
    assert (exchanges.hidden[1] > 0).any()


def test_each_half_of_a_backward_pass_waits_for_its_own_launches(gpt22: Model, node: Cluster) -> None:
    """A host that takes 1 s a kernel: the weight gradients of a layer's four products take 4 s, whole or not."""
    software = replace(load_software("megatron-core", node.gpu), host_kernel=1.0)
    halves, whole = (
        layout_of(prepare(gpt22, node, Plan(pp=2, schedule=SCHEDULE_CODES[name]), software=software), slice(0, 1))
        for name in ("zb-h1", "1f1b")
    )  # fmt: skip
    assert halves.passes.weight[1] == pytest.approx(4.0)
    assert halves.passes.backward == pytest.approx(whole.passes.backward)


def test_uniform_pipeline_has_the_textbook_bubble(selene: Cluster) -> None:
    """With equal stages the bubble is (p - 1) / m of the busy time, / v interleaved: it comes out of the stages' sum."""
    from podsim.workload.specification import Transformer
    from podsim.workload.transformer import build

    model = build(Transformer(name="tall", layers=64, hidden=12288, heads=96, vocab=8, sequence=2048))
    for schedule, virtual in (("1f1b", 1), ("interleaved", 4)):
        plan = Plan(
            tp=8,
            pp=8,
            virtual_stages=virtual,
            global_batch=64,
            schedule=schedule,
            software="megatron-2021",
            precision="fp16",
        )  # type: ignore[arg-type]
        parts = predict_plan(model, selene, plan).parts
        busy = sum(parts[name] for name in ("compute", "memory", "launch", "tp"))
        busy += parts["host"] - 0.0
        assert parts["bubble"] / busy == pytest.approx(7 / 64 / virtual, rel=0.02)


@pytest.mark.parametrize("resource", RESOURCES)
def test_a_faster_part_never_slows_a_step(gpt3: Model, selene: Cluster, resource: str) -> None:
    base = predict_plan(gpt3, selene, GPT3).step_time
    assert predict_plan(gpt3, speed_up(selene, resource, 2.0), GPT3).step_time <= base * (1 + 1e-12)


degrees = st.sampled_from([1, 2, 3, 4, 6, 8, 12, 16])


@settings(max_examples=60, deadline=None)
@given(tp=degrees, pp=degrees, dp=degrees, micro=st.sampled_from([1, 2, 4]), zero=st.integers(0, 3),
       recompute=st.integers(0, 2), sp=st.booleans(), flash=st.booleans())  # fmt: skip
def test_step_is_never_faster_than_light(
    gpt3: Model,
    selene: Cluster,
    tp: int,
    pp: int,
    dp: int,
    micro: int,
    zero: int,
    recompute: int,
    sp: bool,
    flash: bool,
) -> None:
    """No legal plan beats the peak of the GPUs it uses, and every legal plan has a finite time and memory."""
    plan = Plan(
        tp=tp, pp=pp, dp=dp, micro_batch=micro, global_batch=dp * micro * 8, zero=zero, recompute=recompute,
        sequence_parallel=sp, flash=flash,
    )  # fmt: skip
    if any(bool(wrong) for wrong in violations(plan, facts(gpt3, selene, gpt3.sequence)).values()):
        assert plan.problems(gpt3, selene)
        return
    prediction = predict_plan(gpt3, selene, plan)
    assert 0 < prediction.hfu < 1
    assert np.isfinite(prediction.memory)
    assert prediction.memory > 2 * gpt3.parameters / (tp * pp * dp) * 0.99


@pytest.mark.parametrize("ep", [2, 4, 8])
def test_a_ragged_number_of_tokens_slows_no_product(ep: int) -> None:
    """Experts on fewer ranks get more tokens each, and the busiest rank its share more: nothing else is dearer.

    One kernel has the products of all experts of a rank. Where each has its own, few tokens an expert are dearer.
    """
    from podsim.hardware.cluster import load_cluster
    from podsim.training.layers import op_times
    from podsim.training.software import load_software
    from podsim.workload.catalog import load_model

    cluster, model, software = (
        load_cluster("dgx-a100-80gb"),
        load_model("mixtral-8x7b"),
        replace(load_software(Plan().software), expert_kernels=0.0),
    )
    plan = Plan(dp=8, ep=np.array([1, ep]), sequence=4096, global_batch=8).arrays()
    items, _, times = op_times(model, cluster, plan, software)[0]
    experts = [place for place, item in enumerate(items) if item.op.expert]
    for seconds in (times.forward, times.backward):
        for one, many in seconds[experts]:
            assert many / one == pytest.approx(software.expert_imbalance, rel=0.05)


def test_what_would_help_is_there() -> None:
    from podsim.hardware.cluster import load_cluster
    from podsim.workload.catalog import load_model

    model, plan = (
        load_model("llama-3.1-8b"),
        Plan(dp=8, zero=3, global_batch=8, sequence=512, recompute="full"),
    )
    told = {
        name: predict_plan(model, load_cluster(name).subset(8), plan).bottleneck
        for name in ("dgx-a100-80gb", "a100-pcie-server")
    }
    assert all("network" not in text and "exposed data-parallel" in text for text in told.values())
    assert "faster NVLink" in told["dgx-a100-80gb"]
    assert "faster links between GPUs" in told["a100-pcie-server"]
    across = predict_plan(model, load_cluster("dgx-a100-80gb:2"), replace(plan, dp=16, global_batch=16))
    assert "a faster network" in across.bottleneck


def test_gpipe_on_a_slow_link_sends_all_states_and_then_all_gradients() -> None:
    """Eight more micro-batches: each of 8 ranks sends its eighth at 1 MB/s, forward and, when all are there, backward."""
    cluster, model = load_cluster("dgx-a100-80gb:2"), load_model("llama-2-7b")
    slow = replace(cluster, network=replace(cluster.network, bandwidth=1e6))
    plan = Plan(tp=8, pp=2, sequence_parallel=True, schedule="gpipe")
    few, many = (predict_plan(model, slow, replace(plan, global_batch=count)).step_time for count in (8, 16))
    assert many - few == pytest.approx(2 * 8 * 4096 * 4096 * 2 / 8 / 1e6, rel=0.05)
