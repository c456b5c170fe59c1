"""Options of one kernel on one GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass

from podsim.options.question import option, overrides_option

KERNELS = ("gemm", "attention", "decode", "mla", "mla-decode", "moe", "norm", "elementwise")


@dataclass(frozen=True, kw_only=True)
class KernelOptions:
    """A kernel, its sizes, and what runs it."""

    kernel: str = option(
        MISSING,
        "gemm, attention, decode, mla, mla-decode, moe, norm or elementwise.",
        choices=KERNELS,
        argument=True,
    )
    shape: str = option(
        MISSING,
        "gemm: MxNxK; attention, mla: BATCHxTOKENS; decode, mla-decode: BATCHxKEYS; moe: TOKENS; norm, elementwise: "
        "ROWSxWIDTH.",
        argument=True,
    )
    on: str = option(MISSING, "GPU: h100, h200-sxm5-141gb.")
    engine: str = option("", "trtllm or vllm; default trtllm, for gemm the GPU's library alone.")
    release: str = option(
        "", "Release of the engine, as its tables name it; shown, and compared with the measured ones."
    )
    source: str = option("", "Source of the engine's kernel: vllm_flash_attn_fa3.")
    dtype: str = option("bf16", "Number format: bf16, fp8, fp8_block, nvfp4, int8_wo, w4a16_mxfp4.")
    cache: str = option("", "Number format of keys and values: bf16 or fp8; default bf16.")
    heads: int = option(32, "Query heads; of mla those of one GPU.")
    kv_heads: int | None = option(None, "Heads of keys and values; default as many as query heads.")
    head_dim: int = option(128, "Width of a head.")
    window: int = option(0, "Keys that a query sees at most; 0: all.")
    hidden: int = option(4096, "moe: width of a token.")
    inner: int = option(2048, "moe: inner width of an expert.")
    experts: int = option(128, "moe: experts of the layer.")
    top: int = option(8, "moe: experts that a token chooses.")
    tp: int = option(1, "moe: GPUs that an expert is divided over.")
    ep: int = option(1, "moe: GPUs that the experts are dealt to.")
    skew: float = option(
        0.0, "moe: exponent of the power law of tokens over experts; 0: even, measured: 1.01 and 1.2."
    )
    overrides: Mapping[str, str] | None = overrides_option("memory_bandwidth=4TB/s")
