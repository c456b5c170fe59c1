"""Rows of gpu_kernels in their sources' words -> GPU, kernel, precision and clock.

The packaged table (reference/) and a user's own files (`podsim validate --rows`) are read here, so that the same row gets
the same prediction.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from podsim.kernels.measured_kernels import kernel_rows

_DEVICES = {
    "a100 (paper: a100-sxm4-40gb)": "a100-sxm4-40gb",
    "v100 (paper: v100-sxm2-16gb)": "v100-sxm2-16gb",
    "a100-sxm4": "a100-sxm4-80gb",
    "a100-pcie": "a100-pcie-80gb",
    "a100": "a100-sxm4-80gb",
    "h100-sxm5": "h100-sxm5-80gb",
    "h200-sxm": "h200-sxm5-141gb",
    "h200-sxm-141gb": "h200-sxm5-141gb",
    "gh200 (141gb)": "h200-sxm5-141gb",
}
"""what published tables call a GPU -> its name in the catalog"""
_NOT_MODELLED = {
    "triton": "FlashAttention in Triton is not modelled",
    "attention xformers": "the attention kernel of xformers is not modelled",
    "attention cudnn": "the attention kernel of cuDNN is not modelled",
    "attention pytorch": "PyTorch's eager attention, softmax in 16 bits, is neither of the unfused ways modelled",
    "attention standard": "PyTorch's eager attention, softmax in 16 bits, is neither of the unfused ways modelled",
    "prefill, other": "the serving program ran another attention library than flash-attention",
    "group_matmul": "the row states no sizes in its columns",
    "sdp_fwd": "the rate counts arithmetic that a causal kernel skips: it exceeds the peak",
    "sdp_bwd": "the rate counts arithmetic that a causal kernel skips",
}


def kernel_cells(row: Mapping[str, str]) -> dict[str, str]:
    """The columns device, kernel, precision, accumulate, clock and reason of a row; TableError as kernel_rows."""
    gpu, notes = row["gpu"].strip().lower(), row.get("notes", "")
    cells = {"device": _DEVICES.get(gpu, gpu), "reason": ""}
    if row["op"].startswith("nccl "):
        return cells
    cells |= {
        "kernel": _kernel(row),
        "precision": "bf16" if row["dtype"] == "fp16/bf16" else row["dtype"].split(" ", maxsplit=1)[0],
        "accumulate": "yes" if "accumulate=True" in notes else "",
        "clock": "sustained" if re.search("sustained clock|long run", notes) else "",
    }  # fmt: skip
    if len(kernel_rows([{**row, **cells, "role": "calibrate"}])):
        cells["reason"] = _NOT_MODELLED.get(cells["kernel"], "")
    return cells


def _kernel(row: Mapping[str, str]) -> str:
    """podsim's name of a kernel: published labels of the same kernel become one."""
    op = row["op"].strip().lower()
    if flash := re.fullmatch(r"(?:attention )?flash(?:attention)?-?([123])", op):
        return f"flash{flash[1]}"
    if op == "prefill attention":  # of two serving programs, the one that runs the flash-attention library
        return "prefill" if "flash_attn" in row.get("notes", "") else "prefill, other"
    labels = {
        "attention flashattention triton": "triton", "matmul": "gemm",
        "gemm (max achievable over search)": "gemm, best of a search",
    }  # fmt: skip
    return labels.get(op, op)
