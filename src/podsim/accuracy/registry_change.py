"""Runs a piece of work with one constant of a cost law changed, and puts everything back.

The laws read their constants from the catalog, through functions that keep what they read. A sensitivity has to change
one of several hundred constants without writing four hundred catalogs, so these functions are replaced for a moment and
what is kept is dropped before and after. Not for use by several threads at once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from podsim.hardware.parts import Gpu
from podsim.kernels import attention as kernels_attention
from podsim.kernels import convolutions as kernels_conv
from podsim.kernels import elementwise as kernels_memory
from podsim.kernels import gemm as kernels_gemm
from podsim.kernels.constants import KernelConstants, kernel_constants
from podsim.network import nccl, nccl_paths
from podsim.network.nccl_constants import Fabric, Network, load_fabric, load_network
from podsim.training.software import Software, read_catalog, software_entries

Eras = Mapping[str, Mapping[str, "Software"]]
"""framework era -> GPU, architecture or "" -> entry"""


def changed_software(name: str, factor: float) -> Eras:
    """Every era, with the constant "software.ERA[.GPU].KEY" (or "software.default.KEY") times a factor."""
    raw = copy.deepcopy(dict(software_entries()))
    _, era, *gpu, key = name.split(".")
    if era == "default":
        default = getattr(Software, key)
        for entry in raw.values():
            if "inherits" not in entry:
                entry.setdefault(key, default * factor)
    else:
        table = raw[era][gpu[0]] if gpu else raw[era]
        table[key] *= factor
    return read_catalog(raw)


def kernel_origin(raw: Mapping[str, Mapping[str, Any]], file: str, table: str) -> str:
    """The file of kernel constants that a table ("gemm.bf16", "memory") of another file comes from; "" if none."""
    kind, _, key = table.partition(".")
    while file:
        part = raw[file].get(kind, {})
        if part and (not key or key in part):
            return file
        file = raw[file].get("base", "")
    return ""


@contextmanager
def changed_kernels(
    raw: Mapping[str, Mapping[str, Any]], file: str, table: str, key: str, factor: float
) -> Iterator[None]:
    """The kernel laws with one constant of one file times a factor, on every GPU that takes it from there."""
    kind, _, name = table.partition(".")

    def change(gpu: Gpu) -> KernelConstants:
        found = kernel_constants(gpu)
        if kernel_origin(raw, found.base if found.extrapolated else found.name, table) != file:
            return found
        if kind == "memory":
            return replace(found, memory=replace(found.memory, **{key: getattr(found.memory, key) * factor}))
        tables: dict[str, Any] = dict(getattr(found, kind))
        tables[name] = replace(tables[name], **{key: getattr(tables[name], key) * factor})
        changed: dict[str, Any] = {kind: tables}
        return replace(found, **changed)

    modules = (kernels_attention, kernels_conv, kernels_gemm, kernels_memory)
    with _replaced(modules, "kernel_constants", change):
        yield


@contextmanager
def changed_fabric(group: str, name: str, key: str, factor: float) -> Iterator[None]:
    """The collective law with one constant of "fabrics" or "networks" times a factor."""

    def fabric(architecture: str) -> Fabric:
        found = load_fabric(architecture)
        return replace(found, **{key: getattr(found, key) * factor}) if found == load_fabric(name) else found

    def network(kind: str) -> Network:
        found = load_network(kind)
        return replace(found, **{key: getattr(found, key) * factor}) if kind == name else found

    which, change = ("load_fabric", fabric) if group == "fabrics" else ("load_network", network)
    _forget()
    try:
        with _replaced((nccl_paths,), which, change):
            yield
    finally:
        _forget()


def _forget() -> None:
    """Drop what the collective law keeps from call to call."""
    for module in (nccl, nccl_paths):
        for function in vars(module).values():
            if hasattr(function, "cache_clear"):
                function.cache_clear()


@contextmanager
def _replaced(modules: tuple[Any, ...], name: str, change: Callable[..., Any]) -> Iterator[None]:
    kept = [getattr(module, name) for module in modules]
    for module in modules:
        setattr(module, name, change)
    try:
        yield
    finally:
        for module, function in zip(modules, kept, strict=True):
            setattr(module, name, function)
