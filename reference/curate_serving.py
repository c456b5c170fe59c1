"""Served language models in canonical columns: under a load, at a rate, and request by request.

    curated_load(rows)        serving_load.csv and its like: clients in a closed loop
    curated_rate(rows)        serving_rate.csv and its like: requests that arrive at a rate
    curated_requests(rows)    served_requests/*.csv and their like: one row a request

Models, GPUs and engines get podsim's names; times are seconds, rates 1/s.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from podsim.errors import PodsimError
from podsim.hardware.catalog import load_gpu
from podsim.hardware.cluster_names import catalog_name
from podsim.serving.language_engines import language_engine_names
from podsim.workload.catalog import load_specification
from reference.csv_rows import Cells, each_row

_SHARED = ("id", "role", "source", "model", "gpu", "engine", "engine_version", "precision")
LOAD = (
    *_SHARED, "experts_precision", "measured", "runs", "served_by", "mode", "draft", "shortest", "input_tokens",
    "output_tokens", "concurrency", "gpus", "attention_tp", "attention_dp", "pp", "experts_tp", "ep", "workers",
    "prefill_attention_tp", "prefill_attention_dp", "prefill_ep", "prefill_workers", "prefill_gpus", "decode_gpus",
    "first_token_s_median", "first_token_s_mean", "first_token_s_p99", "each_token_s_median", "each_token_s_mean",
    "each_token_s_p99", "end_to_end_s_median", "end_to_end_s_p99", "total_tokens_per_s_per_gpu",
    "output_tokens_per_s_per_gpu", "output_tokens_per_s_per_decode_gpu", "waves",
    "max_sequences", "max_batched_tokens",
    "graph_tokens", "memory_share", "kv_cache", "kept", "scheduler", "poll", "hold_steps",
    "hold_requests", "draft_tokens", "prefill_max_sequences", "prefill_max_batched_tokens", "reason",
)  # fmt: skip
"""The columns of a load; `shortest` is the share of the stated tokens that the shortest request has."""
RATE = (
    *_SHARED, "tp", "rate_per_s", "seconds", "prefix_tokens", "prefixes", "users_of_a_prefix", "multi_turn",
    "question_tokens", "output_tokens", "max_sequences", "max_batched_tokens", "cache_blocks", "block_tokens",
    "first_token_s_mean", "first_token_s_p90", "first_token_s_p99", "between_tokens_s_mean", "end_to_end_s_mean",
    "end_to_end_s_p90", "end_to_end_s_p99", "reason",
)  # fmt: skip
REQUESTS = (
    *_SHARED, "tp", "dp", "experts", "max_sequences", "max_batched_tokens", "input_tokens", "output_tokens", "arrival_s",
    "queued_s", "scheduled_s", "first_token_s", "last_token_s", "reason",
)  # fmt: skip
_CHECKPOINT = re.compile(
    r"[-_](?:nv)?(?:fp8|fp4|bf16|int8|int4|awq|gptq)(?:[-_](?:dynamic|block))?$", re.IGNORECASE
)
"""What a repository adds to a model's name for the number format of its weights."""
_FORM = re.compile(r"-(?:sxm\d?|nvl\d+|oam)$")
"""What sources add to a GPU's name for its board or rack."""
_FORMATS = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "fp8_block": "fp8-block"}
_OPTION = re.compile(r"\b(tp|dp|experts|max_num_seqs|max_num_batched_tokens)=(\w+)")
_NAMES = {"max_num_seqs": "max_sequences", "max_num_batched_tokens": "max_batched_tokens"}


def curated_load(rows: Iterable[Cells]) -> list[dict[str, str]]:
    """The canonical rows of a table of loads, as many and in order."""
    return each_row(rows, LOAD, _load_cells)


def _load_cells(row: Cells) -> dict[str, str]:
    """The canonical cells of a load: names, lengths, and how its server was started."""
    shared = _shared(row)
    return (
        shared
        | {"shortest": _shortest(row["lengths"])}
        | recipe_cells(row, {**row, **shared, "gpu": row["gpu"]})
    )


def recipe_cells(row: Cells, known: Cells) -> dict[str, str]:
    """What the rules of serving_recipes.toml set of a row; `known` are its cells with the catalog's names."""
    made: dict[str, str] = {}
    for rule in _recipes():
        date = row.get("measured", "")
        in_time = not (date and not rule.get("since", "") <= date < rule.get("before", "9"))
        if in_time and all(known.get(column, "") in _several(cell) for column, cell in rule["where"].items()):
            made |= {column: _setting(value, row) for column, value in rule["set"].items()}
    return made


@cache
def _recipes() -> tuple[Mapping[str, Any], ...]:
    return tuple(tomllib.loads(Path(__file__).with_name("serving_recipes.toml").read_text("utf-8"))["rule"])


def _several(cells: str | list[str]) -> list[str]:
    return [cells] if isinstance(cells, str) else cells


def _setting(value: Any, row: Cells) -> str:
    """A setting as text; of a number that depends on the row, as the head of serving_recipes.toml says it."""
    if not isinstance(value, dict):
        return str(value)
    tokens = value.get("clients", 0) * int(row["concurrency"]) + value.get("prompts", 0) * int(
        row["input_tokens"]
    )
    unit = value.get("round", 1)
    return str(max(-(-(tokens + value.get("plus", 0)) // unit) * unit, value.get("least", 0)))


def curated_rate(rows: Iterable[Cells]) -> list[dict[str, str]]:
    """The canonical rows of a table of rates, as many and in order."""
    return each_row(rows, RATE, _shared)


def curated_requests(rows: Iterable[Cells]) -> list[dict[str, str]]:
    """The canonical rows of a table of requests, as many and in order; the line above its header says what served."""
    return each_row(
        rows, REQUESTS, lambda row: {"role": row.get("role") or "test"} | _remarked(row.get("remark", ""))
    )


def _remarked(remark: str) -> dict[str, str]:
    """The cells of a remark such as "meta-llama/Llama-3.1-8B on RTXPRO6000, vLLM 0.19.0, tp=1 … bfloat16; …"."""
    said = re.match(r"(?P<model>\S+) on (?P<gpu>[^,]+), (?P<engine>\S+) (?P<engine_version>[\w.]+)", remark)
    if said is None:
        return {"reason": "no line above the header names the model, the GPU and the engine"}
    precision = re.search(r"\b(?:bfloat16|float16|fp8|half)\b", remark)
    source = re.search(r"\bsource ([^;]+)", remark)
    options = {_NAMES.get(name, name): value for name, value in _OPTION.findall(remark)}
    own = {"precision": precision[0] if precision else "", "source": source[1] if source else ""}
    cells = said.groupdict() | options | own
    return cells | _shared(cells)


def _shared(row: Cells) -> dict[str, str]:
    """Names of the catalog for model, GPU, engine and number formats; what is not in it is the reason."""
    names = {"model": _model(row["model"]), "gpu": _gpu(row["gpu"]), "engine": _engine(row["engine"])}
    unknown = [f"no {what} of the catalog is {row[what][:60]!r}" for what, name in names.items() if not name]
    formats = {
        column: _FORMATS.get(row[column], row[column])
        for column in ("precision", "experts_precision")
        if column in row
    }
    return {
        **{what: name or row[what] for what, name in names.items()}, **formats,
        "source": row.get("source") or row.get("origin", ""), "reason": "; ".join(unknown),
    }  # fmt: skip


def _model(text: str) -> str:
    for name in dict.fromkeys((text, _CHECKPOINT.sub("", text))):
        try:
            return load_specification(name).name
        except PodsimError:
            continue
    return ""


def _gpu(text: str) -> str:
    for name in (text.lower(), _FORM.sub("", text.lower())):
        try:
            return load_gpu(catalog_name(name)).name
        except PodsimError:
            continue
    return ""


def _engine(text: str) -> str:
    return text.lower() if text.lower() in language_engine_names() else ""


def _shortest(lengths: str) -> str:
    """The share of the stated tokens that the shortest request has: 0.8 of "80-100 %", 1 of "exact"."""
    if lengths in ("", "exact"):
        return "1" if lengths else ""
    return f"{float(lengths.partition('-')[0]) / 100:g}"
