"""What software entries add to a step: each effect has the sign and the size that its law states."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from podsim.errors import CatalogError
from podsim.hardware.cluster import load_cluster
from podsim.kernels.elementwise import memory_seconds
from podsim.network.nccl import Members, collective_seconds
from podsim.training import layers, software
from podsim.training.batch import step_cost
from podsim.training.frameworks import framework_software
from podsim.training.layers import EP, LAUNCH, Pass, layer_table, straggler_factor
from podsim.training.layout import Sends
from podsim.training.plan import Plan
from podsim.training.shapes import Item, gemm_times
from podsim.training.software import load_software
from podsim.training.step import charge_seconds, exposed_parts, shared_through_seconds, through_seconds
from podsim.workload.catalog import load_model

GPT = load_model("gpt-1.7b")


def seconds(
    plan: dict[str, Any], software: dict[str, Any], *, on: str = "dgx-h100:8", model: str = ""
) -> float:
    """Seconds of a step with some constants of an entry changed."""
    chosen, cluster = load_model(model) if model else GPT, load_cluster(on)
    entry = replace(load_software("nemo-2024", cluster.gpu), **software)
    return float(step_cost(chosen, cluster, Plan(**plan), software=entry).seconds[0])


@pytest.mark.parametrize(
    ("framework", "year", "software"),
    [
        ("NeMo v24.11.1", 2025, "nemo-2024"),
        ("NeMo 24.07", None, "nemo-2024"),
        ("NeMo v25.05.02", 2025, "nemo-2025"),
        ("NeMo-Megatron", 2022, "nemo-2022"),
        ("Megatron-Bridge 26.04.01 NeMo", 2026, "nemo-2025"),
        ("Megatron-Bridge 26.08 NeMo", 2025, "nemo-2026"),
        ("Megatron-Core r0.8.0", 2025, "megatron-core"),
        ("Megatron-LM @6985e589 (NGC pytorch 20.12)", 2021, "megatron-2021"),
        ("Megatron-DeepSpeed (BigScience)", 2022, "megatron-deepspeed"),
        ("metaseq on PyTorch FSDP", 2022, "pytorch-fsdp"),
        ("JAX-Toolbox, PaxML", 2024, "paxml"),
        ("nemo-2024", None, "nemo-2024"),
        ("DeepSpeed", 2021, None),
        ("GPT-NeoX + FlashAttention", 2023, "gpt-neox"),
        ("HuggingFace", 2022, "transformers"),
        ("FlashAttention v1", 2022, "flash-attention-2022"),
        ("FlashAttention-2", 2023, "flash-attention-2023"),
        ("Meta internal (model+sequence parallel)", 2023, "megatron-2022"),
        ("Megatron-LM without FlashAttention", 2023, "megatron-2022"),
        ("an unknown framework", 2024, None),
    ],
)
def test_a_release_decides_before_the_year(framework: str, year: int | None, software: str | None) -> None:
    assert framework_software(framework, year) == software


def test_broadcasts_take_turns() -> None:
    """64 ranks send a 64th of the weights each; a gather at the end of the step moves all of them at once."""
    plan = {"dp": 64, "global_batch": 128, "zero": 1, "overlap_param": False}
    cluster = load_cluster("dgx-h100:8")
    weights = np.array([2.0 * GPT.parameters])
    members = Members(ranks=np.array([64]), ranks_per_node=np.array([8]))
    nccl = load_software("nemo-2024").nccl
    one, all_at_once = (
        float(collective_seconds(name, size, cluster, members, version=nccl)[0])
        for name, size in (("broadcast", weights / 64), ("all_gather", weights))
    )
    added = seconds(plan, {"broadcasts": True}) - seconds(plan, {})
    assert added == pytest.approx(64 * one - all_at_once, rel=0.02)
    assert added > 0
    whole = {**plan, "zero": 0}
    assert seconds(whole, {"broadcasts": True}) == seconds(whole, {})


EXPERTS = {"dp": 8, "ep": 8, "global_batch": 8, "zero": 1}
"""16 of 128 experts on each rank, one micro-batch of 4,096 tokens"""


@pytest.mark.parametrize(
    ("changed", "precision", "kernels"),
    [
        ({"expert_kernels": 1}, "bf16", 2 * (16 - 1) * 3),
        ({"expert_kernels": 1, "block_kernels": 2.5}, "bf16", 2 * (16 - 1) * 3),
        ({"expert_kernels": 1, "block_kernels": 2.5}, "mxfp8", 2 * (16 * 3.5 - 1) * 3),
        ({"router_kernels": 31}, "bf16", 31 * 3),
    ],
)
def test_experts_and_their_router_launch_kernels(
    changed: dict[str, float], precision: str, kernels: float
) -> None:
    """Two products an expert, in one pass forward and as two backward, where nothing but the host takes time."""
    none = {"host_kernel": 1e-2, "expert_kernels": 0, "block_kernels": 0, "router_kernels": 0}
    plan = {**EXPERTS, "precision": precision, "sequence": 4096}
    model = "qwen3-30b-a3b"
    before, after = (seconds(plan, one, on="dgx-b200:1", model=model) for one in (none, {**none, **changed}))
    assert after - before == pytest.approx(48 * kernels * 1e-2, rel=1e-3)


def test_products_of_experts_wait_for_the_counts_of_their_tokens() -> None:
    """GPUs that attend for long hide a host that may launch ahead, as with a capacity, but not experts' launches."""
    cluster, model = load_cluster("dgx-h100:1"), load_model("qwen3-30b-a3b")
    entry = replace(load_software("nemo-2024", cluster.gpu), host_kernel=4e-5)
    launches = [
        layer_table(model, cluster, Plan(**EXPERTS, sequence=32768, capacity_factor=factor).arrays(), entry)[
            Pass.FORWARD, LAUNCH, 1, 0
        ]
        for factor in (0.0, 1.0)
    ]
    assert launches[1] == 0.0
    fast = replace(entry, expert_kernels=10.0)
    waiting = layer_table(model, cluster, Plan(**EXPERTS, sequence=32768).arrays(), fast)
    host = 2 * 16 * 10 * 4e-5
    experts = waiting[Pass.FORWARD, LAUNCH, 1, 0]
    assert 0.0 <= launches[0] < experts < host


def test_a_run_waits_for_its_slowest_node() -> None:
    entry = replace(load_software("nemo-2024"), slow_nodes=0.01, slowness=0.2)
    factors = [straggler_factor(load_cluster(f"dgx-h100:{nodes}"), entry) for nodes in (1, 10, 10_000)]
    assert factors[0] == pytest.approx(1 + 0.2 * 0.01)
    assert factors[1] == pytest.approx(1 + 0.2 * (1 - 0.99**10))
    assert factors[2] == pytest.approx(1.2)


def test_hosts_of_a_node_wait_for_each_other() -> None:
    """Where nothing but the host takes time, each sync costs a launch for every other rank of its node."""
    slow = {"host_kernel": 1e-2}
    plan = {"tp": 8, "dp": 8, "global_batch": 8}
    added = seconds(plan, {**slow, "host_collective": 1e-3}) - seconds(plan, {**slow, "host_collective": 0.0})
    syncs = 4 * GPT.layer_count + 2  # two a layer and pass, the embedding's forward and the head's backward
    assert added == pytest.approx(syncs * 7e-3)


def test_casts_do_not_touch_logits() -> None:
    """A layer-free difference: a wider vocabulary costs the same in fp8 as in 16 bits."""
    plan = {"dp": 8, "global_batch": 8, "micro_batch": 1}

    def of_vocabulary(precision: str) -> float:
        models = (load_model("gpt-1.7b", {"vocab": str(size)}) for size in (51200, 102400))
        cluster = load_cluster("dgx-h100:1")
        entry = replace(load_software("nemo-2024", cluster.gpu), gradient_bytes=0.0, optimizer_traffic=0.0)
        one, two = (
            float(step_cost(m, cluster, Plan(**plan, precision=precision), software=entry).parts[0, 0])
            for m in models
        )
        return two - one

    assert of_vocabulary("fp8") == pytest.approx(of_vocabulary("bf16"), rel=1e-6)


def test_sums_of_gradients_move_bytes_of_each_micro_batch() -> None:
    plan = {"dp": 64, "global_batch": 256}
    once, twice = (
        seconds(plan, {"accumulation_bytes": size}) - seconds(plan, {"accumulation_bytes": 0.0})
        for size in (10.0, 20.0)
    )
    assert 0 < once < twice
    least = 4 * 10.0 * 1.5e9 / load_cluster("dgx-h100").gpu.memory_bandwidth
    assert once > 0.8 * least


def test_hidden_exchanges_of_experts_cost_nothing() -> None:
    plan = {"dp": 8, "ep": 8, "global_batch": 8}
    shares = np.array(
        [
            seconds(plan, {"ep_overlap": share}, on="dgx-h100:1", model="mixtral-8x7b")
            for share in (0.0, 0.5, 1.0)
        ]
    )
    assert shares[0] - shares[1] == pytest.approx(shares[1] - shares[2])
    assert shares[0] > shares[2]


def test_exchanges_of_experts_hide_behind_no_more_than_the_kernels_of_both_passes() -> None:
    model, cluster = load_model("qwen3-30b-a3b"), load_cluster("dgx-h100:8")
    plan = Plan(dp=64, ep=64, global_batch=64).arrays()
    entry = load_software("nemo-2024", cluster.gpu)
    plain, hiding = (
        layer_table(model, cluster, plan, replace(entry, ep_overlap=share))[:, :, 1, 0] for share in (0, 1)
    )
    kernels = plain[Pass.FORWARD, :LAUNCH].sum() + plain[Pass.BACKWARD, :LAUNCH].sum()
    exchanges = plain[Pass.FORWARD, EP] + plain[Pass.BACKWARD, EP]
    assert exchanges > kernels > 0  # eight copies of each token cross the network
    left = hiding[Pass.FORWARD, EP] + hiding[Pass.BACKWARD, EP]
    assert left == pytest.approx(exchanges - kernels)


def test_casts_move_inputs_weights_and_output_gradients() -> None:
    """2,048 tokens of hidden 2,304 on two ranks that gather in fp8: each casts its half of all operands."""
    cluster = load_cluster("dgx-h100:1")
    plan = Plan(tp=2, dp=4, global_batch=4, sequence_parallel=True, precision="fp8").arrays()
    block = GPT.layers[0]
    items = [Item(op, block) for op in block.ops if op.kind == "gemm"]
    m, entry = 2048, replace(load_software("nemo-2024"), fp8_gather=True)
    none, some = (
        gemm_times(cluster.gpu, items, plan, m, replace(entry, cast_bytes=size)) for size in (0.0, 8.0)
    )
    for place, op in enumerate(item.op for item in items):
        # inputs and their weights forward; backward the gradient of the outputs
        moved = 8 * np.array([m * op.k / 2 + op.n * op.k / 2, m * op.n / 2])
        first, second = memory_seconds(cluster.gpu, moved) / entry.memory_speed
        assert some.forward[place, 0] - none.forward[place, 0] == pytest.approx(first)
        assert some.backward[place, 0] - none.backward[place, 0] == pytest.approx(second)


def test_a_frozen_weight_has_one_product_backward_and_an_unreached_op_none() -> None:
    cluster, entry, plan = load_cluster("dgx-h100:1"), load_software("nemo-2024"), Plan(dp=8).arrays()
    block = GPT.layers[0]
    op = next(op for op in block.ops if op.kind == "gemm" and op.n != op.k)
    items = [Item(replace(op, gradient=gradient), block) for gradient in ("both", "input", "none")]
    times = gemm_times(cluster.gpu, items, plan, 2048, entry)
    both, frozen, unreached = times.backward[:, 0]
    assert times.weight[:, 0].tolist() == [times.weight[0, 0], 0, 0]
    assert frozen == pytest.approx(both - times.weight[0, 0])
    assert 0.8 * times.forward[0, 0] < frozen < 1.25 * times.forward[0, 0]  # as many operations as forward
    assert unreached == 0.0
    assert (times.kernels_back / times.kernels)[:, 0].tolist() == [2, 1, 0]


def test_gathering_keys_hides_behind_attention_backward_at_most_twice_as_long_as_forward(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two ranks: half of the attention is at work while the other rank's keys arrive, in 1.5 s, and twice backward."""
    monkeypatch.setattr(layers, "cp_gather_seconds", lambda *_: np.array([1.5]))
    asked = (GPT, GPT.layers[0], load_cluster("dgx-h100:1"), Plan(cp=2), load_software("nemo-2024"))
    for back, left in ((1.0, 3 - 0.5), (2.0, 3 - 1.0), (3.0, 3 - 1.0)):
        forward, backward = layers._cp_seconds(*asked, np.array([[1.0], [back]]))
        assert (forward.item(), backward.item()) == pytest.approx((1.5 - 0.5, left))


def test_a_pipelines_exchange_takes_its_share_and_a_start_of_the_compute_stream() -> None:
    near, mean = np.array([9.0]), np.array([2.0])
    sends = Sends(near_seconds=near, further_seconds=0 * near, stages_per_node=near / 9, mean_seconds=mean)
    entry = replace(load_software("nemo-2024"), pipeline_exposed=0.25, host_send=0.5)
    assert charge_seconds(sends, entry).tolist() == [1.0]


@pytest.mark.parametrize("micro_batches", [8, 32])
def test_a_rank_sends_and_receives_once_in_each_pass(micro_batches: int) -> None:
    """Two stages: an activation and a gradient for each micro-batch, at 1 s each."""
    plan = {"pp": 2, "dp": 4, "global_batch": 4 * micro_batches}
    slow, slower = (seconds(plan, {"host_send": wait}, on="dgx-h100:1") for wait in (1.0, 2.0))
    assert slower - slow == pytest.approx(2 * micro_batches)


def test_cores_that_waiting_ranks_leave_to_others() -> None:
    """Four stages on two cores: 10 s of mean work or half of 16 s, sends of 1 s, and 8 x 0.5 x 1 / 3 s of idle time."""
    two = [np.array([value]) for value in (25.0, 16.0, 10.0, 1.0)]
    assert shared_through_seconds(0.5, np.array([4]), *two) == pytest.approx([10 + 1 + 4 / 3])
    assert shared_through_seconds(1.0, np.array([4]), *two) == pytest.approx(
        [25.0]
    )  # the pipeline's own bubble
    assert shared_through_seconds(0.25, np.array([4]), *two) == pytest.approx([11.0])  # no core is ever idle
    assert shared_through_seconds(0.5, np.array([4]), two[0], 2 * two[1], *two[2:]) == pytest.approx(
        [16.0 + 1]
    )
    assert through_seconds(*two[:2], two[3]).tolist() == [25.0]
    assert through_seconds(two[1], *two[1::2]).tolist() == [17.0]


def test_parts_of_a_step_are_what_it_loses_without_them() -> None:
    steps = [np.array([value]) for value in (20.0, 17.0, 15.0)]
    passes = np.array([[4.0], [5.0]])
    parts = exposed_parts(steps, passes, np.array([2.0]), np.array([1.0]))
    assert parts[:, 0].tolist() == [
        4.0,
        5.0,
        2.0,
        3.0,
        3.0,
        2.0,
        1.0,
    ]  # pp, dp, then 15 - 9 - 2 - 1 of bubble
    assert exposed_parts([steps[2], *steps[1:]], passes, np.array([6.0]), np.zeros(1))[:, 0].tolist() == [
        4.0, 5.0, 0.0, 0.0, 0.0, 6.0, 0.0
    ]  # fmt: skip


def test_a_measured_machine_has_its_own_constants(tmp_path: Path) -> None:
    file, gpu = tmp_path / "mine.toml", load_cluster("dgx-h100").gpu
    own = replace(gpu, kernels=str(file))
    unknown = "[software.nemo-2024]\nspeed = 1"
    for text, problem in (("[", "cannot be read"), (unknown, "unknown constant"), (None, "cannot be read")):
        file.unlink(missing_ok=True)
        if text is not None:
            file.write_text(text)
        software._measured_constants.cache_clear()
        with pytest.raises(CatalogError, match=problem):
            load_software("nemo-2024", own)
    file.write_text("[software.nemo-2024]\ngemm_speed = 0.25\n")
    software._measured_constants.cache_clear()
    assert load_software("nemo-2024", own).gemm_speed == 0.25
    assert load_software("nemo-2025", own) == load_software("nemo-2025", gpu)
