"""What a user asks of the server of a language model -> model, cluster and plan.

The number format of a quantised checkpoint is that of its config.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from podsim.errors import PlanError, raise_all
from podsim.graphs.networks import is_graph
from podsim.hardware.cluster import Cluster
from podsim.hardware.parts import Gpu
from podsim.kernels.gemm import peak_of
from podsim.options.serving_options import ServeOptions
from podsim.serving.engines import engine_names
from podsim.serving.language_engines import LanguageEngine, language_engine_names, load_language_engine
from podsim.serving.language_layers import check_language_model, is_language_model
from podsim.serving.plan_rules import check_limits, check_plan, fewest_gpus
from podsim.serving.serving_gpus import read_serving_cluster
from podsim.serving.serving_plan import OWN_DRAFTS, WEIGHT_FORMATS, ServingPlan
from podsim.workload.catalog import load_model
from podsim.workload.convolution import CONVOLUTIONAL
from podsim.workload.model import Model

_LARGEST = 1 << 20
"""B of the largest config.json that is read"""
_WEIGHTS_ONLY = {"awq": 4, "gptq": 4, "auto_awq": 4, "auto_gptq": 4, "bitsandbytes": 4}
"""Method of quantisation of weights alone -> the bits that it usually has."""
_STAND_INS = {
    "fp8": "int8_wo",
    "fp8_block": "int8_wo",
    "nvfp4": "int4_wo",
    "mxfp8": "int8_wo",
    "int8": "int8_wo",
}
"""Format -> that of weights alone, in which engines run it on GPUs without its arithmetic."""


def checkpoint_format(model: str, gpu: Gpu) -> str:
    """The format of the weights that a config.json names, as the GPU runs it; "" where it names none."""
    path = Path(model)
    path = path / "config.json" if path.is_dir() else path
    if path.suffix != ".json":
        return ""
    try:
        if path.stat().st_size > _LARGEST:
            return ""
        config = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return ""
    stated = config.get("quantization_config") if isinstance(config, dict) else None
    precision = stated_format(stated) if isinstance(stated, dict) else ""
    peaks = {"fp8": "fp8", "fp8_block": "fp8", "mxfp8": "fp8", "nvfp4": "fp4", "int8": "int8"}
    if precision in peaks and peaks[precision] not in gpu.peaks:
        return _STAND_INS[precision]
    return precision


def stated_format(stated: Mapping[str, Any]) -> str:
    """The format of a quantization_config; "" for one that no engine's kernels here have."""
    method = str(stated.get("quant_method", "")).lower()
    algorithm = str(stated.get("quant_algo", "")).lower()
    if "nvfp4" in (method, algorithm):
        return "nvfp4"
    if method in ("fp8", "fbgemm_fp8") or algorithm == "fp8":
        return "fp8_block" if stated.get("weight_block_size") else "fp8"
    if method in _WEIGHTS_ONLY:
        bits = stated.get("bits") or (8 if stated.get("load_in_8bit") else _WEIGHTS_ONLY[method])
        return {4: "int4_wo", 8: "int8_wo"}.get(bits, "") if isinstance(bits, int) else ""
    groups = stated.get("config_groups")
    if method == "compressed-tensors" and isinstance(groups, dict):
        first = next((group for group in groups.values() if isinstance(group, dict)), {})
        return _compressed(first)
    return ""


def _compressed(group: Mapping[str, Any]) -> str:
    """The format of a group of compressed-tensors: the bits and kind of weights, and whether inputs have them, too."""
    weights = group.get("weights")
    if not isinstance(weights, dict):
        return ""
    key = (str(weights.get("type")), str(weights.get("num_bits")), bool(group.get("input_activations")))
    kinds: dict[tuple[str, str, bool], str] = {
        ("float", "8", True): "fp8_block" if weights.get("strategy") == "block" else "fp8",
        ("float", "8", False): "int8_wo", ("float", "4", True): "nvfp4", ("float", "4", False): "int4_wo",
        ("int", "8", True): "int8", ("int", "8", False): "int8_wo", ("int", "4", False): "int4_wo",
    }  # fmt: skip
    return kinds.get(key, "")


TOKENS = 512
"""count. The tokens of a prompt where the user gives none."""
OUTPUT = 128
"""count. The tokens that a sequence produces where the user gives none."""
_ROOM = 8
"""count. The sequences for which a plan that the user leaves open has room."""
_FORMATS = {
    "int4": "int4_wo", "w4a16": "int4_wo", "awq": "int4_wo", "gptq": "int4_wo", "w8a16": "int8_wo", "w8a8": "int8",
    "sq": "int8", "smoothquant": "int8", "fp4": "nvfp4", "half": "fp16", "float16": "fp16", "bfloat16": "bf16",
    "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "auto": "",
}  # fmt: skip
"""What users and engines call a number format -> its name here."""
_GEMM = {"int4_wo": "fp16", "int8_wo": "fp16", "fp8_block": "fp8"}
"""Number format of weights -> that of its arithmetic, if another."""


@dataclass(frozen=True, kw_only=True)
class LanguageSetup:
    """A language model, the GPUs, and the plan by which they serve it."""

    model: Model
    cluster: Cluster
    plan: ServingPlan
    engine: LanguageEngine
    tokens: int
    """count. The tokens of a prompt."""
    output: int
    """count. The tokens that each sequence produces."""


def prefill_plan(plan: ServingPlan, tensor: int | None) -> ServingPlan:
    """The plan of replicas that read prompts with another degree of tensor parallelism; experts and groups follow it."""
    if tensor is None:
        return plan
    follows: dict[str, Any] = {
        name: tensor for name in ("expert", "data_attention") if 1 < getattr(plan, name) == plan.tensor
    }
    return replace(plan, tensor=tensor, **follows)


def is_language_engine(name: str) -> bool:
    """Whether a name is not that of an engine of other models."""
    return name not in engine_names()


def is_network(options: ServeOptions) -> bool:
    """Whether the model writes no text, token after token: an ensemble, a captured network, images, an encoder."""
    model = options.model
    if model.endswith(".toml") or is_graph(model) or model.lower() in CONVOLUTIONAL:
        return True
    return not is_language_model(load_model(model, model_keys(options.overrides)))


def read_language_setup(options: ServeOptions, sequences: int = _ROOM, length: int = 0) -> LanguageSetup:
    """The setup of a question, with room for `sequences` of `length` tokens in the plan that the user leaves open.

    Raises PodsimError for anything unusable, and NoFitError where the cluster cannot hold the model.
    """
    model = load_model(options.model, model_keys(options.overrides))
    check_language_model(model)
    cluster = read_serving_cluster(options.on, options.overrides)
    engine = load_language_engine(options.engine or language_engine_names()[0], cluster.gpu)
    if options.speculate and options.draft.strip().lower() not in OWN_DRAFTS:
        check_language_model(load_model(options.draft))
    tokens, output = _length(options.tokens, TOKENS, "tokens"), _length(options.output, OUTPUT, "output")
    plan = divided_plan(
        model, cluster, _formats(options, cluster, engine), options, (length or tokens + output, sequences)
    )
    limit = plan.max_batched_tokens or engine.max_batched_tokens
    if not plan.chunked_prefill and tokens > limit:
        error = PlanError(
            [
                f"tokens={tokens:,}: a prompt that may not be split has at most {limit:,} tokens, those of a step"
            ]
        )
        raise error.offer(max_batched_tokens=tokens)
    return LanguageSetup(model=model, cluster=cluster, plan=plan, engine=engine, tokens=tokens, output=output)


def model_keys(overrides: Mapping[str, str] | None) -> dict[str, str]:
    """The overrides of the model, without their prefix."""
    return {
        key.removeprefix("model."): value
        for key, value in (overrides or {}).items()
        if key.startswith("model.")
    }


def _length(value: int | None, default: int, name: str) -> int:
    if value is not None and not 1 <= value <= 2**22:
        raise PlanError([f"{name}={value}: 1 to {2**22:,}"])
    return default if value is None else value


def _formats(options: ServeOptions, cluster: Cluster, engine: LanguageEngine) -> ServingPlan:
    """The plan of the options on one GPU; PlanError for a format that the GPU has no arithmetic for."""
    gpu = cluster.gpu
    usual = "fp16" if "fp16" in gpu.peaks else next(iter(gpu.peaks))
    precision = read_format(options.precision or "") or checkpoint_format(options.model, gpu) or usual
    if precision not in WEIGHT_FORMATS:
        raise PlanError(
            [f"precision={precision[:40]!r}: engines of language models run {', '.join(WEIGHT_FORMATS)}"]
        )
    peak_of(gpu, _GEMM.get(precision, precision))
    cache = read_format(options.kv) or ("fp8" if precision in engine.cache_follows else "fp16")
    return ServingPlan(
        engine=engine.name, precision=precision, cache=cache, prefix_share=options.prefix,
        block_tokens=_positive(options.block_tokens, "block_tokens"), max_batch=_positive(options.max_batch, "max_batch"),
        max_batched_tokens=_positive(options.max_batched_tokens, "max_batched_tokens"),
        chunked_prefill=options.chunked is not False, draft_tokens=options.speculate, acceptance=options.acceptance,
        draft=_draft(options.draft), memory_share=_share(options.memory_share),
    )  # fmt: skip


def read_format(text: str) -> str:
    """The name of a number format that a user or an engine writes; "" for none."""
    word = text.strip().lower().replace("-", "_")
    return _FORMATS.get(word, word)


def _draft(text: str) -> str:
    """The name of a draft: a model's as it stands, "" for a layer of the served one."""
    word = text.strip().lower()
    return text.strip() if word not in OWN_DRAFTS else "ngram" * (word == "ngram")


def _positive(value: int | None, name: str) -> int:
    if value is not None and value < 1:
        raise PlanError([f"{name}={value} must be 1 or more"])
    return value or 0


def _share(value: float | None) -> float:
    if value is not None and not 0 < value <= 1:
        raise PlanError([f"memory_share={value:g} must be above 0, and at most 1"])
    return value or 0.0


def divided_plan(
    model: Model, cluster: Cluster, plan: ServingPlan, options: ServeOptions, room: tuple[int, int]
) -> ServingPlan:
    """The plan with the user's degrees; those left open follow from the fewest GPUs with room for (tokens, sequences)."""
    fields = {
        "tp": "tensor",
        "pp": "pipeline",
        "ep": "expert",
        "cp": "context",
        "attention_dp": "data_attention",
    }
    said = {name: getattr(options, name) for name in (*fields, "replicas")}
    problems = [
        f"{name}={value}: 1 or more" for name, value in said.items() if value is not None and value < 1
    ]
    raise_all(problems, PlanError)
    degrees: dict[str, Any] = {
        fields[name]: value for name, value in said.items() if name in fields and value
    }
    check_limits(replace(plan, **degrees))
    if options.tp is None and options.pp is None and not options.attention_dp and not options.ep:
        plan = fewest_gpus(model, cluster, replace(plan, **degrees), *room)
    else:
        degrees = {"tensor": options.attention_dp or options.ep or 1, **degrees}
        plan = replace(plan, **degrees)
    plan = replace(plan, replicas=options.replicas or max(cluster.gpus // plan.gpus, 1))
    check_plan(model, cluster, plan)
    return plan
