"""Frameworks and their eras: what a training framework adds to the hardware's own speed.

The same GPU gained 24 % in eight months of software, so the era is part of every plan, named and documented, never
a silent factor. Values stand in `software.toml`, each entry with its source; the ones marked fitted come from
end-to-end measurements with role `calibrate`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any

from podsim.errors import CatalogError, unknown_name

__all__ = ["Software", "load_software", "software_names"]


@dataclass(frozen=True, kw_only=True)
class Software:
    """One framework in one era."""

    name: str
    title: str
    source: str
    evidence: str = ""
    """which rows the fitted values come from, and the residual"""
    gemm_speed: float = 1.0
    """speed of a GEMM inside a long training run, relative to the kernel law (short bursts): sustained clocks, era of cuBLAS"""
    attention_speed: float = 1.0
    """the same for the attention kernels"""
    memory_speed: float = 1.0
    """the same for memory-bound kernels"""
    collective_speed: float = 1.0
    """bandwidth of collectives inside a step, relative to the collective law (nccl-tests, idle GPUs)"""
    flash: str = "flash2"
    """attention kernel when the plan says flash: flash1, flash2, flash3"""
    fused_softmax: bool = True
    """scale, mask and softmax of unfused attention are one kernel"""
    elementwise_traffic: float = 1.0
    """bytes of bias, activation, dropout and residual kernels, relative to fully fused ones"""
    norm_traffic: float = 1.0
    """bytes of norms, relative to one fused kernel"""
    host_kernel: float = 0.0
    """s of host time to launch one kernel"""
    host_collective: float = 0.0
    """s of host time to launch one collective or send"""
    host_pass: float = 0.0
    """s of host time for one pass of one micro-batch through a stage"""
    host_step: float = 0.0
    """s a step takes besides its passes: data, loss scale, gradient norm, optimizer launch, logging"""
    gradient_bytes: float = 4.0
    """B per parameter that the data-parallel group reduces"""
    gradient_memory: float = 4.0
    """B per parameter of stored gradients"""
    optimizer_traffic: float = 34.0
    """B of memory traffic per parameter of the Adam step (read and write master, moments, gradient; write weights; norm)"""
    logit_bytes: float = 10.0
    """B held per logit: low precision, fp32 copy, gradient"""
    scatter_gather: bool = True
    """pipeline sends are split over the TP group and gathered on the other side"""
    pipeline_overlap: bool = False
    """pipeline sends run beside the passes"""
    tp_overlap: float = 0.0
    """share of a backward tensor-parallel all-reduce that its weight-gradient GEMM hides"""
    async_tp: float = 0.7
    """share of tensor-parallel collectives hidden when the plan says overlap_tp"""
    can_overlap: tuple[str, ...] = ("overlap_grad", "overlap_param", "overlap_tp")
    """which overlaps of a plan this framework has"""
    contention: float = 0.1
    """share by which compute slows while a collective runs beside it"""
    nccl: str = "2.18"
    memory_floor: float = 2.0e9
    """B of CUDA context, libraries, workspaces and communicators"""
    fragmentation: float = 0.0
    """share of activation memory lost to fragmentation"""
    expert_imbalance: float = 1.1
    """tokens of the busiest expert rank over the mean"""


@cache
def _catalog() -> Mapping[str, Software]:
    raw = tomllib.loads(files("podsim.training").joinpath("software.toml").read_text("utf-8"))
    known = {field.name for field in fields(Software)}
    entries: dict[str, dict[str, Any]] = {}
    for name, entry in raw.items():
        base = dict(entries[entry.pop("inherits")]) if "inherits" in entry else {}
        unknown = sorted(set(entry) - known)
        required = {f.name for f in fields(Software) if f.default is MISSING} - {"name"}
        missing = sorted(required - set(entry) - set(base))
        if unknown or missing:
            raise CatalogError(f"software {name!r}: unknown keys {unknown}, missing keys {missing}")
        if "can_overlap" in entry:
            entry["can_overlap"] = tuple(entry["can_overlap"])
        entries[name] = base | entry
    return {name: Software(name=name, **entry) for name, entry in entries.items()}


def software_names() -> tuple[str, ...]:
    """Names of the catalog, in its order."""
    return tuple(_catalog())


def load_software(name: str) -> Software:
    """One framework era by name; CatalogError if it is unknown."""
    catalog = _catalog()
    if name not in catalog:
        raise CatalogError(unknown_name("software", name, catalog))
    return catalog[name]
