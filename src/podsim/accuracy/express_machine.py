"""The machine that a row of a table describes, in the words of its source: a node of the catalog and its adapters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from podsim.accuracy.express_row import read_settings, write_settings
from podsim.hardware.cluster import Cluster, load_cluster

# GPU and system as sources write them -> system of the catalog, the first whose two patterns are found
_NODES = (
    (r"A100.*\b40 ?GB", r"NDv4|ND A100 v4|ND96asr", "azure-ndv4-40gb"),
    (r"A100", r"NDv4|ND A100 v4|ND96amsr", "azure-ndv4-80gb"),
    (r"A100", r"\bp4de\b", "aws-p4de"),
    (r"A100", r"\bp4d\b", "aws-p4d"),
    (r"A100", r"BM\.GPU4\.8", "oci-bm-gpu4-8"),
    (r"A100", r"BM\.GPU\.A100-v2\.8", "oci-bm-gpu-a100-v2-8"),
    (r"A100", r"A100 PCIe NV12", "a100-pcie-pair"),
    (r"A100[- ]?PCIe[- ]?40", "", "a100-pcie-40gb-server"),
    (r"A100[- ]?PCIe", "", "a100-pcie-server"),
    (r"A100(-SXM4?)?[- ]40 ?GB", "", "dgx-a100-40gb"),
    (r"\bA100", "", "dgx-a100-80gb"),
    (r"\bA800", "", "hgx-a800"),
    (r"V100.*450 ?W", "", "dgx-2h"),
    (r"V100", r"DGX-2H", "dgx-2h"),
    (r"V100-SXM3", "", "dgx-2"),
    (r"V100", r"DGX-2\b", "dgx-2"),
    (r"V100.*\b32 ?GB", "", "dgx-1-v100-32gb"),
    (r"\bV100", "", "dgx-1-v100-16gb"),
    (r"H100.*\b96 ?GB", "", "grand-teton-h100-96gb"),
    (r"H100", r"Grand Teton", "grand-teton-h100"),
    (r"\bH100(?!.*(PCIe|NVL\b))", "", "dgx-h100"),
    (r"\bH200(?!.*(PCIe|NVL\b))", "", "dgx-h200"),
    (r"\bH800", "", "hgx-h800"),
    (r"\bH20\b", "", "hgx-h20"),
    (r"\bB200", "", "dgx-b200"),
    (r"\bL40S\b", "", "l40s-server"),
)
_RATES = {"HDR200": 200, "NDR400": 400, "HDR100": 100, "EDR": 100, "NDR": 400, "HDR": 200}
"""Gb/s of an InfiniBand adapter, in the order in which they are looked for"""
_GIGABITS = r"(\d+)\s*G(?:b|bit|bE|bps)?(?:/s)?\b"
"""a rate as rows of Ethernet and EFA adapters give it: 100GbE, 200 Gb/s, 400G"""


def node_of(gpu: str, system: str = "", memory: str = "") -> str | None:
    """The catalog's name of a node with such GPUs, or None; `memory` is GB a GPU where `gpu` does not say it."""
    text = gpu
    if memory and not re.search(r"\d ?GB", gpu):
        text += f"-{memory.split('.', maxsplit=1)[0]}GB"
    return next(
        (
            name
            for pattern, where, name in _NODES
            if re.search(pattern, text, re.IGNORECASE) and re.search(where, system, re.IGNORECASE)
        ),
        None,
    )


def network_of(text: str, gpus: int) -> dict[str, str]:
    """Overrides that a description of a node's network stands for, such as "4x100Gb/s RoCE"; those that it states.

    `gpus` are those of a node: "400 Gb/s per GPU" is that many adapters, "1600 Gb/s per node" at most.
    """
    out: dict[str, str] = {}
    if match := re.search(r"(\d+)\s*x\s*" + _GIGABITS, text):
        out = {"network.nics": match[1], "network.bandwidth": f"{match[2]} Gb/s"}
    elif match := re.search(_GIGABITS + r"\s*(?:/node|inter-node|per node)", text):
        adapters = max(1, min(gpus, int(match[1]) // 200))
        out = {"network.nics": str(adapters), "network.bandwidth": f"{int(match[1]) // adapters} Gb/s"}
    elif match := re.search(_GIGABITS + r"\s*per GPU", text):
        out = {"network.nics": str(gpus), "network.bandwidth": f"{match[1]} Gb/s"}
    else:
        told = re.search(_GIGABITS, text)
        rate = next((value for name, value in _RATES.items() if name in text), int(told[1]) if told else 0)
        count = re.search(r"\b(\d+)\s*x", text)
        if count and rate:
            out["network.nics"] = count[1]
        if rate:
            out["network.bandwidth"] = f"{rate} Gb/s"
    for name, fabric in (("RoCE", "roce"), ("EFA", "efa")):
        if name in text:
            out["fabric"] = fabric
    return out


def cluster_settings(node: str, gpus: int, network: Mapping[str, str]) -> str:
    """The text for `read_cluster`: nodes for so many GPUs, the last one whole, and overrides of the network."""
    each = read_cluster(f"{node}:1").gpus_per_node
    return write_settings(f"{node}:{-(-gpus // each)}", network)


@lru_cache(maxsize=512)
def read_cluster(settings: str) -> Cluster:
    """The cluster that a text such as "dgx-a100-80gb:2 network.nics=4" describes; ClusterError where that cannot be."""
    name, overrides = read_settings(settings)
    return load_cluster(name, overrides)
