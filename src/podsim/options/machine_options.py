"""Options about GPUs that several questions share."""

from __future__ import annotations

from dataclasses import MISSING, dataclass

from podsim.options.question import option


@dataclass(frozen=True, kw_only=True)
class SlicedGpu:
    """A GPU that can be divided."""

    gpu: str = option(MISSING, "A GPU with MIG: a100-40gb, a100-80gb, a30, h100, h200.", argument=True)


@dataclass(frozen=True, kw_only=True)
class CatalogFilter:
    """The entries of a catalog that are listed."""

    text: str = option("", "Only those that have this in their name, e.g. qwen.", argument=True)
