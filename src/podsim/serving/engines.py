"""Inference engines and their versions: what one adds to the hardware's own speed. Values are in `engines.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from podsim.errors import CatalogError, check_name
from podsim.packaged import packaged_toml

FITTED = ("half_speed", "int8_speed", "attention_speed", "kernel", "sparse_speed")
"""constants that `reference.engines` fits"""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """One version of an inference engine."""

    name: str
    """The name of the engine and its version."""
    title: str
    source: str
    """The source of the measurements."""
    evidence: str
    """The rows behind the constants, and their residuals."""
    half_speed: float = 1.0
    """factor. The speed of products of 16 bits and more, relative to the kernel law."""
    int8_speed: float = 1.0
    """factor. The speed of products of 8 bits and fewer, relative to the law of `podsim.serving.kernels`."""
    attention_speed: float = 1.0
    """share. The share of an SM's peak that the attention kernel for whole sequences reaches."""
    kernel: float = 0.0
    """s. The time of each kernel of a pass in addition to its law; negative where launches overlap."""
    sparse_speed: float = 1.0
    """factor. The speed of 2:4 sparse products, relative to the law at the sparse peak."""
    memory_floor: float = 5.0e8
    """B. The memory of the CUDA context and the engine (assumed, not measured)."""

    def product_speed(self, precision: str, sparse: bool) -> float:
        """Factor on the speed of products."""
        speed = self.int8_speed if precision in ("int8", "fp8", "int4") else self.half_speed
        return speed * (self.sparse_speed if sparse else 1.0)


def _tables() -> dict[str, dict[str, Any]]:
    return packaged_toml("serving/engines.toml")


def engine_names() -> tuple[str, ...]:
    """Names of the engines, the newest first."""
    return tuple(_tables())


def load_engine(name: str, architecture: str = "") -> Engine:
    """The engine of that name, with the values of an architecture. Raises CatalogError for an unknown name."""
    check_name("engine", name, _tables(), CatalogError)
    table = _tables()[name]
    plain = {key: value for key, value in table.items() if not isinstance(value, dict)}
    return Engine(name=name, **(plain | table.get(architecture, {})))
