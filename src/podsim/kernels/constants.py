"""The fitted constants of the kernel law, one TOML file per GPU in the catalog folder `kernels/`.

A file gives what was fitted from rows measured on that GPU, and names a `base` for the rest:

    base = "a100-sxm4-80gb"                       # another file, which fills what is missing here
    sms = 108                                     # SMs of the GPU that was measured
    made_by = "podsim calibrate …"
    [gemm.bf16]                                   # also memory, and flash.flash2
    share_256x128 = { value = 0.96, unit = "1" }
    [gemm.bf16.evidence]
    rows = 9856
    median_error = 0.04
    mean_error = 0.06
    sources = ["…"]

Beside it, `<gpu>.<precision>.npz` may hold a Correction.
"""

from __future__ import annotations

import tomllib
from collections.abc import Container, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from podsim.errors import CatalogError, PlanError, check_name, unknown_name
from podsim.hardware.parts import Gpu
from podsim.kernels.gemm_correction import Correction, read_correction
from podsim.packaged import packaged_toml
from podsim.records import MISSING, dataclass, field, fields, replace

UNITS = {
    "share_256x128": "1", "share_128x128": "1", "share_128x64": "1", "share_64x64": "1", "share_32x64": "1",
    "ceiling": "1", "fill": "1", "bandwidth_share": "1", "store": "1", "startup": "B", "latency": "s",
    "sharpness": "1", "reduction": "1", "split_latency": "s", "unaligned": "1",
    "batched": "1", "step": "s", "step_far": "s", "quantise": "1", "quantise_latency": "s",
    "odd": "1", "shallow": "1", "shallow_step": "s", "sustained": "1", "tile": "1",
    "share": "1", "share_64": "1", "share_128": "1", "tail": "1",
    "backward_64": "1", "backward_128": "1", "backward_fill": "1", "near": "B", "far": "B", "spill": "1",
}  # fmt: skip
"""unit of each constant in a file ("1" is a pure number)"""

_FOLDER = "hardware/catalog/kernels"
_FAMILY = {
    "volta": "v100-sxm2-16gb",
    "turing": "v100-sxm2-16gb",
    "ampere": "a100-sxm4-80gb",
    "ada": "a100-sxm4-80gb",
    "hopper": "h100-sxm5-80gb",
    "blackwell": "b200",
    "blackwell-rtx": "a100-sxm4-80gb",
    "cdna3": "h100-sxm5-80gb",
    "cdna4": "h100-sxm5-80gb",
}
"""architecture -> the measured GPU whose shares of peak stand in where nothing was measured"""

_FIRST = {
    "a100-sxm4-80gb": "",
    "h100-sxm5-80gb": "",
    "v100-sxm2-16gb": "a100-sxm4-80gb",
    "b200": "h100-sxm5-80gb",
}
"""the measured GPU of an architecture -> the one that it starts from; "" for those measured thoroughly"""

_NEAREST = {
    "fp16": ("bf16",),
    "bf16": ("fp16",),
    "fp8": ("int8", "bf16", "fp16"),
    "mxfp8": ("fp8", "int8", "bf16", "fp16"),
    "nvfp4": ("mxfp8", "fp8", "int8", "bf16", "fp16"),
    "int8": ("fp8", "bf16", "fp16"),
    "int4": ("int8", "fp8", "bf16", "fp16"),
    "tf32": ("bf16", "fp16"),
    "fp32": ("tf32", "bf16", "fp16"),
    "fp64": ("fp32", "tf32", "bf16", "fp16"),
    "fp8_block": ("fp8", "int8", "bf16", "fp16"),
    "int8_wo": ("bf16", "fp16"),
    "int4_wo": ("int8_wo", "bf16", "fp16"),
}
"""precision -> the fitted precisions whose constants stand in, nearest first"""


@dataclass(frozen=True, kw_only=True)
class GemmConstants:
    """How matrix products approach the peaks; see podsim.kernels.gemm for the law."""

    share_256x128: float
    """share. The share of peak of an SM that computes 256 x 128 tiles."""
    share_128x128: float
    share_128x64: float
    share_64x64: float
    share_32x64: float
    ceiling: float
    """share. The share of peak that no shape exceeds (power and clock)."""
    fill: float
    """count. The depth of k that passes while the tiles of one wave start and end."""
    bandwidth_share: float
    """share. The share of the memory bandwidth with which operands are read."""
    store: float
    """share. The share of the time to write the result that is not hidden."""
    startup: float
    """B. The bytes that could be read while memory traffic starts."""
    latency: float
    """s. The time from the start to the end of an empty kernel."""
    sharpness: float
    """factor. The exponent of the smooth maximum of arithmetic and bytes; large is sharp."""
    reduction: float
    """share. The share of the memory time of split-k's partial sums that counts."""
    split_latency: float
    """s. The time that the reduction after split-k adds."""
    unaligned: float
    """factor. The factor on the share of peak if a leading dimension is no multiple of 16 B (0.65: not measured)."""
    batched: float = 1.0
    """share. The share of the ceiling that kernels for batches of products reach."""
    step: float = 0.0
    """s. The least time of a thread block of such a kernel for each 32 of k."""
    step_far: float = 0.0
    """s. The further time if operands and result exceed the L2 cache."""
    quantise: float = 0.0
    """factor. The time of an engine's kernel that quantises the input, over that of its bytes at the memory bandwidth."""
    quantise_latency: float = 0.0
    """s. The time that such a kernel adds however small the input is."""
    odd: float = 1.0
    """factor. The further factor on the share of peak, along k, if a leading dimension is no multiple of 4 B."""
    shallow: float = 0.0
    """count. The k up to which batches with such a dimension run in kernels that load and multiply in turn; up to half
    of it for other unaligned ones."""
    shallow_step: float = 0.0
    """s. The time of such a kernel for each 32 of k of a wave of 128 x 128 tiles."""
    sustained: float = 1.0
    """share. The share of the ceiling that is left at the clock of long runs."""
    tile: float = 0.0
    """count. The side of a systolic array, whose law then holds; 0 for the tensor cores of a GPU."""


LENDER = "a100-sxm4-80gb"
BORROWED = ("odd", "shallow", "shallow_step", "sustained")
"""Constants measured on one GPU, LENDER, in bf16: every other GPU of the catalog without them has its values."""


@dataclass(frozen=True, kw_only=True)
class FlashConstants:
    """How a fused attention kernel approaches the peak; see podsim.kernels.attention."""

    share_64: float
    """share. The share of peak in the main loop, for heads of 64."""
    share_128: float
    """share. The share of peak in the main loop, for heads of 128."""
    fill: float
    """count. The keys that could be processed while a thread block starts and ends."""
    tail: float
    """count. The number of longest thread blocks by which the last wave outlasts the average."""
    backward_64: float
    """factor. The share of the backward pass over that of the forward pass, for heads of 64."""
    backward_128: float
    """factor. The share of the backward pass over that of the forward pass, for heads of 128."""
    backward_fill: float
    """count. The keys for the backward pass, as `fill`."""


@dataclass(frozen=True, kw_only=True)
class MemoryConstants:
    """How memory-bound kernels approach the memory bandwidth."""

    share: float
    """share. The share of the memory bandwidth that large kernels reach."""
    startup: float
    """B. The bytes that could move while traffic starts."""
    latency: float
    """s. The time from the start to the end of an empty kernel."""
    near: float = 0.0
    """B. The bytes moved by a kernel whose operands the caches hold, on a measured machine."""
    far: float = 0.0
    """B. The bytes moved by a kernel whose operands only memory holds."""
    spill: float = 0.0
    """factor. The relative slowdown of a byte in memory, minus one."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a table of constants rests on."""

    rows: int
    """The number of measured kernels in the fit."""
    median_error: float
    """share. The median of |predicted / measured - 1| over those rows."""
    mean_error: float
    sources: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class KernelConstants:
    """All fitted constants of one GPU."""

    name: str
    sms: int
    """The number of SMs of the measured GPU; corrections hold for that number, give or take 5 %."""
    gemm: Mapping[str, GemmConstants]
    """The constants of products, by precision."""
    flash: Mapping[str, FlashConstants]
    """The constants of attention, by algorithm: triton, flash1, flash2, flash3."""
    memory: MemoryConstants
    corrections: Mapping[str, Correction]
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    """The evidence by table, as in "gemm.bf16"."""
    base: str = ""
    """The file that supplied what this GPU has no measurement of."""
    made_by: str = ""
    extrapolated: bool = False
    """Whether nothing was measured on this GPU; the shares of peak are those of the family's GPU."""


_T = TypeVar("_T", GemmConstants, FlashConstants, MemoryConstants)


def known_kernels() -> tuple[str, ...]:
    """Names of the GPUs that have a file of constants."""
    return tuple(sorted(f.name[:-5] for f in _catalog().iterdir() if f.name.endswith(".toml")))


def kernel_constants(gpu: Gpu) -> KernelConstants:
    """Constants of `gpu`: of the file `gpu.kernels` or `gpu.name`, else of its architecture's measured GPU.

    The latter are marked `extrapolated`. `gpu.kernels` is a name of the catalog, or the path of a .toml file. A MIG
    instance has the constants of its GPU, but for the bytes in flight while traffic starts: they fill a latency, and
    so go with its bandwidth.
    Raises CatalogError for a `gpu.kernels` that has no file, and for an architecture nothing of which was
    measured.
    """
    gpu_name = gpu.name.lower().partition("/")[0]
    return _slice_constants(gpu.kernels, gpu_name, gpu.architecture.lower(), gpu.fraction)


@lru_cache(maxsize=256)
def _slice_constants(kernels: str, name: str, architecture: str, fraction: float) -> KernelConstants:
    """The constants of a whole GPU, or of an instance with a fraction of its memory system."""
    constants = _resolve(kernels, name, architecture)
    if fraction == 1:
        return constants
    return replace(
        constants,
        gemm={key: replace(table, startup=table.startup * fraction) for key, table in constants.gemm.items()},
        memory=replace(constants.memory, startup=constants.memory.startup * fraction),
    )


@lru_cache(maxsize=256)
def _resolve(kernels: str, name: str, architecture: str) -> KernelConstants:
    if kernels:
        return load_constants(kernels)
    known = known_kernels()
    if name in known:
        return load_constants(name)
    if architecture not in _FAMILY:
        raise CatalogError(
            f"GPU {name!r} has no kernel constants, nor has any of architecture {architecture!r}; "
            f"give it kernels=, one of {', '.join(known)}, or measure it with `podsim calibrate`"
        )
    family = _FAMILY[architecture]
    return replace(load_constants(family), name=name, base=family, extrapolated=True)


def base_name(gpu: Gpu) -> str:
    """Name of the file that fills what was not measured on `gpu`: its family's GPU, and for that the A100.

    "" for the two GPUs that were measured thoroughly, from which all others start.
    """
    name = gpu.name.lower()
    family = _FAMILY.get(gpu.architecture.lower(), "a100-sxm4-80gb")
    return family if family != name else _FIRST[name]


def gemm_constants(constants: KernelConstants, precision: str) -> tuple[GemmConstants, Correction | None]:
    """Constants and correction of the nearest fitted precision; PlanError for an unknown precision."""
    check_name("precision", precision, _NEAREST, PlanError)
    for name in (precision, *_NEAREST[precision]):
        if name in constants.gemm:
            return constants.gemm[name], constants.corrections.get(name)
    raise CatalogError(f"kernel constants {constants.name!r} have no GEMM table near {precision}")


@lru_cache(maxsize=64)
def load_constants(name: str) -> KernelConstants:
    """Constants of a file, by catalog name or by path (.toml), its base filling what it lacks (cached).

    Raises CatalogError for an unknown name or key, a wrong unit, and a table without evidence.
    """
    is_known, path = not name.endswith(".toml"), Path(name)
    if is_known:
        check_name("kernel constants", name, known_kernels(), CatalogError)
    else:
        name = path.stem
    folder: Path = _catalog() if is_known else path.parent
    try:
        table = (
            packaged_toml(f"{_FOLDER}/{name}.toml") if is_known else tomllib.loads(path.read_text("utf-8"))
        )
        table = table.get("kernels", table)  # in the file of a measured machine they are one table of many
        base = load_constants(table["base"]) if table.get("base") else None
        return _assemble(name, table, folder, base)
    except (OSError, KeyError, tomllib.TOMLDecodeError) as error:
        raise CatalogError(f"kernel constants {name!r} cannot be read: {error!r}") from error


def _catalog() -> Path:
    return Path(__file__).parents[1] / _FOLDER


def _assemble(
    name: str, table: Mapping[str, Any], folder: Path, base: KernelConstants | None
) -> KernelConstants:
    """The tables of one file over those of its base; the base's correction holds until a precision is fitted again."""
    gemm = dict(base.gemm) if base else {}
    flash = dict(base.flash) if base else {}
    evidence = dict(base.evidence) if base else {}
    corrections = dict(base.corrections) if base and base.sms == table["sms"] else {}
    memory = base.memory if base else None
    for kind, tables in (("gemm", table.get("gemm", {})), ("flash", table.get("flash", {}))):
        for key, part in tables.items():
            evidence[f"{kind}.{key}"] = _evidence(part, f"{name}: {kind}.{key}")
    for key, part in table.get("gemm", {}).items():
        near = next((gemm[p] for p in (key, *_NEAREST.get(key, ())) if p in gemm), None)
        gemm[key] = _read(GemmConstants, part, f"{name}: gemm.{key}", near)
        if near is None and name in known_kernels() and name != LENDER and not gemm[key].tile:
            gemm[key] = borrowing(gemm[key], part)
        corrections.pop(key, None)
        grid = folder.joinpath(f"{name}.{key}.npz")
        if grid.is_file():
            with grid.open("rb") as stream:
                corrections[key] = read_correction(stream)
    for key, part in table.get("flash", {}).items():
        flash[key] = _read(FlashConstants, part, f"{name}: flash.{key}", flash.get(key))
    if "memory" in table:
        memory = _read(MemoryConstants, table["memory"], f"{name}: memory", memory)
        evidence["memory"] = _evidence(table["memory"], f"{name}: memory")
    if memory is None:
        raise CatalogError(
            f"kernel constants {name!r}: [memory] is missing, and there is no base to take it from"
        )
    return KernelConstants(
        name=name, sms=int(table["sms"]), gemm=gemm, flash=flash, memory=memory, corrections=corrections,
        evidence=evidence, base=table.get("base", ""), made_by=table.get("made_by", ""),
        extrapolated=bool(table.get("extrapolated", False)),
    )  # fmt: skip


def borrowing(constants: GemmConstants, own: Container[str] = ()) -> GemmConstants:
    """The constants with those of BORROWED that are not its own from the GPU that lends them."""
    lender = load_constants(LENDER).gemm["bf16"]
    return replace(constants, **{name: getattr(lender, name) for name in BORROWED if name not in own})


def _read(kind: type[_T], part: Mapping[str, Any], where: str, base: _T | None) -> _T:
    """One table as its dataclass: values with the right unit, the rest from `base`."""
    names = [f.name for f in fields(kind)]
    problems, values = [], {}
    for key, cell in part.items():
        if key == "evidence":
            continue
        if key not in names:
            problems.append(unknown_name("constant", key, names))
        elif not isinstance(cell, dict) or cell.get("unit") != UNITS[key]:
            problems.append(f"{key} must be {{ value = …, unit = {UNITS[key]!r} }}, not {cell!r}")
        else:
            values[key] = float(cell["value"])
    missing = [f.name for f in fields(kind) if f.name not in values and f.default is MISSING]
    if base is None and missing:
        problems.append(f"missing {', '.join(missing)}, and there is no base to take them from")
    if problems:
        raise CatalogError(f"kernel constants {where}: " + "; ".join(problems))
    return replace(base, **values) if base else kind(**values)


def _evidence(part: Mapping[str, Any], where: str) -> Evidence:
    cells = part.get("evidence", {})
    if not cells.get("sources"):
        raise CatalogError(f"kernel constants {where}: [evidence] must name its sources")
    return Evidence(
        rows=int(cells.get("rows", 0)), median_error=float(cells.get("median_error", 0.0)),
        mean_error=float(cells.get("mean_error", 0.0)), sources=tuple(cells["sources"]),
        note=cells.get("note", ""),
    )  # fmt: skip
