"""NVIDIA NeMo's Megatron-Bridge: a plan as a recipe, a Python function that gives a ConfigContainer, and read back.

Its fields are Megatron-LM's options under other names, and one table joins both. Source: megatron-bridge 0.3.1,
training/config.py, models/gpt_provider.py, training/mixed_precision.py; megatron-core 0.16.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from podsim.errors import PodsimError
from podsim.launching import megatron
from podsim.launching.flags import Flags, flags_of
from podsim.launching.job import GIVE_GPUS, Context, Job, Reading
from podsim.launching.key_table import flat_keys
from podsim.launching.megatron_model import model_notes, read_model
from podsim.launching.python_recipe import Expression, call_text, read_paths
from podsim.safe_yaml import YamlError, read_documents

LIMITS = replace(megatron.LIMITS, title="Megatron-Bridge")
_CLASSES = {
    "model": "GPTModelProvider", "train": "TrainingConfig", "optimizer": "OptimizerConfig",
    "scheduler": "SchedulerConfig", "ddp": "DistributedDataParallelConfig", "dist": "DistributedInitConfig",
    "dataset": "MockGPTDatasetConfig",
    "logger": "LoggerConfig", "tokenizer": "TokenizerConfig", "checkpoint": "CheckpointConfig",
    "comm_overlap": "CommOverlapConfig",
}  # fmt: skip
_LATENT = "MLAModelProvider"
_NUMBERS = {
    "model": (
        "tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size",
        "expert_model_parallel_size", "expert_tensor_parallel_size", "seq_length", "recompute_num_layers",
        "num_layers", "hidden_size",
        "ffn_hidden_size", "num_attention_heads", "kv_channels", "vocab_size", "rotary_base", "q_lora_rank",
        "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim", "rotary_scaling_factor",
        "attention_dropout", "hidden_dropout", "moe_router_topk", "moe_ffn_hidden_size",
        "moe_shared_expert_intermediate_size", "moe_router_num_groups", "mtp_num_layers",
    ),
    "train": ("micro_batch_size", "global_batch_size", "train_iters"),
    "optimizer": ("lr",),
    "ddp": ("num_distributed_optimizer_instances",),
    "logger": ("log_interval",),
}  # fmt: skip
_SWITCHES = {
    "model": ("sequence_parallel", "add_qkv_bias", "qk_layernorm", "moe_grouped_gemm", "moe_router_enable_expert_bias",
              "moe_shared_expert_gate"),
    "ddp": ("overlap_grad_reduce", "overlap_param_gather", "use_distributed_optimizer", "use_megatron_fsdp"),
    "dist": ("use_megatron_fsdp",),
    "optimizer": ("use_distributed_optimizer", "use_precision_aware_optimizer"),
    "comm_overlap": ("tp_comm_overlap",),
}  # fmt: skip
_WORDS = {
    "model": ("pipeline_model_parallel_layout", "recompute_granularity", "recompute_method", "position_embedding_type",
              "normalization", "rope_type", "moe_token_dispatcher_type", "moe_router_score_function"),
    "ddp": ("data_parallel_sharding_strategy",),
    "checkpoint": ("ckpt_format",),
}  # fmt: skip
_RENAMED = {
    "max-position-embeddings": ("dataset.seq_length", "number"),
    "num-virtual-stages-per-pipeline-rank": ("model.virtual_pipeline_model_parallel_size", "number"),
    "num-query-groups": ("model.num_query_groups", "number"),
    "num-experts": ("model.num_moe_experts", "number"),
    "moe-router-group-topk": ("model.moe_router_group_topk", "number"),
    "moe-layer-freq": ("model.moe_layer_freq", "list"),
    "swiglu": ("model.gated_linear_unit", "switch"),
    "disable-bias-linear": ("model.add_bias_linear", "off"),
    "untie-embeddings-and-output-weights": ("model.share_embeddings_and_output_weights", "off"),
    "attention-backend": ("model.attention_backend", "AttnBackend."),
    "exp-avg-dtype": ("optimizer.exp_avg_dtype", "torch."),
    "exp-avg-sq-dtype": ("optimizer.exp_avg_sq_dtype", "torch."),
}
"""options whose fields have other names, and the kind of the value"""
_TYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp8": "uint8"}
_OLDER = {
    "model.micro_batch_size": "train.micro_batch_size", "model.global_batch_size": "train.global_batch_size",
    "model.encoder_seq_length": "model.seq_length", "dataset.sequence_length": "model.seq_length",
    "model.activations_checkpoint_granularity": "model.recompute_granularity",
    "model.activations_checkpoint_method": "model.recompute_method",
    "model.activations_checkpoint_num_layers": "model.recompute_num_layers", "model.bias": "model.add_bias_linear",
}  # fmt: skip
"""fields of the YAML of NeMo before Megatron-Bridge, and what they are called now"""
_NORMS = {"rmsnorm": "RMSNorm", "layernorm": "LayerNorm", "layernorm1p": "LayerNorm"}
ELSEWHERE = ("mock-data", "tokenizer-type", "log-throughput", "group-query-attention", "multi-latent-attention", "bf16",
         "fp16", "fp8-format", "fp8-recipe", "fp4-format", "fp4-recipe")  # fmt: skip
"""options that stand elsewhere: in the data, in `mixed_precision`, in the class of the model"""
_MIXED = {
    "bf16_mixed": "bf16", "fp16_mixed": "fp16", "bf16_with_fp8_delayed_scaling_mixed": "fp8",
    "bf16_with_mxfp8_mixed": "mxfp8", "bf16_with_nvfp4_mixed": "nvfp4", "bf16_with_fp8_current_scaling_mixed": "fp8",
    "bf16_with_fp8_subchannel_scaling_mixed": "fp8",
}  # fmt: skip
"""recipes of mixed precision, the first of a precision is written"""
_HEAD = '''"""Megatron-Bridge 0.3: {name} on {gpus} GPUs."""

{libraries}
from megatron.bridge.models.gpt_provider import GPTModelProvider
from megatron.bridge.models.mla_provider import MLAModelProvider
from megatron.bridge.peft.lora import LoRA
from megatron.bridge.training.comm_overlap import CommOverlapConfig
from megatron.bridge.training.config import (
    CheckpointConfig, ConfigContainer, DistributedDataParallelConfig, DistributedInitConfig, LoggerConfig,
    MockGPTDatasetConfig, OptimizerConfig, SchedulerConfig, TokenizerConfig, TrainingConfig,
)
from megatron.bridge.training.gpt_step import forward_step
from megatron.bridge.training.{start} import {start}
from megatron.core.transformer.enums import AttnBackend


def pretrain_config() -> ConfigContainer:
    return {body}


if __name__ == "__main__":
    {start}(pretrain_config(), forward_step)
'''


def _rows() -> Iterator[tuple[str, str, str]]:
    """(path of a field, option, kind of its value)."""
    for kind, tables in (("number", _NUMBERS), ("switch", _SWITCHES), ("word", _WORDS)):
        for table, names in tables.items():
            yield from ((f"{table}.{name}", name.replace("_", "-"), kind) for name in names)
    yield from ((path, option, kind) for option, (path, kind) in _RENAMED.items())


ROWS = tuple(_rows())
"""every field with its option of Megatron-LM"""


def recipe(job: Job) -> str:
    """The module, with one function `pretrain_config`."""
    flags = flags_of([word for group in megatron.options(job) for word in group])
    given = flags.given
    assert given.keys() <= {option for _, option, _ in ROWS} | {*ELSEWHERE}, given.keys()
    tables: dict[str, dict[str, Any]] = {name: {} for name in _CLASSES}
    for path, option, kind in ROWS:
        table, _, name = path.partition(".")
        if kind in ("switch", "off"):
            tables[table][name] = (option in given) == (kind == "switch")
        elif option in given:
            tables[table][name] = _field(given[option][0], kind)
    latent = "multi-latent-attention" in given
    tables["model"] |= {"activation_func": Expression("F.silu" if "swiglu" in given else "F.gelu")}
    tables["optimizer"] |= {"optimizer": "adam"}
    tables["dataset"] |= {"random_seed": 1234, "reset_position_ids": False, "reset_attention_mask": False,
                          "eod_mask_loss": False, "seq_length": tables["model"]["seq_length"]}  # fmt: skip
    tables["tokenizer"] |= {"tokenizer_type": "NullTokenizer", "vocab_size": tables["model"]["vocab_size"]}
    _, rank = job.adapter
    peft = {"peft": ("LoRA", {"dim": rank, "alpha": 2 * rank})} if rank else {}
    mixed = next((name for name, precision in _MIXED.items() if precision == job.plan.precision), None)
    body: dict[str, Any] = {
        name: (_LATENT if name == "model" and latent else _CLASSES[name], fields)
        for name, fields in tables.items()
    }
    return _HEAD.format(
        libraries="import torch\nimport torch.nn.functional as F",
        name=job.name,
        gpus=job.plan.gpus,
        body=call_text("ConfigContainer", body | peft | {"mixed_precision": mixed}),
        start="finetune" if rank else "pretrain",
    )


def _field(word: str, kind: str) -> Any:
    """The value of a field from the word of an option."""
    if kind == "number":
        return float(word) if "." in word or "e" in word else int(word)
    if kind == "list":
        return [int(digit) for digit in word if digit in "01"] if word.startswith("[") else int(word)
    return word if kind == "word" else Expression(kind + _TYPES.get(word, word))


def notes(job: Job) -> list[str]:
    """What a user has to look over."""
    return [
        f"start it with torchrun --nnodes {job.nodes} --nproc-per-node {job.per_node} recipe.py",
        "trains on mock data for 100 iterations: replace dataset, tokenizer, train_iters and lr by yours",
        *(["fine-tunes: set checkpoint.pretrained_checkpoint"] if job.adapter[1] else []),
        *model_notes(job.model),
    ]


def read_recipe(text: str, context: Context) -> Reading | None:
    """The plan of a recipe in Python, or of its YAML; None where nothing can be built. PodsimError if it is neither."""
    paths = _yaml_paths(text) if text_is_yaml(text) else read_paths(text)
    flags = _flags(paths, context)
    context = context.on(_trainer_gpus(paths))
    if context.gpus is None:
        context.problems.append(f"a recipe does not say how many GPUs it runs on; {GIVE_GPUS}")
    if context.problems or context.gpus is None:
        return None
    assumed: list[str] = []
    shape = read_model(flags, assumed)
    plan, more = megatron.read_plan(flags, context.gpus, context.layers or int(str(shape.get("layers", 0))))
    context.problems.extend(f"as options of Megatron-LM: {problem}" for problem in flags.problems)
    known = {"peft.dim", "peft.alpha", "trainer.devices", "trainer.num_nodes", *(path for path, _, _ in ROWS)}
    unread = tuple(
        f"{path} = {str(value)[:60]}" for path, value in paths.items() if "." in path and path not in known
    )
    adapted = str(paths.get("peft", "")).rpartition(".")[2] == "LoRA"
    return Reading(
        names={"train": f"lora:{paths.get('peft.dim', 32)}"} if adapted else {},
        tool=context.tool,
        plan=plan,
        gpus=context.gpus,
        model=shape,
        ignored=unread,
        assumptions=tuple(assumed + more),
    )


def text_is_yaml(text: str) -> bool:
    """Whether a text is YAML with the tables of a recipe: `model:` and one that stands beside it."""
    tables = {line.partition(":")[0] for line in text.splitlines() if line[:1].isalpha() and ":" in line}
    return "model" in tables and bool(tables & {"train", "trainer", "ddp", "comm_overlap", "mixed_precision"})


def _yaml_keys(text: str) -> dict[str, Any]:
    """The values of a YAML by path."""
    try:
        documents = read_documents(text)
    except YamlError as error:
        raise PodsimError(f"not YAML: {error}") from None
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise PodsimError("expected one table of keys of Megatron-Bridge")
    return flat_keys(documents[0])


def _yaml_paths(text: str) -> dict[str, Any]:
    """The fields of a recipe's YAML by path, NeMo's older names turned into those of today."""
    flat = {_OLDER.get(path, path): value for path, value in _yaml_keys(text).items()}
    if flat.get("model.recompute_granularity") == "selective":
        flat.pop("model.recompute_method", None)
    if "swiglu" in str(flat.get("model.activation", "")):
        flat.setdefault("model.gated_linear_unit", True)
    if flat.get("model.optim.name") == "distributed_fused_adam":
        flat.setdefault("optimizer.use_distributed_optimizer", True)
    norm = "model.normalization"
    flat |= {norm: _NORMS[name]} if (name := str(flat.get(norm)).lower()) in _NORMS else {}
    precision = str(flat.pop("trainer.precision", "")).removesuffix("-mixed")
    if precision in ("bf16", "16"):
        flat.setdefault("mixed_precision", "bf16_mixed" if precision == "bf16" else "fp16_mixed")
    return flat


def older_names(text: str) -> dict[str, str]:
    """The names of older releases that a YAML uses, by those of today."""
    keys = _yaml_keys(text) if text_is_yaml(text) else {}
    return {new: old for old, new in _OLDER.items() if old in keys}


def _trainer_gpus(paths: Mapping[str, Any]) -> int | None:
    """GPUs that the trainer of a YAML states; None where it does not."""
    nodes, devices = paths.get("trainer.num_nodes"), paths.get("trainer.devices")
    return (
        nodes * devices
        if isinstance(nodes, int) and isinstance(devices, int) and nodes * devices > 0
        else None
    )


def _flags(paths: Mapping[str, Any], context: Context) -> Flags:
    """The options of Megatron-LM that a recipe stands for."""
    words: list[str] = []
    for path, option, kind in ROWS:
        value = paths.get(path)
        if value is None or f"--{option}" in words:
            continue
        if kind in ("switch", "off"):
            words += [f"--{option}"] if value is (kind == "switch") else []
        else:
            words += [f"--{option}", _word(value, kind)]
    if "--num-query-groups" in words:
        words.append("--group-query-attention")
    if str(paths.get("model", "")).startswith("MLA"):
        words.append("--multi-latent-attention")
    mixed = paths.get("mixed_precision")
    if isinstance(mixed, str) and mixed.replace("-", "_") in _MIXED:
        words += megatron.PRECISION_FLAGS[_MIXED[mixed.replace("-", "_")]]
    elif mixed is not None:
        context.problems.append(f"mixed_precision = {str(mixed)[:60]!r} may be None, {', '.join(_MIXED)}")
    return flags_of(words)


def _word(value: Any, kind: str) -> str:
    """The word of an option from the value of a field."""
    if isinstance(value, list):
        return str(value).replace(" ", "")
    last = str(value).rpartition(".")[2] if kind.endswith(".") else str(value)
    return next((name for name, dtype in _TYPES.items() if kind == "torch." and dtype == last), last)
