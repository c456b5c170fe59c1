"""Number formats: how many bytes an element takes, and which peak of a GPU its matrix products run at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from podsim.errors import CatalogError, unknown_name

if TYPE_CHECKING:
    from podsim.hardware.parts import Gpu

__all__ = ["PEAKS", "PRECISIONS", "Peak", "Precision", "matmul_peak"]

Peak = Literal["fp64", "fp64_tensor", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8", "int4"]
PEAKS: Final[tuple[str, ...]] = get_args(Peak)
"""the keys that the peaks of a GPU may have"""


@dataclass(frozen=True, kw_only=True)
class Precision:
    """A number format of weights and activations."""

    name: str
    matmul: str
    """key of Gpu.peaks that its matrix products run at"""
    bytes: float
    """B of one element in memory"""
    accumulate: str
    """format in which products are summed"""
    exponent: int
    """bits; 0 for integers"""
    significand: int
    """bits stored, without sign; for integers all bits but the sign"""


def _precision(name: str, size: float, accumulate: str, exponent: int, significand: int) -> Precision:
    return Precision(
        name=name,
        matmul=name,
        bytes=size,
        accumulate=accumulate,
        exponent=exponent,
        significand=significand,
    )


# Formats after IEEE 754 (fp64, fp32, fp16), the bfloat16 and TF32 descriptions in NVIDIA's Ampere white
# paper, and arxiv.org/abs/2209.05433 for fp8 (E4M3 of the forward pass). TF32 is fp32 in memory: only its
# products are shorter.
PRECISIONS: Final[dict[str, Precision]] = {
    p.name: p
    for p in (
        _precision("fp64", 8.0, "fp64", 11, 52),
        _precision("fp32", 4.0, "fp32", 8, 23),
        _precision("tf32", 4.0, "fp32", 8, 10),
        _precision("bf16", 2.0, "fp32", 8, 7),
        _precision("fp16", 2.0, "fp32", 5, 10),
        _precision("fp8", 1.0, "fp32", 4, 3),
        _precision("int8", 1.0, "int32", 0, 7),
        _precision("int4", 0.5, "int32", 0, 3),
    )
}


def matmul_peak(gpu: Gpu, precision: str, *, sparse: bool = False) -> float:
    """Greatest FLOP/s of a GPU's matrix products in a precision, dense or 2:4 sparse.

    Double precision runs on tensor cores where the GPU has such (fp64_tensor). Raises CatalogError for an
    unknown precision, or one in which this GPU has no such products.
    """
    if precision not in PRECISIONS:
        raise CatalogError(unknown_name("precision", precision, PRECISIONS))
    table = gpu.sparse_peaks if sparse else gpu.peaks
    found = [table[key] for key in (PRECISIONS[precision].matmul, f"{precision}_tensor") if key in table]
    if not found:
        kind = "sparse " if sparse else ""
        raise CatalogError(
            f"{gpu.name} has no {kind}{precision} matrix products; it has {', '.join(table) or 'none'}"
        )
    return max(found)
