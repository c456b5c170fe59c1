"""GPUs, machines, networks and models as users and sources write them -> names and settings of the catalog."""

from __future__ import annotations

import re
from collections.abc import Mapping

from podsim.accuracy.measured_runs import (
    NotExpressible,
    cell_text,
    read_cluster,
    read_count,
    read_model,
    write_settings,
)
from podsim.errors import ModelError
from podsim.hardware.cluster_names import MOST_NODES
from podsim.workload.catalog import load_specification
from podsim.workload.model import Model

# GPU (with - between words) and system as sources write them -> system of the catalog, the first whose patterns are found
_NODES = (
    (r"A100", r"\bvTrain\b", "vtrain-a100"),
    (r"A100", r"Jean Zay", "jean-zay-a100"),
    (r"A100.*\b40GB", r"NDv4|ND A100 v4|ND96asr", "azure-ndv4-40gb"),
    (r"A100", r"NDv4|ND A100 v4|ND96amsr", "azure-ndv4-80gb"),
    (r"A100", r"\bp4de\b", "aws-p4de"),
    (r"A100", r"\bp4d\b", "aws-p4d"),
    (r"A100", r"BM\.GPU4\.8", "oci-bm-gpu4-8"),
    (r"A100", r"BM\.GPU\.A100-v2\.8", "oci-bm-gpu-a100-v2-8"),
    (r"A100", r"HPE Cray EX|Polaris|Sirius", "hpe-cray-ex-a100"),
    (r"A100", r"A100 PCIe NV12", "a100-pcie-pair"),
    (r"(?=.*A100)(?=.*PCIe)(?=.*\b40GB)", "", "a100-pcie-40gb-server"),
    (r"(?=.*A100)(?=.*PCIe)", "", "a100-pcie-server"),
    (r"(?=.*\bA100)(?=.*(A100(-SXM4?)?-40GB|\b40GB-A100|\b40GB-SXM))", "", "dgx-a100-40gb"),
    (r"\bA100", "", "dgx-a100-80gb"),
    (r"\bA800", "", "hgx-a800"),
    (r"(?=.*V100)(?=.*PCIe)(?=.*32GB)", "", "v100-pcie-32gb-server"),
    (r"(?=.*V100)(?=.*PCIe)", "", "v100-pcie-16gb-server"),
    (r"V100.*450W", "", "dgx-2h"),
    (r"V100", r"DGX-2H", "dgx-2h"),
    (r"V100-SXM3", "", "dgx-2"),
    (r"V100", r"DGX-2\b", "dgx-2"),
    (r"V100.*\b32GB", "", "dgx-1-v100-32gb"),
    (r"\bV100", "", "dgx-1-v100-16gb"),
    (r"H100.*\b96GB", "", "grand-teton-h100-96gb"),
    (r"H100", r"Grand Teton", "grand-teton-h100"),
    (r"(?=.*\bH100)(?=.*PCIe)", r"^(?!.*bridge)", "h100-pcie-80gb-server"),
    (r"\bH100(?!.*(PCIe|NVL\b))", "", "dgx-h100"),
    (r"\bH200(?!.*(PCIe|NVL\b))", "", "dgx-h200"),
    (r"\bH800", "", "hgx-h800"),
    (r"\bH20\b", "", "hgx-h20"),
    (r"\bB200", "", "dgx-b200"),
    (r"\bB300", "", "dgx-b300"),
    (r"\bGB200", "", "gb200-nvl72"),
    (r"\bGB300", "", "gb300-nvl72"),
    (r"\bL40S\b", "", "l40s-server"),
    (r"\bL40\b", "", "l40-server"),
    (r"\bL4\b", "", "l4-server"),
    (r"\bA30\b", "", "a30-server"),
    (r"\bA40\b", "", "a40-server"),
    (r"\bA10\b", "", "a10-server"),
    (r"\bT4\b", "", "t4-server"),
    (r"6000-Ada", "", "rtx-6000-ada-server"),
    (r"\bA6000\b", "", "rtx-a6000-server"),
    (r"RTX-?8000", "", "rtx-8000-server"),
    (r"RTX-?4090|^4090", "", "rtx-4090-server"),
    (r"RTX-?3090(?!-?Ti)|^3090", "", "rtx-3090-server"),
    (r"2080-?Ti", "", "rtx-2080-ti-server"),
)
_MOST_CARDS = 10
"""PCIe cards of the largest servers"""
_RATES = (
    (r"XDR", 800), (r"HDR100|EDR", 100), (r"NDR200|HDR", 200), (r"NDR", 400), (r"(?:ConnectX|CX)-?8", 800),
    (r"(?:ConnectX|CX)-?7", 400), (r"(?:ConnectX|CX)-?6|Slingshot[- ]?11|Cassini", 200),
    (r"(?:ConnectX|CX)-?5|Slingshot[- ]?10|Omni-Path|\bEFA", 100), (r"Slingshot", 200),
)  # fmt: skip
"""Adapter by name -> Gb/s, the first that a text has; what the text says in numbers counts before it."""
_RATE = r"(\d{1,15}(?:\.\d{1,3})?)\s*(?:(T)(?:b|bit|bps)|G(?:b|bit|bE|bps)?)(?:/s|ps)?\b"
"""The rate of adapters: 100GbE, 200 Gb/s, 400G, 3.2 Tb/s."""
_COUNTS = (
    r"\b(\d{1,6})\s*x\s*(?=[A-Za-z\d(])",
    r"\b(\d{1,6})\s+(?:[A-Za-z][\w-]*\s+){0,3}(?:NICs?|HCAs?|adapters?|rails?)\b",
    r"\bx\s*(\d{1,6})\b",
)
"""The number of a node's adapters: 4x HDR200, 8 NDR adapters, 400G x8."""
_NUMBERS = {"one": "1", "single": "1", "two": "2", "four": "4", "eight": "8", "sixteen": "16"}
_MOST = 800
"""Gb/s. The fastest adapter; a higher rate is that of all adapters of a node."""
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
"""Kind of transformer -> a model of the catalog that differs from it in widths only."""
_OTHER = {"gpt": "gpt, own head", "llama": "llama, no head", "mpt": "mpt, own head"}
_NAMED = re.compile(
    r"(?P<name>[\w.-]+)(?:\s+[\d.]+[BT])?(?:\s*\((?P<layers>\d{1,15}) layers\))?", re.IGNORECASE
)
_LONGEST_NAME = 200
"""characters of a GPU's or system's name that are read"""
_NOTABLE = 0.05
"""The relative error of a size from which on a prediction says it."""
_APART = 0.25
"""The relative error allowed against a published size: tables round it, or leave embeddings out."""


def find_node(gpu: str, system: str = "", memory: str = "") -> str | None:
    """The catalog name of a node with such GPUs, or None; `memory` is GB per GPU if `gpu` does not state it."""
    gpu, system = gpu[:_LONGEST_NAME], system[:_LONGEST_NAME]
    text = re.sub(r"^\d+ ?[x*] ?(?=\D)", "", gpu.strip())
    text = re.sub(r"(\d) ?(G)i?B?\b", r"\1GB", re.sub(r"[\s_,/()+:]+", "-", text), flags=re.IGNORECASE)
    of_system = re.search(r"\b(16|32|40|80) ?GB", system)
    if not re.search(r"\dGB", text, re.IGNORECASE) and (memory or of_system):
        text += f"-{memory.split('.', maxsplit=1)[0] if memory else of_system and of_system[1]}GB"
    return next(
        (
            name
            for pattern, where, name in _NODES
            if re.search(pattern, text, re.IGNORECASE) and re.search(where, system, re.IGNORECASE)
        ),
        None,
    )


def read_adapters(text: str, gpus: int) -> dict[str, str]:
    """Overrides for the network that a text states, such as "4x100Gb/s RoCE".

    `gpus` are those of a node: "400 Gb/s per GPU" is that many adapters, "1600 Gb/s per node" at most.
    """
    text = re.sub(r"\b(\w+)(?= [A-Za-z\d])", lambda word: _NUMBERS.get(word[1].lower(), word[1]), text)
    text = re.sub(r"PCIe\b[^,;(]*|NVLink[^,;(]*", "", text.replace("\u00d7", "x"))
    count = next((int(match[1]) for pattern in _COUNTS if (match := re.search(pattern, text))), 0)
    sold = next((rate for name, rate in _RATES if re.search(name, text)), 0)
    stated = re.search(_RATE, text)
    in_bytes = re.search(r"(\d{1,3})\s*GB(?:/s|ps)\b", text)
    rate = sold or (8 * int(in_bytes[1]) if in_bytes else 0)
    if stated:
        rate = round(float(stated[1]) * (1000 if stated[2] else 1))
    of_node = stated and re.match(r"\s*(?:/node|inter-node|per node)", text[stated.end() :])
    if count and (rate > _MOST or (of_node and rate == count * sold)):
        rate //= count
    elif not count and (of_node or rate > _MOST or (sold == 100 < rate and "EFA" in text)):
        count = rate // 100 if "EFA" in text else max(1, min(gpus, rate // 200))
        rate //= count
    elif count < 2 and re.search(r"per GPU|/GPU|each GPU", text):
        count = gpus
    out = {"network.nics": str(count)} if count and rate else {}
    out |= {"network.bandwidth": f"{rate} Gb/s"} if rate else {}
    for name, fabric in (("RoCE|gIB|Spectrum-X", "roce"), ("EFA", "efa")):
        if re.search(name, text):
            out["fabric"] = fabric
    return out


def cluster_settings(node: str, gpus: int, network: Mapping[str, str], each: int = 0) -> str:
    """Settings for `read_cluster`: enough whole nodes for the GPUs, and overrides of the network.

    `each`: the GPUs of a node, 0 where that is not stated. Nodes of more than the catalog's, or several of fewer, are as
    stated, with their share of the adapters; servers of up to ten cards are one node.
    """
    system = read_cluster(f"{node}:1").system
    each = each or (gpus if system.gpus < gpus <= _MOST_CARDS and not system.gpu.nvlinks else 0)
    if (
        each
        and system.trays == 1
        and gpus % each == 0
        and (each > system.gpus or each < min(gpus, system.gpus))
    ):
        nics = {"network.nics": str(max(1, system.nics * each // system.gpus))} if system.nics else {}
        return write_settings(f"{node}:{gpus // each}", {"gpus_per_node": each, **nics, **network})
    nodes = -(-gpus // system.gpus)
    if system.trays > 1:  # as many trays of each rack
        racks = min(-(-gpus * system.trays // system.gpus), MOST_NODES)
        nodes = read_cluster(f"{node}:{racks}").subset(gpus).nodes
    return write_settings(f"{node}:{nodes}", network)


def model_settings(row: Mapping[str, str]) -> str:
    """Settings for `read_model`; NotExpressible if the dimensions contradict the stated size."""
    if not cell_text(row, "layers"):
        return _catalog_model_settings(row.get("model", ""), read_count(row, "seq_len"))
    name = row.get("model", "model")
    widths = {
        "layers": read_count(row, "layers"),
        "hidden": read_count(row, "hidden"),
        "heads": read_count(row, "heads"),
        "kv_heads": read_count(row, "kv_heads", read_count(row, "heads")),
        "ffn": read_count(row, "ffn_hidden", 4 * read_count(row, "hidden")),
        "vocab": read_count(row, "vocab"),
        "sequence": read_count(row, "seq_len"),
    }
    if cell_text(row, "dec_layers") not in ("", "0"):
        return _nearest_in_size(_encoder_decoder_settings(row, widths), cell_text(row, "params_b"))
    if re.search(r"\bm?t5\b", name, re.IGNORECASE):
        raise NotExpressible(f"model={name!r} has an encoder and a decoder, and dec_layers is not given")
    experts = 0 if cell_text(row, "moe_experts") == "0" else read_count(row, "moe_experts", 1)
    if experts > 1:
        widths |= {"experts": experts, "top_k": read_count(row, "moe_topk")}
    return _nearest_in_size(_candidate_settings(name, widths), cell_text(row, "params_b"))


def _encoder_decoder_settings(row: Mapping[str, str], widths: Mapping[str, int]) -> list[str]:
    """Settings of an encoder of `layers` and a decoder, gated or not; a blank dec_seq_len is as many tokens."""
    both = {
        **widths,
        "encoder_layers": widths["layers"],
        "layers": read_count(row, "dec_layers"),
        "head_dim": widths["hidden"] // widths["heads"],
        "decoder_sequence": read_count(row, "dec_seq_len", widths["sequence"]),
    }
    return [
        f"{base} {write_settings('', both)}"
        for base in ("t5-11b", "t5-11b gated=true", "t5-11b gated=true tied=false")
    ]


def _catalog_model_settings(text: str, sequence: int) -> str:
    """Settings of a named model, such as "llama3-70b", "DeepSeek-V2 236B" or "llama3-70b (12 layers)"."""
    name = text.strip().replace("_", "-")
    known = _NAMED.fullmatch(name) or _NAMED.fullmatch(re.sub(r"\s+(?!\()", "-", name))
    layers = {"layers": known["layers"]} if known and known["layers"] else {}
    settings = write_settings(known["name"] if known else "", {"sequence": sequence, **layers})
    try:
        read_model(settings)
    except ModelError:
        raise NotExpressible(f"layers is not given, and model={text!r} is none of the catalog") from None
    return settings


def _nearest_in_size(candidates: list[str], published: str) -> str:
    """The likeliest candidate of the published size (10^9 parameters); the first if no size is given."""
    try:
        size = float(published or "0") * 1e9
    except ValueError:
        raise NotExpressible(f"params_b={published!r} is not a number") from None
    if not size:
        return candidates[0]
    decimals = len(published.partition(".")[2])
    rounding = 0.5e9 / 10**decimals  # sizes that the stated digits do not tell apart are equally near
    apart = [max(abs(read_model(each).parameters - size) - rounding, 0.0) / size for each in candidates]
    best = apart.index(min(apart))
    if apart[best] > _APART:
        raise NotExpressible(
            f"params_b={published}, but these dimensions make {read_model(candidates[best]).parameters / 1e9:.3g}: "
            "experts (moe_experts, moe_topk), ffn_hidden, kv_heads or vocab is not as it should be"
        )
    return candidates[best]


def size_remark(model: Model, published: str) -> str:
    """What to say of a model whose size is over 5 % off the published one (10^9 parameters); "" otherwise."""
    size = float(published or 0) * 1e9
    if not size or abs(model.parameters / size - 1.0) <= _NOTABLE:
        return ""
    return f"a model of {model.parameters / 1e9:.3g} of the stated {published} x 10^9 parameters"


def _candidate_settings(name: str, widths: Mapping[str, int]) -> list[str]:
    """Settings of the models that fit the dimensions, the likeliest first."""
    family = next((kind for pattern, kind in _FAMILIES if re.search(pattern, name, re.IGNORECASE)), "")
    known = _catalog_settings(name, widths)
    if known and ("experts" in widths or not family):
        return [known]
    kinds = [family, _OTHER[family]] if family else ["gpt", "gpt, own head", "llama", "llama, no head"]
    return [write_settings(_BASES[kind], widths) for kind in kinds]


def _catalog_settings(name: str, widths: Mapping[str, int]) -> str:
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
