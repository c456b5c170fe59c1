"""The options of each engine's server, in both directions: a plan as words of its command, and such words as a plan.

Sources: vLLM 0.33.0 (engine/arg_utils.py), SGLang 0.5.23 (srt/server_args.py), TensorRT-LLM (commands/serve.py
@00209af1). vLLM has no option for experts: with --enable-expert-parallel they are dealt over tensor x data ranks.
SGLang's attention groups are --attn-dp-size; until 2026-12-31 it also reads --dp-size N --enable-dp-attention.
TensorRT-LLM's options have underscores.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from podsim.errors import PlanError
from podsim.serving.deployments.deployment import Deployment
from podsim.serving.language_engines import load_language_engine
from podsim.serving.serving_plan import ServingPlan

_VLLM_WEIGHTS = {
    "fp8": "fp8", "fp8_block": "fp8_per_block", "int8_wo": "int8_per_channel_weight_only", "int4_wo": "awq",
    "int8": "compressed-tensors", "mxfp8": "mxfp8", "nvfp4": "modelopt_fp4",
}  # fmt: skip
_SGLANG_WEIGHTS = {
    "fp8": "fp8", "fp8_block": "fp8", "int4_wo": "awq", "int8": "w8a8_int8", "mxfp8": "mxfp8",
    "nvfp4": "modelopt_fp4",
}  # fmt: skip
_HALF = {"fp16": "float16", "bf16": "bfloat16"}
_QUANTISED = ("int8", "int4_wo", "nvfp4")
"""formats of weights that a checkpoint must have already"""
_CACHES = {
    "fp8": "fp8", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "int8": "int8", "bfloat16": "bf16", "bf16": "bf16",
    "float16": "fp16",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ServerTool:
    """The server of an engine."""

    command: tuple[str, ...]
    """The words that start it, before the model."""
    model: str
    """The option of the model; empty: it follows the command."""
    write: Callable[[Deployment, ServingPlan], dict[str, Any]]
    """The options of a replica; True stands for an option without a value."""
    read: Callable[[Mapping[str, str], Callable[[str], int]], dict[str, Any]]
    """The fields of a plan from options by name, without dashes, and a reader of their numbers."""
    also: tuple[str, ...] = ()
    """The image and the module that start it without these words."""


def _limits(deployment: Deployment, plan: ServingPlan) -> tuple[int, int, int, float]:
    """(sequences, tokens of a step, tokens of a block, share of memory), the engine's where the plan says nothing."""
    engine = load_language_engine(plan.engine, deployment.cluster.gpu)
    return (
        plan.max_batch or engine.max_batch, plan.max_batched_tokens or engine.max_batched_tokens,
        plan.block_tokens or engine.block_tokens, plan.memory_share or engine.memory_share,
    )  # fmt: skip


def _vllm(deployment: Deployment, plan: ServingPlan) -> dict[str, Any]:
    sequences, tokens, block, share = _limits(deployment, plan)
    length = _length("max-model-len", deployment)
    least = max(
        sequences, 0 if plan.chunked_prefill else length.get("max-model-len", 0)
    )  # vLLM refuses fewer
    options: dict[str, Any] = {"tensor-parallel-size": plan.tensor // plan.data_attention}
    options |= {"pipeline-parallel-size": plan.pipeline} if plan.pipeline > 1 else {}
    options |= {"data-parallel-size": plan.data_attention} if plan.data_attention > 1 else {}
    options |= {"enable-expert-parallel": True} if plan.expert > 1 else {}
    options |= {"dtype": _HALF.get(plan.precision, "auto")}
    options |= {"quantization": _VLLM_WEIGHTS[plan.precision]} if plan.precision in _VLLM_WEIGHTS else {}
    options |= {"kv-cache-dtype": plan.cache} if plan.cache == "fp8" else {}
    options |= {
        "block-size": block, "gpu-memory-utilization": f"{share:g}", "max-num-seqs": sequences,
        "max-num-batched-tokens": max(tokens, least), **length,
        "enable-chunked-prefill" if plan.chunked_prefill else "no-enable-chunked-prefill": True,
    }  # fmt: skip
    if plan.draft_tokens:
        method = {"": {"method": "mtp"}, "ngram": {"method": "ngram"}}.get(plan.draft, {"model": plan.draft})
        options["speculative-config"] = json.dumps({**method, "num_speculative_tokens": plan.draft_tokens})
    return options


def _length(name: str, deployment: Deployment) -> dict[str, int]:
    """The option of the longest sequence, a multiple of 256."""
    return {name: -(-deployment.longest // 256) * 256} if deployment.longest else {}


def _read_vllm(options: Mapping[str, str], count: Callable[[str], int]) -> dict[str, Any]:
    tensor, data = count("tensor-parallel-size") or 1, count("data-parallel-size") or 1
    plan: dict[str, Any] = {"tensor": tensor, "pipeline": count("pipeline-parallel-size") or 1}
    if "enable-expert-parallel" in options:
        plan |= {"tensor": tensor * data, "expert": tensor * data, "data_attention": data}
    elif data > 1:
        plan["replicas"] = data
    plan |= {
        "block_tokens": count("block-size"), "max_batch": count("max-num-seqs"),
        "max_batched_tokens": count("max-num-batched-tokens"),
    }  # fmt: skip
    if "no-enable-chunked-prefill" in options:
        plan["chunked_prefill"] = False
    if config := options.get("speculative-config"):
        plan |= _read_draft(config)
    return (
        plan
        | _read_formats(options, "quantization", _VLLM_WEIGHTS)
        | _share(options, "gpu-memory-utilization")
    )


def _read_draft(config: str) -> dict[str, Any]:
    try:
        table = json.loads(config)
        tokens = int(table["num_speculative_tokens"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise PlanError(
            [f"--speculative-config {config[:60]!r} is no JSON object with num_speculative_tokens"]
        ) from None
    name = str(table.get("model", "") or ("ngram" if table.get("method") == "ngram" else ""))
    return {"draft_tokens": tokens, "draft": name}


def _read_formats(options: Mapping[str, str], name: str, weights: Mapping[str, str]) -> dict[str, Any]:
    """The formats of weights and caches that options say."""
    said: dict[str, Any] = {}
    word = options.get(name, "")
    half = {"float16": "fp16", "half": "fp16", "bfloat16": "bf16"}.get(options.get("dtype", ""))
    if word:
        known = next((known for known, own in weights.items() if own == word), None)
        if known is None:
            raise PlanError([f"--{name} {word[:40]}: podsim serves {', '.join(weights.values())}"])
        said["precision"] = known
    elif half:
        said["precision"] = half
    cache = _CACHES.get(options.get("kv-cache-dtype", ""))
    return said | ({"cache": cache} if cache else {})


def _share(options: Mapping[str, str], name: str) -> dict[str, Any]:
    text = options.get(name)
    if text is None:
        return {}
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise PlanError([f"--{name} {text[:40]!r} must be above 0, and at most 1"])
    return {"memory_share": share}


def _sglang(deployment: Deployment, plan: ServingPlan) -> dict[str, Any]:
    sequences, tokens, block, share = _limits(deployment, plan)
    options: dict[str, Any] = {"tp-size": plan.tensor}
    options |= {"pp-size": plan.pipeline} if plan.pipeline > 1 else {}
    options |= {"ep-size": plan.expert} if plan.expert > 1 else {}
    options |= {"attn-dp-size": plan.data_attention} if plan.data_attention > 1 else {}
    options |= {"dtype": _HALF.get(plan.precision, "auto")}
    options |= {"quantization": _SGLANG_WEIGHTS[plan.precision]} if plan.precision in _SGLANG_WEIGHTS else {}
    options |= {"kv-cache-dtype": "fp8_e4m3"} if plan.cache == "fp8" else {}
    options |= {
        "page-size": block, "mem-fraction-static": f"{share:g}", "max-running-requests": sequences,
        "chunked-prefill-size": tokens if plan.chunked_prefill else -1, "max-prefill-tokens": tokens,
        **_length("context-length", deployment),
    }  # fmt: skip
    if plan.draft_tokens:
        method = {"": "EAGLE", "ngram": "NGRAM"}.get(plan.draft, "STANDALONE")
        options |= {"speculative-algorithm": method, "speculative-num-draft-tokens": plan.draft_tokens + 1}
        options |= {"speculative-num-steps": plan.draft_tokens, "speculative-eagle-topk": 1}
        options |= {"speculative-draft-model-path": plan.draft} if method == "STANDALONE" else {}
    return options


def _read_sglang(options: Mapping[str, str], count: Callable[[str], int]) -> dict[str, Any]:
    data = count("dp-size") or count("data-parallel-size") or 1
    groups = count("attn-dp-size") or (data if "enable-dp-attention" in options else 1)
    plan: dict[str, Any] = {
        "tensor": count("tp-size") or count("tensor-parallel-size") or 1,
        "pipeline": count("pp-size") or count("pipeline-parallel-size") or 1,
        "expert": count("ep-size") or count("ep") or 1, "data_attention": groups, "block_tokens": count("page-size"),
        "max_batch": count("max-running-requests"),
    }  # fmt: skip
    plan |= {"replicas": data} if groups == 1 and data > 1 else {}
    if options.get("chunked-prefill-size") == "-1":
        plan |= {"chunked_prefill": False, "max_batched_tokens": count("max-prefill-tokens")}
    else:
        plan["max_batched_tokens"] = count("chunked-prefill-size")
    if "speculative-algorithm" in options:
        draft = "ngram" if options["speculative-algorithm"].upper() == "NGRAM" else ""
        plan |= {
            "draft_tokens": count("speculative-num-steps"), "draft": options.get("speculative-draft-model-path", draft),
        }  # fmt: skip
    return (
        plan
        | _read_formats(options, "quantization", _SGLANG_WEIGHTS)
        | _share(options, "mem-fraction-static")
    )


def _trtllm(deployment: Deployment, plan: ServingPlan) -> dict[str, Any]:
    sequences, tokens, _, share = _limits(deployment, plan)
    options: dict[str, Any] = {"backend": "pytorch", "tp_size": plan.tensor, "pp_size": plan.pipeline}
    options |= {"ep_size": plan.expert} if plan.expert > 1 else {}
    return options | {
        "max_batch_size": sequences, "max_num_tokens": tokens, **_length("max_seq_len", deployment),
        "kv_cache_free_gpu_memory_fraction": f"{share:g}",
    }  # fmt: skip


def _read_trtllm(options: Mapping[str, str], count: Callable[[str], int]) -> dict[str, Any]:
    plan: dict[str, Any] = {
        "tensor": count("tp_size") or 1, "pipeline": count("pp_size") or 1, "expert": count("ep_size") or 1,
        "max_batch": count("max_batch_size"), "max_batched_tokens": count("max_num_tokens"),
    }  # fmt: skip
    return plan | _share(options, "kv_cache_free_gpu_memory_fraction")


TOOLS: Mapping[str, ServerTool] = {
    "vllm": ServerTool(
        command=("vllm", "serve"),
        model="",
        write=_vllm,
        read=_read_vllm,
        also=("vllm/vllm-openai", "vllm.entrypoints.openai.api_server"),
    ),
    "sglang": ServerTool(
        command=("python3", "-m", "sglang.launch_server"),
        model="--model-path",
        write=_sglang,
        read=_read_sglang,
    ),
    "tensorrt-llm": ServerTool(command=("trtllm-serve",), model="", write=_trtllm, read=_read_trtllm),
}
"""by engine"""
_ALSO = {
    "tp": "tensor-parallel-size",
    "pp": "pipeline-parallel-size",
    "dp": "data-parallel-size",
    "q": "quantization",
}
"""short options -> their names"""


def server_words(
    deployment: Deployment, plan: ServingPlan, more: Mapping[str, Any] | None = None
) -> list[str]:
    """The words of a server's command."""
    tool = TOOLS[plan.engine]
    words = [*tool.command, *([tool.model] if tool.model else []), deployment.weights]
    for name, value in (tool.write(deployment, plan) | dict(more or {})).items():
        words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return words


def format_problems(plan: ServingPlan) -> list[str]:
    """What the server of a plan has no word for among its number formats."""
    weights = {"vllm": _VLLM_WEIGHTS, "sglang": _SGLANG_WEIGHTS}.get(plan.engine)
    problems = []
    if weights is not None and plan.precision not in (*_HALF, *weights):
        problems.append(f"precision={plan.precision}: {plan.engine} serves {', '.join((*_HALF, *weights))}")
    if plan.cache == "int8":
        problems.append(f"kv=int8: {plan.engine} keeps keys and values in 16 bits or fp8")
    return problems


def checkpoint_notes(plan: ServingPlan) -> list[str]:
    """What the weights must be for a number format."""
    if plan.precision not in _QUANTISED:
        return []
    return [
        f"{plan.precision} needs weights that are quantised already: give their repository instead of the original"
    ]


def read_server(words: Sequence[str]) -> dict[str, Any] | None:
    """The engine, the model and the fields of a plan of a server's command; None for another command."""
    for engine, tool in TOOLS.items():
        start = _start(words, tool)
        if start >= 0:
            options, rest = _options(words[start:])
            fields = tool.read(options, lambda name, options=options: _count(options, name))  # type: ignore[misc]
            weights = options.get("model-path") or options.get("model")
            weights = weights or next((word for word in rest if word != "serve"), "")
            said = {name: value for name, value in fields.items() if value not in (0, None)}
            return {"engine": engine, "weights": weights, **said}
    return None


class _Options(dict[str, str]):
    """Options that keep the names that were looked up."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self.taken = {"model", "model-path"}

    def get(self, name: str, default: Any = None) -> Any:
        self.taken.add(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> str:
        self.taken.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.taken.add(str(name))
        return super().__contains__(name)


def unread_options(words: Sequence[str]) -> tuple[str, ...] | None:
    """The options of a server's command that no law reads; None for another command."""
    for tool in TOOLS.values():
        start = _start(words, tool)
        if start >= 0:
            options = _Options(_options(words[start:])[0])
            tool.read(options, lambda name, options=options: _count(options, name))  # type: ignore[misc]
            return tuple(
                f"--{name} {value}".strip() + _meant(name, options.taken)
                for name, value in options.items()
                if name not in options.taken
            )
    return None


def _meant(name: str, known: Iterable[str]) -> str:
    """The option that a misspelt one probably is, as a question; "" where none is close."""
    close = get_close_matches(name, known, n=1, cutoff=0.85)
    return f" (did you mean --{close[0]}?)" if close else ""


def _start(words: Sequence[str], tool: ServerTool) -> int:
    """The position after the words of a command, -1 where they do not stand."""
    size = len(tool.command)
    for at in range(min(len(words) - size + 1, 64)):
        part = tuple(words[at : at + size])
        if part[-1] == tool.command[-1] and (
            size == 1 or part[:-1] == tool.command[:-1] or part[0].startswith("python")
        ):
            return at + size
    images = [at for at, word in enumerate(words[:64]) if word.partition(":")[0] in tool.also]
    return images[0] + 1 if images else -1


def _options(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """(options by name, the other words)."""
    options: dict[str, str] = {}
    rest: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not word.startswith("-") or word == "-":
            rest.append(word)
            continue
        name, mark, value = word.lstrip("-").partition("=")
        name = _ALSO.get(name, name)
        if not mark and at < len(words) and (not words[at].startswith("-") or words[at][1:2].isdecimal()):
            value = words[at]
            at += 1
        options[name] = value
    return options, rest


def _count(options: Mapping[str, str], name: str) -> int:
    """A whole number of an option, 0 where it is not given."""
    text = options.get(name)
    if text is None:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise PlanError([f"--{name} {text[:40]!r} must be a whole number"])
    return int(text)
