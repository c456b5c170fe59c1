"""Profiles in the documented format of Kineto, made up for the tests: two steps of a small step on one GPU.

A step: the host launches four forward kernels, a thread of autograd two backward ones and an all-reduce of the tensor
group beside the second, then Adam inside Optimizer.step, a copy, and a pause.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

STEP = 1000.0
"""us from one step to the next"""
GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
FLASH = "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>(Flash_fwd_params)"
NORM = (
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float)"
)
GELU = "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>(int)"
REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ADAM = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor>"
# name, launched at, by thread, runs from, for, on stream (us after the step's begin)
OPS: tuple[tuple[str, float, int, float, float, int], ...] = (
    (NORM, 10, 1, 100, 50, 7), (GEMM, 20, 1, 150, 100, 7), (FLASH, 30, 1, 250, 50, 7), (GELU, 40, 1, 300, 50, 7),
    (GEMM, 200, 2, 400, 100, 7), (GEMM, 210, 2, 500, 100, 7), (REDUCE, 215, 2, 550, 100, 20),
    (ADAM, 320, 1, 700, 100, 7), ("Memcpy DtoH (Device -> Pinned)", 350, 1, 850, 10, 7),
)  # fmt: skip


def events(steps: int = 2, named: bool = True) -> list[dict[str, Any]]:
    """Events of some steps, in no order that a reader may rely on."""
    found: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "ts": 0, "args": {"name": "python"}}
    ]
    correlation = 0
    for step in range(steps):
        base = 5000.0 + STEP * step
        if named:
            found.append(_event("user_annotation", f"ProfilerStep#{step + 3}", base, 600, 1))
        found.append(_event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", base + 190, 80, 2))
        found.append(_event("user_annotation", "Optimizer.step#AdamW.step", base + 310, 30, 1))
        for name, at, thread, start, length, stream in OPS:
            correlation += 1
            launch = _event("cuda_runtime", "cudaLaunchKernel", base + at, 4, thread)
            found.append({**launch, "args": {"correlation": correlation, "External id": correlation}})
            held: dict[str, Any] = {"device": 0, "stream": stream, "correlation": correlation}
            if name == REDUCE:
                held |= {
                    "Collective name": "allreduce",
                    "Process Group Description": "TENSOR_MODEL_PARALLEL_GROUP",
                }
            kind = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
            found.append({**_event(kind, name, base + start, length, stream), "pid": 0, "args": held})
    found.append({"ph": "s", "id": 1, "pid": 0, "tid": 7, "ts": 1, "cat": "ac2g", "name": "ac2g"})
    return found


def _event(kind: str, name: str, start: float, length: float, thread: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": kind,
        "name": name,
        "pid": 4242,
        "tid": thread,
        "ts": start,
        "dur": length,
        "args": {},
    }


def profile(held: list[dict[str, Any]]) -> dict[str, Any]:
    """The file's object around its events."""
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85049802752}],
        "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},
        "traceEvents": held,
        "traceName": "made up",
    }


def write(path: Path, held: list[dict[str, Any]] | None = None) -> Path:
    """A file of a profile."""
    path.write_text(json.dumps(profile(events() if held is None else held), indent=1), "utf-8")
    return path
