"""Changes one constant of a cost law for a while, and puts everything back.

The laws read their constants from the catalog, through functions that cache them. A sensitivity changes one of several
hundred constants without writing a catalog for each, so these functions are replaced for a while, and their caches are
cleared before and after. Not for use by several threads at once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from podsim.accuracy import price_inference
from podsim.graphs.inference import Engine, Serving, load_engine, load_serving
from podsim.hardware.parts import Gpu
from podsim.kernels import attention as kernels_attention
from podsim.kernels import convolutions as kernels_conv
from podsim.kernels import elementwise as kernels_memory
from podsim.kernels import engine_attention, engine_experts, engine_sums
from podsim.kernels import engine_constants as engine_constants_module
from podsim.kernels import gemm as kernels_gemm
from podsim.kernels.constants import KernelConstants, kernel_constants
from podsim.kernels.engine_run import EngineRun
from podsim.memo import Memo
from podsim.network import nccl, nccl_paths
from podsim.network.nccl_constants import Fabric, Network, load_fabric, load_network
from podsim.training import batch, layers, shapes
from podsim.training.software import Software, read_catalog, software_entries

SoftwareCatalog = Mapping[str, Mapping[str, Software]]
"""Name of software -> GPU, architecture or "" -> entry."""


def changed_software(name: str, factor: float) -> SoftwareCatalog:
    """The catalog of software, with the constant "software.NAME[.GPU].KEY" (or "software.default.KEY") times a factor."""
    raw = copy.deepcopy(dict(software_entries()))
    _, software, *gpu, key = name.split(".")
    if software == "default":
        default = getattr(Software, key)
        for entry in raw.values():
            if "inherits" not in entry:
                entry.setdefault(key, default * factor)
    else:
        table = raw[software][gpu[0]] if gpu else raw[software]
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
        constants = kernel_constants(gpu)
        if kernel_origin(raw, constants.base if constants.extrapolated else constants.name, table) != file:
            return constants
        if kind == "memory":
            return replace(constants, memory=_scaled(constants.memory, key, factor))
        tables: dict[str, Any] = dict(getattr(constants, kind))
        return replace(constants, **{kind: {**tables, name: _scaled(tables[name], key, factor)}})

    modules = (kernels_attention, kernels_conv, kernels_gemm, kernels_memory)
    with _replace_functions(modules, "kernel_constants", change):
        yield


@contextmanager
def changed_engines(law: str, architecture: str, kernel: str, key: str, factor: float) -> Iterator[None]:
    """The laws of engines' kernels with one constant of one kernel times a factor."""

    def change(
        wanted: str, gpu: Gpu, run: EngineRun, family: str = ""
    ) -> engine_constants_module.EngineConstants:
        constants = engine_constants_module.engine_constants(wanted, gpu, run, family)
        if (wanted, constants.architecture, constants.key) != (law, architecture, kernel):
            return constants
        return replace(constants, values={**constants.values, key: constants.values[key] * factor})

    with _replace_functions((engine_attention, engine_experts, engine_sums), "engine_constants", change):
        yield


@contextmanager
def changed_fabric(group: str, name: str, key: str, factor: float) -> Iterator[None]:
    """The collective law with one constant of "fabrics" or "networks" times a factor."""

    def fabric(architecture: str) -> Fabric:
        constants = load_fabric(architecture)
        return _scaled(constants, key, factor) if constants == load_fabric(name) else constants

    def network(kind: str) -> Network:
        constants = load_network(kind)
        if name == "between":
            return replace(constants, between=_scaled(constants.between, key, factor))
        return _scaled(constants, key, factor) if kind == name else constants

    which, change = ("load_fabric", fabric) if group == "fabrics" else ("load_network", network)
    modules = (nccl_paths, nccl) if which == "load_network" else (nccl_paths,)
    with _replace_functions(modules, which, change):
        yield


@contextmanager
def changed_inference(owner: str, key: str, factor: float) -> Iterator[None]:
    """The law of inference with one constant of an engine, or of "serving", times a factor."""
    field, _, part = key.partition(".")

    def change(constants: Any) -> Any:
        if not part:
            return _scaled(constants, key, factor)
        speeds = getattr(constants, field)
        return replace(constants, **{field: {**speeds, part: speeds[part] * factor}})

    def engine(name: str) -> Engine:
        constants = load_engine(name)
        return change(constants) if name == owner else constants

    def serving() -> Serving:
        constants = load_serving()
        return change(constants) if owner == "serving" else constants

    with (
        _replace_functions((price_inference,), "load_engine", engine),
        _replace_functions((price_inference,), "load_serving", serving),
    ):
        yield


def _scaled(constants: Any, key: str, factor: float) -> Any:
    """A dataclass of constants with one of them times a factor."""
    return replace(constants, **{key: getattr(constants, key) * factor})


def _clear_caches() -> None:
    """Clear the caches of the laws of collectives and kernels."""
    for module in (nccl, nccl_paths, shapes, layers, batch):
        for value in vars(module).values():
            if isinstance(value, Memo):
                value._values.clear()
            elif hasattr(value, "cache_clear"):
                value.cache_clear()


@contextmanager
def _replace_functions(modules: tuple[Any, ...], name: str, change: Callable[..., Any]) -> Iterator[None]:
    kept = [getattr(module, name) for module in modules]
    _clear_caches()
    for module in modules:
        setattr(module, name, change)
    try:
        yield
    finally:
        for module, function in zip(modules, kept, strict=True):
            setattr(module, name, function)
        _clear_caches()
