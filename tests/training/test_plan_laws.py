"""Laws that every legal plan keeps, and plans that once broke one; `scripts/soak.py plans` tries 100,000."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from plan_laws import LAWS
from random_plans import FIXED, Scene, legal
from soak_plans import tries

from podsim.hardware.cluster import load_cluster
from podsim.questions.train.predict import predict
from podsim.training.layers import layer_table
from podsim.training.plan import Plan
from podsim.training.software import load_software
from podsim.workload.catalog import load_model, load_specification
from podsim.workload.specification import Transformer


def test_random_legal_plans_keep_the_laws() -> None:
    assert [failure for failure in tries(7, 300) if failure] == []


_WIDE = {"name": "wide", "layers": 40, "hidden": 11008, "heads": 12, "kv_heads": 2, "head_dim": 128, "ffn": 29312,
         "vocab": 256000, "sequence": 2048, "experts": 8, "top_k": 1, "expert_ffn": 2176}  # fmt: skip
_SMALL = {"name": "small", "layers": 4, "hidden": 1024, "heads": 16, "kv_heads": 2, "ffn": 2688, "vocab": 32000,
          "sequence": 2048, "tied": False, "dropout": True}  # fmt: skip
_LLAMA = {"name": "llama", "layers": 80, "hidden": 8192, "heads": 64, "kv_heads": 8, "ffn": 28672, "vocab": 128256,
          "sequence": 512, "gated": True, "tied": False, "norm": "rmsnorm", "position": "rope"}  # fmt: skip
BROKE: dict[str, tuple[str, str | dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    # why: law, model, where, plan
    "a fused loss had logits of negative bytes": (
        "finite", "gpt-76b", {"on": "azure-ndv4-40gb", "gpus": 256},
        {"tp": 2, "dp": 3, "cp": 8, "sequence_parallel": True, "recompute": 1, "flash": False, "global_batch": 300,
         "precision": "tf32", "software": "maxtext"},
    ),
    "the rank with the embedding ended last, and sends took negative time": (
        "finite", _WIDE, {"on": "b200", "gpus": 32},
        {"pp": 4, "dp": 8, "micro_batch": 3, "recompute": 1, "schedule": "zb-h2", "overlap_grad": False,
         "global_batch": 288, "software": "torchtitan-2024-compile", "capacity_factor": 1.25, "imbalance": 1.0},
    ),
    "one kind of layer ran backward, and another was kept": (
        "more MLP width holds more", "deepseek-v3", {"on": "l40-server", "gpus": 128},
        {"tp": 8, "dp": 16, "ep": 8, "micro_batch": 8, "sequence_parallel": True, "zero": 3, "recompute": 1,
         "flash": False, "overlap_tp": True, "global_batch": 256, "precision": "fp16", "software": "torchtitan-2024"},
    ),
    "the host held up simultaneous passes, longer where less was exchanged": (
        "more bandwidth inside", "gpt2", {"on": "aws-p4de", "gpus": 1024, "overrides": FIXED},
        {"tp": 4, "pp": 6, "dp": 4, "micro_batch": 3, "zero": 1, "shard": 4, "recompute": 2, "recompute_layers": 1,
         "schedule": "dualpipe", "overlap_grad": False, "overlap_param": False, "global_batch": 384,
         "precision": "fp32", "software": "megatron-2022"},
    ),
    "layers that no gradient reaches exchanged keys in a backward pass": (
        "more memory bandwidth", _SMALL, {"on": "aws-p4d", "gpus": 128, "train": "dpo+lora:4"},
        {"tp": 8, "dp": 4, "cp": 4, "sequence_parallel": True, "zero": 2, "shard": 4, "flash": False,
         "overlap_tp": True, "global_batch": 12, "precision": "tf32", "software": "weight-streaming"},
    ),
    "launches of a backward pass were all in the half of the input's gradient": (
        "more FLOPS", _LLAMA, {"on": "superpod-gb200", "gpus": 9216, "overrides": FIXED},
        {"tp": 8, "pp": 4, "virtual_stages": 2, "dp": 288, "zero": 1, "shard": 72, "sequence_parallel": True,
         "overlap_tp": True, "schedule": "zb-v", "global_batch": 288, "precision": "tf32",
         "optimizer_precision": "fp8", "software": "megatron-core"},
    ),
    "a chunk's gradients waited for a reduction among one rank": (
        "ZeRO holds less", "bert-large", {"on": "superpod-a100", "gpus": 4},
        {"tp": np.array([2, 1]), "pp": 2, "virtual_stages": np.array([3, 2]), "dp": np.array([1, 2]), "zero": 1,
         "shard": np.array([0, 1]), "schedule": "interleaved", "micro_batch": 1, "global_batch": 24,
         "precision": "bf16", "optimizer_precision": "fp8", "software": "meta-2024"},
    ),
    "strides on a torus were too large for the number of a group": (
        "finite", "gpt2", {"on": "tpu-v5p", "gpus": 143360},
        {"tp": np.array([1, 2, 2, 4]), "pp": np.array([1, 2, 4, 3]), "dp": np.array([71680, 35840, 17920, 1]),
         "global_batch": 71680, "zero": np.array([0, 1, 1, 0]), "shard": np.array([0, 8, 64, 0])},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKE)
def test_plans_that_once_broke_a_law(case: str) -> None:
    name, model, where, fields = BROKE[case]
    spec = load_specification(model) if isinstance(model, str) else Transformer(**model)
    scene = Scene(
        name="2x", spec=spec, train=where.get("train", "full"), on=where["on"], gpus=where["gpus"],
        overrides=where.get("overrides", {}), plans=Plan(sequence=spec.sequence, **fields).arrays().wide(),
    )  # fmt: skip
    assert legal(scene.model, scene.cluster, scene.plans).all()
    (law,) = [law for law in LAWS if law.name == name]
    assert not law.broken(scene).any()


@pytest.mark.parametrize(
    ("on", "more"),
    [
        ("t4", {}),  # flash2 needs a newer GPU, and flash1 runs
        ("dgx-a100-80gb", {"gpus": 8, "tp": 3, "dp": 1}),  # GPUs that a plan leaves idle hold no checkpoint
        ("dgx-station-a100-80gb", {"gpus": 4, "tp": 3, "dp": 1}),
        ("tpu-v5e", {"gpus": 8, "software": "llm-foundry-2023"}),
    ],
    ids=("turing", "idle GPUs", "no network", "other software on a TPU"),
)
def test_plans_that_once_failed(on: str, more: dict[str, object]) -> None:
    prediction = predict("gpt2", on=on, **more)
    assert np.isfinite(prediction.step_time)
    assert len({law.name for law in LAWS}) == len(LAWS)


def test_layers_of_one_plan_are_those_of_an_array_of_one() -> None:
    cluster, plan = load_cluster("dgx-h100:1"), Plan(dp=8, software="nemo-2026")
    model = load_model("llama-3.1-8b")
    software = load_software(plan.software, cluster.gpu)
    one, many = (layer_table(model, cluster, made.wide(), software) for made in (plan, plan.arrays()))
    assert one.shape == many.shape
    assert np.array_equal(one, many)
