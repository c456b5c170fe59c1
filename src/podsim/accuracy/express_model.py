"""The language model that a row of a training table describes: its dimensions, or a name of the catalog.

A row states widths, not what kind of transformer they are of. The name tells for the families that the tables hold; for
any other, the catalog where it knows the name, else the published size: it is what gated MLPs, a head of its own and
experts change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from podsim.accuracy.express_row import NotExpressible, stated, whole
from podsim.errors import ModelError
from podsim.workload.catalog import load_model, load_specification
from podsim.workload.graph import Model
from podsim.workload.specification import Transformer
from podsim.workload.transformer import build

_FAMILIES = (
    (r"llama|internlm|mi[sx]tral|qwen|deepseek|baichuan|\byi\b|vicuna|gemma|olmo|grok|dbrx|phi-?3", "llama"),
    (r"mpt", "mpt"),
    (r"gpt(?!-?neox|-?j)", "gpt"),
)
_NAMED = re.compile(r"(?P<name>[\w.-]+)(?:\s+[\d.]+[BT])?(?:\s*\((?P<layers>\d+) layers\))?", re.IGNORECASE)
_APART = 0.25
"""by which a model may miss the published size: tables round it, or leave embeddings out"""


def model_of(row: Mapping[str, str], *, layer_only: bool) -> Model:
    """The row's model; NotExpressible where its dimensions do not make one of the size that the row states.

    `layer_only`: the row measures one layer, whose size no column states.
    """
    if not stated(row, "layers"):
        return _by_name(row.get("model", ""), whole(row, "seq_len"))
    name = row.get("model", "model")
    dims = (
        whole(row, "layers"),
        whole(row, "hidden"),
        whole(row, "heads"),
        whole(row, "kv_heads", whole(row, "heads")),
        whole(row, "ffn_hidden", 4 * whole(row, "hidden")),
        whole(row, "vocab", 51200 if layer_only else None),
        whole(row, "seq_len"),
    )
    experts = 0 if stated(row, "moe_experts") == "0" else whole(row, "moe_experts", 1)
    mixture = (experts, whole(row, "moe_topk")) if experts > 1 else (0, 0)
    return _sized(name, dims, mixture, "" if layer_only else stated(row, "params_b"))


@lru_cache(maxsize=64)
def _by_name(text: str, sequence: int) -> Model:
    """A model of the catalog, as "llama3-70b", "DeepSeek-V2 236B" or "llama3-70b (12 layers)"."""
    found = _NAMED.fullmatch(text.strip())
    changed = {"layers": int(found["layers"])} if found and found["layers"] else {}
    try:
        return load_model(found["name"] if found else "", {"sequence": sequence, **changed})
    except ModelError:
        raise NotExpressible(f"layers is not given, and model={text!r} is none of the catalog") from None


@lru_cache(maxsize=512)
def _sized(name: str, dims: tuple[int, ...], mixture: tuple[int, int], published: str) -> Model:
    """The likeliest model of these dimensions."""
    try:
        size = float(published or "0") * 1e9
    except ValueError:
        raise NotExpressible(f"params_b={published!r} is not a number") from None
    made = [build(spec) for spec in _specifications(name, dims, mixture)]
    if not size:
        return made[0]
    best = made[0] if _apart(made[0], size) <= _APART else min(made, key=lambda one: _apart(one, size))
    if _apart(best, size) > _APART:
        raise NotExpressible(
            f"params_b={published}, but these dimensions make {best.parameters / 1e9:.3g}: experts (moe_experts, "
            "moe_topk), ffn_hidden, kv_heads or vocab is not as it should be"
        )
    return best


def _apart(model: Model, size: float) -> float:
    return abs(model.parameters / size - 1.0)


def _specifications(name: str, dims: tuple[int, ...], mixture: tuple[int, int]) -> list[Transformer]:
    """What the dimensions may be, the likeliest first."""
    layers, hidden, heads, kv_heads, ffn, vocab, sequence = dims
    experts, top_k = mixture
    plain = Transformer(
        name=name, layers=layers, hidden=hidden, heads=heads, kv_heads=kv_heads, ffn=ffn,
        vocab=vocab, sequence=sequence, experts=experts, top_k=top_k,
    )  # fmt: skip
    bare = replace(plain, norm_bias=False, qkv_bias=False, proj_bias=False, mlp_bias=False)
    gpt = replace(plain, family="gpt", dropout=True)
    llama = replace(
        bare, family="llama", gated=True, activation="silu", norm="rmsnorm", tied=False, position="rope"
    )
    mpt = replace(bare, family="mpt")
    family = next((kind for pattern, kind in _FAMILIES if re.search(pattern, name, re.IGNORECASE)), "")
    known = _of_catalog(name, plain)
    if known is not None and (experts or not family):
        return [known]
    of_family = {"gpt": gpt, "llama": llama, "mpt": mpt}.get(family)
    rest = [gpt, replace(gpt, tied=False), llama, replace(llama, tied=True)]
    return rest if of_family is None else [of_family, replace(of_family, tied=not of_family.tied)]


def _of_catalog(name: str, dims: Transformer) -> Transformer | None:
    """The catalog's model of that name, if it has these dimensions, with the row's sequence length."""
    try:
        spec = load_specification(re.sub(r"[\s_]+", "-", name.strip().lower()).replace("/", "-"))
    except ModelError:
        return None
    same = ("layers", "hidden", "heads", "experts", "top_k")
    if any(getattr(spec, field) != getattr(dims, field) for field in same):
        return None
    return replace(spec, sequence=dims.sequence)
