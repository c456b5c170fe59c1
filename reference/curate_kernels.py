"""Rows of kernels in their sources' words: GPU, kernel, precision and clock in canonical columns.

curated(rows)         canonical rows of gpu_kernels.csv.gz and its like, or of aiconfigurator's collected tables
kernel_cells(row)     the canonical cells of one row of the former
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from podsim.accuracy.tables import find_kind
from podsim.errors import TableError
from podsim.kernels.measured_kernels import kernel_rows
from reference.csv_rows import each_row
from reference.curate_collectives import collective_cells

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


def curated(rows: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The canonical rows of a table, as many and in order; those of engines name their operation in `op_name`."""
    if rows and "op_name" in rows[0]:
        return each_row(rows, tuple(find_kind("engines").columns), lambda row: {"id": row["id"]})
    return each_row(rows, tuple(find_kind("kernels").columns), row_cells)


def row_cells(row: Mapping[str, str]) -> dict[str, str]:
    """The canonical cells of a row of a kernel, or of a collective in a node."""
    if row["op"].lower().startswith("nccl "):
        return kernel_cells(row) | kernel_collective(row)
    try:
        return kernel_cells(row)
    except TableError as problem:
        return {"reason": str(problem).partition(": ")[2].partition(": ")[2] or str(problem)}


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


def kernel_collective(row: Mapping[str, str]) -> dict[str, str]:
    """A collective among kernels, in a node: aiconfigurator runs a thread for each GPU, of the NCCL in its path."""
    version = re.search(r"/nccl/(2\.\d+)", row["path"])
    cells = collective_cells(
        {
            **row,
            "system": "",
            "nodes": "1",
            "gpus": row["n_gpus"],
            "nics": "",
            "algo": "auto",
            "collective": row["op"].removeprefix("nccl "),
            "size_bytes": row["message_bytes"],
            "notes": f"threads, NCCL {version[1]}" if version else "",
        }
    )
    return {column: cells[column] for column in ("cluster", "launch", "nccl", "reason")}
