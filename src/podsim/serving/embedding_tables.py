"""Where the embedding tables of a recommender lie, and what that costs a sample.

    on each GPU     the tables fit: lookups are reads of its memory, which the network's own cost holds
    divided         over the GPUs: a GPU reads the rows it has, and sends those that others need over NVLink or PCIe
    host memory     what does not fit: its share of the lookups crosses PCIe

Source: counting, as Merlin's HugeCTR and its embedding cache place tables. Known error: none published here. Limits: rows
are asked for evenly, which is the worst case: a cache of the rows that are asked for most often is faster.
"""

from __future__ import annotations

from dataclasses import dataclass

from podsim.hardware.parts import Gpu
from podsim.network.bus import ring_share

_PCIE = {3: 12.3e9, 4: 24.0e9, 5: 50.0e9, 6: 96.0e9}
"""B/s. What 16 lanes carry, by generation."""


@dataclass(frozen=True, kw_only=True)
class Tables:
    """The tables of a network on some GPUs."""

    held: float
    """B. The tables that each GPU holds."""
    seconds: float
    """s. The time that a sample's lookups take on other GPUs and in host memory."""
    text: str
    """The place of the tables, as a sentence; "" where each GPU holds them all."""


def pcie_rate(gpu: Gpu) -> float:
    """B/s over the GPU's PCIe lanes."""
    return _PCIE.get(gpu.pcie_generation, _PCIE[4]) * (gpu.pcie_lanes or 16) / 16


def make_tables(gpu: Gpu, table_bytes: float, lookup_bytes: float, room: float, gpus: int) -> Tables:
    """The tables on `gpus` GPUs with `room` bytes each; a sample looks up `lookup_bytes`."""
    if table_bytes <= room:
        return Tables(held=table_bytes, seconds=0.0, text="")
    if gpus > 1 and table_bytes / gpus <= room:
        link = gpu.nvlinks * gpu.nvlink_bandwidth or pcie_rate(gpu)
        seconds = lookup_bytes * ring_share(float(gpus)) / link
        return Tables(
            held=table_bytes / gpus, seconds=seconds,
            text=f"{table_bytes / 1e9:.1f} GB of embedding tables are divided over {gpus} GPUs, rows cross their links",
        )  # fmt: skip
    held = min(max(room, 0.0), table_bytes / gpus)
    outside = 1.0 - held * gpus / table_bytes
    return Tables(
        held=held, seconds=outside * lookup_bytes / pcie_rate(gpu),
        text=f"{outside:.0%} of {table_bytes / 1e9:.1f} GB of embedding tables lie in host memory, rows cross PCIe",
    )  # fmt: skip
