"""The number format of a quantised checkpoint, as its config.json states it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podsim.hardware.parts import Gpu

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
