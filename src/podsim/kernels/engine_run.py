"""Who runs a kernel of an inference engine: its engine, release, kernel and number formats."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.errors import PodsimError, unknown_name
from podsim.hardware.parts import Gpu
from podsim.kernels.gemm import PRECISION_NAMES, peak_of

FORMATS = {
    "bfloat16": "bf16", "bf16": "bf16", "float16": "fp16", "half": "fp16", "fp16": "fp16", "fp8": "fp8", "auto": "bf16",
    "fp8_e4m3": "fp8", "fp8_block": "fp8_block", "mxfp8": "mxfp8", "nvfp4": "nvfp4", "int8": "int8", "int8_wo": "int8_wo",
    "int4_wo": "int4_wo", "sq": "int8", "w4a16_mxfp4": "w4a16_mxfp4", "w4a8_mxfp4_mxfp8": "w4a8_mxfp4_mxfp8",
    "fp8_static": "fp8", "w4afp8": "w4afp8", "w4a8_mxfp4_fp8": "w4a8_mxfp4_mxfp8",
}  # fmt: skip
"""What engines call a number format -> its name here."""


@dataclass(frozen=True, kw_only=True)
class EngineRun:
    """The engine and kernel that ran, and its number formats."""

    engine: str
    """The engine: trtllm or vllm."""
    release: str = ""
    kernel: str = ""
    """The source of the kernel, such as "vllm_flash_attn_fa3"; "" is the engine's usual one."""
    precision: str = "bf16"
    """The number format of the arithmetic, a value of FORMATS."""
    cache: str = ""
    """The number format of keys and values in the cache; "" is that of the arithmetic."""


_BYTES = {
    "fp64": 8.0, "fp32": 4.0, "tf32": 4.0, "int4": 0.5,
    "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "fp8_block": 1.0, "mxfp8": 1.03, "nvfp4": 0.56, "int8": 1.0, "int8_wo": 1.0,
    "int4_wo": 0.53, "int8_sq": 1.0, "w4a16_mxfp4": 0.53, "w4a8_mxfp4_mxfp8": 0.53, "w4afp8": 0.53,
}  # fmt: skip
"""Number format -> B of a weight with its scales."""
_PEAKS = {
    "bf16": "bf16", "fp16": "fp16", "nvfp4": "fp4", "int8": "int8", "int8_sq": "int8", "int8_wo": "bf16",
    "int4_wo": "bf16", "w4a16_mxfp4": "bf16", **{name: name for name in ("fp32", "tf32", "int4")},
}  # fmt: skip
"""Number format -> the arithmetic it runs in, if that is not fp8."""


def format_bytes(precision: str) -> float:
    """B of an element of a number format with its scales; "" is bf16."""
    return _BYTES[precision or "bf16"]


def format_peak(gpu: Gpu, precision: str) -> float:
    """FLOP/s of the arithmetic of a number format; PodsimError where the GPU has none."""
    if precision == "fp64":
        return peak_of(gpu, precision)
    arithmetic = _PEAKS.get(precision or "bf16", "fp8")
    if arithmetic not in gpu.peaks:
        raise PodsimError(f"{gpu.name} has no {arithmetic} arithmetic; it has {', '.join(gpu.peaks)}")
    return gpu.peaks[arithmetic]


def attention_peak(gpu: Gpu, run: EngineRun) -> float:
    """FLOP/s of the products of prefill: queries take the format of a narrower cache, where the GPU computes in it."""
    narrow = _PEAKS.get(run.cache, "fp8") if run.cache else ""
    return max(format_peak(gpu, run.precision), gpu.peaks.get(narrow, 0.0))


def precision_name(text: str) -> str:
    """The name of a number format that an engine writes; PodsimError for another."""
    if text not in FORMATS:
        raise PodsimError(unknown_name("number format", text[:40], FORMATS))
    return FORMATS[text]


def library_precision(text: str) -> str:
    """The precision of a library's kernel by its name on a GPU's data sheet, or an engine's; PodsimError for another."""
    name = {"fp64_tensor": "fp64", "fp4": "nvfp4"}.get(text.lower(), text.lower())
    return name if name in PRECISION_NAMES else precision_name(text)
