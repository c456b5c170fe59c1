"""MaxText: a plan as a YAML of its keys, on GPUs or on slices of TPUs, and read back.

Axes that begin with ici lie inside a slice of a torus, those that begin with dcn across slices.

Weights are divided over the axes fsdp, context and expert. Source: maxtext 0.2.5, configs/base.yml, configs/types.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from podsim.hardware.parts import PRECISIONS
from podsim.launching.job import Job
from podsim.launching.key_table import Key, KeyedTool
from podsim.launching.megatron_model import has_scans, model_notes
from podsim.launching.run_values import run_values
from podsim.launching.tool_limits import Limits, is_unsharded, is_waiting, trains_no_decoder
from podsim.training.plan import Plan
from podsim.workload.model import Model

_SHAPES = {
    "base_emb_dim": "hidden", "base_num_decoder_layers": "layers", "base_num_query_heads": "heads",
    "base_num_kv_heads": "kv_heads", "head_dim": "head_dim", "vocab_size": "vocab",
}  # fmt: skip
_EXPERTS = {
    "num_experts": "experts", "num_experts_per_tok": "top_k", "base_moe_mlp_dim": "expert_ffn",
    "shared_experts": "shared_experts", "routed_bias": "router_bias",
}  # fmt: skip
_LATENT = {
    "q_lora_rank": "q_rank", "kv_lora_rank": "kv_rank", "qk_nope_head_dim": "nope_dim", "qk_rope_head_dim": "rope_dim",
    "v_head_dim": "value_dim",
}  # fmt: skip


def _always(job: Job) -> Mapping[str, object]:
    """Keys that every file has: the shape of the model, synthetic data, steps."""
    a: Mapping[str, Any] = job.model.attributes
    shapes = dict(_SHAPES) | (_EXPERTS if a["experts"] else {}) | (_LATENT if a["kv_rank"] else {})
    first = len(a["dense_layers"])
    stated = {
        "rope_max_timescale": a["rotary_base"], "routed_score_func": a["router_score"],
        "n_routing_groups": a["router_groups"], "topk_routing_group": a["router_top_groups"],
        "first_num_dense_layers": first, "base_mlp_dim": a["expert_ffn"] if a["experts"] and not first else a["ffn"],
    }  # fmt: skip
    block = "deepseek" if a["kv_rank"] else "mixtral" if a["experts"] else "llama2" if a["gated"] else "gpt3"
    return {
        "base_config": "base.yml", "run_name": job.name, "hardware": "gpu_multiprocess", "dataset_type": "synthetic",
        "steps": 100, "model_name": "default", "decoder_block": block, **{key: a[name] for key, name in shapes.items()},
        **{key: value for key, value in stated.items() if value},
        **({"attention_type": "mla"} if a["kv_rank"] else {}), "logits_via_embedding": bool(a["tied"]),
        "scan_layers": True, "mlp_activations": ["silu", "linear"] if a["gated"] else ["gelu"],
    }  # fmt: skip


def _of_machine(job: Job) -> Mapping[str, object]:
    """The keys that slices of TPUs need."""
    links, chip = job.cluster.system.torus, job.cluster.gpu
    if links is None or chip.architecture != "tpu":
        return {}
    count = job.cluster.gpus_per_node * links.cores
    cast = {"quantization": "fp8"} if PRECISIONS[job.plan.precision].is_cast else {}
    return {
        "hardware": "tpu", "attention": "flash" if job.plan.flash else "dot_product",
        "compile_topology": f"{chip.name.removeprefix('tpu-')}-{count}",
        "compile_topology_num_slices": job.cluster.nodes, **cast,
    }  # fmt: skip


def _dense(model: Model) -> Sequence[int]:
    """The layers of a mixture of experts that keep a plain MLP."""
    layers: Any = model.attributes.get("dense_layers", ())
    return tuple(layers)


def _is_uneven(plan: Plan, model: Model) -> bool:
    """Whether the layers, the micro-batches of a pipeline or the sequences of a GPU do not divide evenly."""
    per_gpu = run_values(plan, model.layer_count)["per_gpu"]
    chunks = int(plan.pp) * int(plan.virtual_stages)
    sequences = int(plan.dp) * int(plan.micro_batch) * (int(plan.micro_batches) if int(plan.pp) > 1 else 1)
    if int(plan.pp) > 1 and int(plan.micro_batches) % int(plan.pp):
        return True
    return model.layer_count % chunks != 0 or int(int(plan.gpus) * per_gpu) != sequences


def _is_other_order(plan: Plan, model: Model) -> bool:
    """Whether the schedule is not the one of its pipeline: all forward passes, then all backward passes."""
    own = "breadth-first" if int(plan.virtual_stages) > 1 else "gpipe" if int(plan.pp) > 1 else "1f1b"
    return plan.describe()["schedule"] != own


def _has_whole_weights(plan: Plan, model: Model) -> bool:
    """Whether context or expert ranks, which always divide weights, do not, or not evenly."""
    others = int(plan.cp) * int(plan.ep) > 1
    inside = (int(plan.shard) or int(plan.dp) * int(plan.cp)) // int(plan.cp)
    ragged = int(plan.shard) % int(plan.cp) or inside % int(plan.ep) or int(plan.dp) % max(inside, 1)
    return others and (int(plan.zero) < 3 or ragged != 0)


LIMITS = Limits(
    title="MaxText",
    software=("megatron-core", "*"),
    can={
        "expert_tp": (0,),
        "zero": (0, 1, 3), "recompute_layers": (0,), "optimizer_precision": ("fp32",), "overlap_tp": (False,),
        "precision": ("bf16", "fp8", "mxfp8", "nvfp4", "fp32"), "schedule": ("1f1b", "gpipe", "breadth-first"),
    },
    rules=(
        (is_waiting, "overlap_grad or overlap_param off: XLA overlaps both"),
        (_is_uneven, "layers divide over its pipeline chunks, micro-batches over stages, and sequences over GPUs"),
        (_is_other_order, "its pipeline runs all forward passes first: schedule gpipe, or breadth-first with chunks"),
        (_has_whole_weights,
         "its context and expert ranks divide the weights: cp or ep needs zero=3 over multiples of them"),
        (is_unsharded, "zero over one rank: it shards over two or more; zero may be 0"),
        (lambda plan, model: int(plan.zero) == 1 and int(plan.shard) > 0,
         "zero=1 over some of the ranks: shard may be 0"),
        (lambda plan, model: list(_dense(model)) != list(range(len(_dense(model)))),
         "its layers without experts are the first ones"),
        (lambda plan, model: has_scans(model), "its keys here are those of layers of attention"),
        (trains_no_decoder, "it trains decoders"),
    ),
)  # fmt: skip
TOOL = KeyedTool(
    limits=LIMITS,
    keys=(
        Key(path="per_device_batch_size", value="per_gpu", plain=12.0),
        Key(path="gradient_accumulation_steps", value="accumulated", plain=1),
        Key(path="max_target_length", value="sequence", plain=2048),
        Key(path="ici_data_parallelism", value="ici_data", plain=1),
        Key(path="ici_fsdp_parallelism", value="ici_shard"),
        Key(path="dcn_data_parallelism", value="slice_data"),
        Key(path="dcn_fsdp_parallelism", value="slice_shard", plain=1),
        Key(path="ici_tensor_parallelism", value="tensor", plain=1),
        Key(path="ici_tensor_sequence_parallelism", value="tensor_sequence", plain=1),
        Key(path="ici_context_parallelism", value="cp", plain=1),
        Key(path="ici_expert_parallelism", value="ep", plain=1),
        Key(path="ici_pipeline_parallelism", value="pp", plain=1),
        Key(path="num_pipeline_microbatches", value="piped", plain=-1),
        Key(path="num_pipeline_repeats", value="virtual_stages", when=("is_piped", (True,)), plain=1),
        Key(path="num_layers_per_pipeline_stage", value="chunk_layers", when=("is_piped", (True,))),
        Key(path="shard_optimizer_over_data", value="zero_one", words=((True, True), (False, False)), plain=False),
        Key(path="remat_policy", value="recompute", plain="full",
            words=(("none", "minimal_with_context"), ("selective", "minimal"), ("full", "full"))),
        Key(path="attention", value="flash", plain=True,
            words=((True, "cudnn_flash_te"), (False, "dot_product"), (True, "autoselected"), (True, "flash"))),
        Key(path="dtype", value="precision", plain="bf16",
            words=(("bf16", "bfloat16"), ("fp8", "bfloat16"), ("mxfp8", "bfloat16"), ("nvfp4", "bfloat16"),
                   ("fp32", "float32"))),
        Key(path="quantization", value="precision", when=("precision", ("fp8", "mxfp8", "nvfp4")),
            words=(("fp8", "te_fp8_currentscaling"), ("mxfp8", "te_mxfp8"), ("nvfp4", "te_nvfp4"), ("fp8", "fp8"),
                   ("fp8", "te_fp8_delayedscaling"), ("fp8", "fp8_gpu"), ("fp8", "fp8_full"))),
    ),
    always=_always,
    model="model_name",
    machine=_of_machine,
    silent=("remat_policy minimal_with_context is no recomputation, and minimal that of attention",),
)  # fmt: skip


def notes(job: Job) -> list[str]:
    """What a user has to look over."""
    return [
        "start it on every node with python3 -m maxtext.trainers.pre_train.train FILE",
        "trains on synthetic data for 100 steps: replace dataset_type and steps by yours",
        *model_notes(job.model, "MaxText's keys"),
    ]
