"""The language model that a user's row describes, as a model of the catalog and what differs from it.

A row states widths, not what kind of transformer they are of. The name tells for the commonest families; for any other,
the catalog where it knows the name, else the published size: it is what gated MLPs, a head of its own and experts change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from podsim.accuracy.express_row import NotExpressible, read_settings, stated, whole, write_settings
from podsim.errors import ModelError
from podsim.workload.catalog import load_model, load_specification
from podsim.workload.graph import Model

_FAMILIES = (
    (r"llama|internlm|mi[sx]tral|qwen|deepseek|baichuan|\byi\b|vicuna|gemma|olmo|grok|dbrx|phi-?3", "llama"),
    (r"mpt", "mpt"),
    (r"gpt(?!-?neox|-?j)", "gpt"),
)
_BASES = {
    "gpt": "gpt-22b tied=true",
    "gpt, own head": "gpt-22b tied=false",
    "llama": "llama-7b tied=false",
    "llama, no head": "llama-7b tied=true",
    "mpt": "mpt-7b position=learned tied=true",
    "mpt, own head": "mpt-7b position=learned tied=false",
}
"""kind of transformer -> a model of the catalog that differs from it in widths only"""
_OTHER = {"gpt": "gpt, own head", "llama": "llama, no head", "mpt": "mpt, own head"}
_NAMED = re.compile(r"(?P<name>[\w.-]+)(?:\s+[\d.]+[BT])?(?:\s*\((?P<layers>\d+) layers\))?", re.IGNORECASE)
_APART = 0.25
"""by which a model may miss the published size: tables round it, or leave embeddings out"""


@lru_cache(maxsize=512)
def read_network(settings: str) -> Model:
    """The model that a text such as "gpt-22b layers=96 sequence=4096" describes: a catalog name and its overrides."""
    name, overrides = read_settings(settings)
    return load_model(name, overrides)


def network_settings(row: Mapping[str, str]) -> str:
    """The text for `read_network`; NotExpressible where the dimensions do not make a model of the size stated."""
    if not stated(row, "layers"):
        return _named(row.get("model", ""), whole(row, "seq_len"))
    name = row.get("model", "model")
    widths = {
        "layers": whole(row, "layers"),
        "hidden": whole(row, "hidden"),
        "heads": whole(row, "heads"),
        "kv_heads": whole(row, "kv_heads", whole(row, "heads")),
        "ffn": whole(row, "ffn_hidden", 4 * whole(row, "hidden")),
        "vocab": whole(row, "vocab"),
        "sequence": whole(row, "seq_len"),
    }
    experts = 0 if stated(row, "moe_experts") == "0" else whole(row, "moe_experts", 1)
    if experts > 1:
        widths |= {"experts": experts, "top_k": whole(row, "moe_topk")}
    return _sized(_candidates(name, widths), stated(row, "params_b"))


def _named(text: str, sequence: int) -> str:
    """A model of the catalog, as "llama3-70b", "DeepSeek-V2 236B" or "llama3-70b (12 layers)"."""
    known = _NAMED.fullmatch(text.strip())
    layers = {"layers": known["layers"]} if known and known["layers"] else {}
    settings = write_settings(known["name"] if known else "", {"sequence": sequence, **layers})
    try:
        read_network(settings)
    except ModelError:
        raise NotExpressible(f"layers is not given, and model={text!r} is none of the catalog") from None
    return settings


def _sized(candidates: list[str], published: str) -> str:
    """The likeliest candidate of the published size (10^9 parameters); the first where no size is given."""
    try:
        size = float(published or "0") * 1e9
    except ValueError:
        raise NotExpressible(f"params_b={published!r} is not a number") from None
    if not size:
        return candidates[0]
    distances = [abs(read_network(each).parameters / size - 1.0) for each in candidates]
    best = 0 if distances[0] <= _APART else distances.index(min(distances))
    if distances[best] > _APART:
        raise NotExpressible(
            f"params_b={published}, but these dimensions make {read_network(candidates[best]).parameters / 1e9:.3g}: "
            "experts (moe_experts, moe_topk), ffn_hidden, kv_heads or vocab is not as it should be"
        )
    return candidates[best]


def _candidates(name: str, widths: Mapping[str, int]) -> list[str]:
    """Texts of the models that the dimensions may be, the likeliest first."""
    family = next((kind for pattern, kind in _FAMILIES if re.search(pattern, name, re.IGNORECASE)), "")
    known = _of_catalog(name, widths)
    if known and ("experts" in widths or not family):
        return [known]
    kinds = [family, _OTHER[family]] if family else ["gpt", "gpt, own head", "llama", "llama, no head"]
    return [write_settings(_BASES[kind], widths) for kind in kinds]


def _of_catalog(name: str, widths: Mapping[str, int]) -> str:
    """The catalog's model of that name with the row's sequence length; "" if it has other dimensions."""
    known = re.sub(r"[\s_]+", "-", name.strip().lower()).replace("/", "-")
    try:
        spec = load_specification(known)
    except ModelError:
        return ""
    compared = ("layers", "hidden", "heads", "experts", "top_k")
    if any(getattr(spec, field) != widths.get(field, 0) for field in compared):
        return ""
    return write_settings(known, {"sequence": widths["sequence"]})
