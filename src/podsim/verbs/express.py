"""A row of a training table as a model, a cluster and a plan; or the reason why it cannot be one.

Everything comes from the row's own columns, so a user's file with the same columns is read the same way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from podsim.errors import ModelError, PodsimError
from podsim.verbs.express_open import settle, stated

if TYPE_CHECKING:
    from podsim.hardware.cluster import Cluster
    from podsim.training.plan import Plan
    from podsim.training.software import Software
    from podsim.workload.graph import Model

__all__ = ["Expressed", "NotExpressible", "express"]


class NotExpressible(Exception):
    """The row lacks something, or describes what podsim does not model; the text says what."""


@dataclass(frozen=True, kw_only=True)
class Expressed:
    """A row as podsim's nouns."""

    model: Model
    cluster: Cluster
    plan: Plan
    layer_only: bool = False
    """the measurement is of one layer's forward and backward, not of a step"""
    chosen: str = ""
    """settings that the row leaves open and podsim chose, worded; "" where the row states its micro-batch"""


# GPU names as tables write them -> catalog name of a node that carries it; {mem} is the memory in GB
_NODES = (
    (r"A100-?SXM4?.*", "dgx-a100-{mem}gb"),
    (r"A100-?PCIe.*", "a100-pcie-server"),
    (r"H100 96GB.*", "grand-teton-h100-96gb"),
    (r"H100-?SXM5?.*", "dgx-h100"),
    (r"H200.*", "dgx-h200"),
    (r"V100-SXM3.*", "dgx-2"),
    (r"V100-SXM2.*", "dgx-1-v100-{mem}gb"),
    (r"A800.*", "hgx-a800"),
    (r"B200.*", "dgx-b200"),
)
_FRAMEWORKS = (
    (r"megatron-deepspeed", "megatron-deepspeed"),
    (r"nemo", "nemo-2022"),
    (r"megatron-core", "megatron-core"),
    (r"megatron-lm \(?(jan 2021|2020)", "megatron-2020"),
    (r"megatron-lm", "megatron-{year}"),
    (r"llm-foundry", "llm-foundry-2023"),
    (r"torchtitan", "torchtitan-2024"),
    (r"internevo", "internevo-2024"),
)


def _number(row: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = stated(row, name)
    if not text:
        if default is None:
            raise NotExpressible(f"{name} is not given")
        return default
    try:
        value = float(text)
    except ValueError:
        raise NotExpressible(f"{name}={text!r} is not a number") from None
    if value != int(value) or not 0 < value < 1e12:
        raise NotExpressible(f"{name}={text!r} is not a whole number from 1")
    return int(value)


def express(row: Mapping[str, str]) -> Expressed:
    """The row as nouns; NotExpressible with the reason."""
    layer_only = "LAYER micro-benchmark" in row.get("notes", "")
    try:
        cluster = _cluster(row)
        model = _model(row, layer_only)
        plan, chosen = _plan(row, model, cluster, layer_only)
        problems = plan.problems(model, cluster)
    except PodsimError as error:
        raise NotExpressible(str(error)) from error
    if problems:
        raise NotExpressible("; ".join(problems))
    return Expressed(model=model, cluster=cluster, plan=plan, layer_only=layer_only, chosen=chosen)


def _model(row: Mapping[str, str], layer_only: bool) -> Model:
    if not stated(row, "layers"):
        return _by_name(row.get("model", ""), _number(row, "seq_len"))
    layers = _number(row, "layers")
    hidden = _number(row, "hidden")
    heads = _number(row, "heads")
    kv_heads = _number(row, "kv_heads", heads)
    ffn = _number(row, "ffn_hidden", 4 * hidden)
    vocab = _number(row, "vocab", 51200 if layer_only else None)
    sequence = _number(row, "seq_len")
    name = row.get("model", "model")
    return _built(name, layers, hidden, heads, kv_heads, ffn, vocab, sequence, _family(name))


_NAMED = re.compile(r"(?P<name>[\w.-]+)(?:\s+[\d.]+[BT])?(?:\s*\((?P<layers>\d+) layers\))?", re.IGNORECASE)


@lru_cache(maxsize=64)
def _by_name(text: str, sequence: int) -> Model:
    """A model of the catalog, as "llama3-70b", "DeepSeek-V2 236B" or "llama3-70b (12 layers)"."""
    from podsim.workload.catalog import load_model

    found = _NAMED.fullmatch(text.strip())
    changed = {"layers": int(found["layers"])} if found and found["layers"] else {}
    try:
        return load_model(found["name"] if found else "", {"sequence": sequence, **changed})
    except ModelError:
        raise NotExpressible(f"layers is not given, and model={text!r} is none of the catalog") from None


def _family(name: str) -> str:
    lower = name.lower()
    if "llama" in lower or "internlm" in lower:
        return "llama"
    return "mpt" if "mpt" in lower else "gpt"


@lru_cache(maxsize=512)
def _built(
    name: str,
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    ffn: int,
    vocab: int,
    sequence: int,
    family: str,
) -> Model:
    from podsim.workload.specification import Transformer
    from podsim.workload.transformer import build

    spec = Transformer(
        name=name, family=family, layers=layers, hidden=hidden, heads=heads, kv_heads=kv_heads, ffn=ffn,
        vocab=vocab, sequence=sequence, dropout=family == "gpt",
    )  # fmt: skip
    if family == "llama":
        spec = replace(
            spec, gated=True, activation="silu", norm="rmsnorm", norm_bias=False, qkv_bias=False, proj_bias=False,
            mlp_bias=False, tied=False, position="rope",
        )  # fmt: skip
    if family == "mpt":
        spec = replace(
            spec, norm_bias=False, qkv_bias=False, proj_bias=False, mlp_bias=False, position="learned"
        )
    return build(spec)


def _cluster(row: Mapping[str, str]) -> Cluster:
    gpu = row.get("gpu", "").strip()
    node = next((name for pattern, name in _NODES if re.match(pattern, gpu, re.IGNORECASE)), None)
    if node is None:
        raise NotExpressible(f"gpu={gpu!r} has no node in the catalog")
    memory = (row.get("gpu_mem_gb") or "80").strip().split(".")[0]
    count = _number(row, "n_gpus")
    return _load_cluster(node.format(mem=memory), count, row.get("interconnect", ""))


@lru_cache(maxsize=512)
def _load_cluster(node: str, count: int, interconnect: str) -> Cluster:
    from podsim.hardware.cluster import load_cluster

    one = load_cluster(f"{node}:1")
    nodes = -(-count // one.gpus_per_node)
    return load_cluster(f"{node}:{nodes}", _network(interconnect, one.gpus_per_node))


def _network(text: str, gpus: int) -> dict[str, str]:
    """Overrides that a description of the network stands for, such as "4x100Gb/s RoCE per node"."""
    out: dict[str, str] = {}
    if match := re.search(r"(\d+)\s*x\s*(\d+)\s*Gb", text):
        out = {"network.nics": match[1], "network.bandwidth": f"{match[2]} Gb/s"}
    elif match := re.search(r"(\d+)\s*Gb(?:ps|/s)\s*(?:/node|inter-node|per node)", text):
        adapters = max(1, min(gpus, int(match[1]) // 200))
        out = {"network.nics": str(adapters), "network.bandwidth": f"{int(match[1]) // adapters} Gb/s"}
    elif match := re.search(r"(\d+)\s*Gb/s per GPU", text):
        out = {"network.nics": str(gpus), "network.bandwidth": f"{match[1]} Gb/s"}
    if "RoCE" in text:
        out["fabric"] = "roce"
    return out


def _precision(text: str) -> str:
    lower = text.lower()
    for name in ("fp8", "bf16", "fp16", "tf32", "fp32"):
        if name in lower:
            return name
    raise NotExpressible(f"precision={text!r} is not known")


def _recompute(text: str) -> str:
    lower = text.strip().lower()
    for name in ("full", "selective", "none"):
        if lower.startswith(name):
            return name
    if not lower:
        return "none"
    raise NotExpressible(f"recompute={text!r} is not known")


def software_of(row: Mapping[str, str]) -> str:
    """Catalog name of the framework era that the row's framework and year columns name."""
    from podsim.training.software import software_names

    framework = row.get("framework", "").strip().lower()
    if framework in software_names():
        return framework
    year = (row.get("year") or "2022").strip()[:4]
    name = next((n for pattern, n in _FRAMEWORKS if re.search(pattern, framework)), None)
    if name is None:
        raise NotExpressible(f"framework={row.get('framework', '')!r} has no entry in the software catalog")
    if "{year}" in name:
        name = "megatron-core" if year >= "2024" else name.format(year=min(max(year, "2021"), "2022"))
    if name == "megatron-2021" and "no scatter/gather" in row.get("notes", ""):
        name = "megatron-2021-whole-sends"
    strategy = row.get("zero_stage_or_fsdp", "")
    if name == "torchtitan-2024" and strategy.strip() != "FSDP":
        rowwise = "rowwise" in row.get("precision", "")
        name = "torchtitan-2024-rowwise" if rowwise else "torchtitan-2024-compile"
    if name not in software_names():
        raise NotExpressible(f"framework={row.get('framework', '')!r} has no entry in the software catalog")
    return name


def _zero(text: str) -> tuple[int, int]:
    """(ZeRO stage, ranks it divides over; 0 is all) from a description."""
    upper = text.upper()
    group = re.search(r"GROUP=(\d+)", upper)
    shard = int(group[1]) if group else 0
    if "SHARD_GRAD_OP" in upper or "ZERO-2" in upper:
        return 2, shard
    if "FSDP" in upper or "ZERO-3" in upper or "FULL_SHARD" in upper:
        return 3, shard
    return (1, shard) if "ZERO-1" in upper or "DISTRIBUTED" in upper else (0, 0)


def _plan(row: Mapping[str, str], model: Model, cluster: Cluster, layer_only: bool) -> tuple[Plan, str]:
    """(the plan, which of its settings podsim chose)."""
    from podsim.training.plan import Plan
    from podsim.training.software import load_software

    gpus = _number(row, "n_gpus")
    tp, pp, cp = (_number(row, name, 1) for name in ("tp", "pp", "cp"))
    dp = _number(row, "dp", max(1, gpus // (tp * pp * cp)))
    software = load_software(software_of(row), cluster.gpu)
    zero, shard = _zero(row.get("zero_stage_or_fsdp", ""))
    virtual = _number(row, "virtual_pp", 1)
    if "Interleaved" in row.get("zero_stage_or_fsdp", ""):
        virtual = max(virtual, 2)
    notes = row.get("notes", "") + row.get("zero_stage_or_fsdp", "")
    global_batch = _number(row, "global_batch", _any_batch(row, dp))
    micro = _micro_batch(row, global_batch, dp, pp)
    sequence_parallel = row.get("seq_parallel", "").strip().lower() == "yes"
    titan = software.name.startswith("torchtitan") and tp > 1
    if layer_only:
        dp, global_batch = 1, _number(row, "micro_batch")
    plan = Plan(
        tp=tp,
        pp=pp,
        virtual_stages=virtual,
        dp=dp,
        cp=cp,
        ep=_number(row, "ep", 1),
        micro_batch=micro or 1,
        global_batch=global_batch,
        sequence_parallel=(sequence_parallel or titan) and tp > 1,
        zero=zero,
        shard=shard if zero else 0,
        recompute=_recompute(row.get("recompute", "")),
        schedule="interleaved" if virtual > 1 else "1f1b",
        flash=_flash(row, software),
        overlap_grad="overlap_grad" in software.can_overlap,
        overlap_param="overlap_param" in software.can_overlap,
        overlap_tp=bool(re.search(r"async ?tp", notes, re.IGNORECASE)) and tp > 1,
        precision=_precision(row.get("precision", "")),
        software=software.name,
        sequence=_number(row, "seq_len"),
    )
    if micro is not None:
        blank = not stated(row, "global_batch") and not layer_only
        return plan, f"chosen: global_batch={global_batch}" if blank else ""
    return settle(plan, row, model, cluster)


def _any_batch(row: Mapping[str, str], dp: int) -> int | None:
    """The batch that `podsim plan` takes by default, for a row that gives a rate, which hardly hangs on it; else None."""
    from podsim.verbs.inputs import batch_of

    if stated(row, "step_time_s") or stated(row, "tokens_per_s"):
        return None
    sequences, _ = batch_of(None, _number(row, "seq_len"))
    return -(-sequences // dp) * dp


def _flash(row: Mapping[str, str], software: Software) -> bool:
    return "without FlashAttention" not in row.get("framework", "") and "flash" not in software.lacks


def _micro_batch(row: Mapping[str, str], global_batch: int, dp: int, pp: int) -> int | None:
    """The row's micro-batch, or the one of its gradient accumulation notes; None if it says nothing."""
    if stated(row, "micro_batch"):
        return _number(row, "micro_batch")
    notes = row.get("notes", "")
    if match := re.search(r"grad_accum=(\d+)|micro_num=(\d+)", notes):
        steps = int(match[1] or match[2])
        return max(1, global_batch // (dp * steps))
    if "torchtitan" in row.get("framework", "") and pp > 1:  # its default: as many micro-batches as stages
        return max(1, global_batch // (dp * pp))
    return 1 if "local batch" in notes else None
