"""One kernel's time and the measured ones nearest to it."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.answers.kernel_time import KernelTime
from podsim.report.columns import Column, Table
from podsim.report.screen import Block, Rows, bold
from podsim.units import format_quantity

_NEAREST = Table(
    columns=(
        Column("GPU", "device"),
        Column("measured", "measured", "s"),
        Column("predicted", "predicted", "s"),
        Column("octaves", "distance", ":.1f"),
        Column("engine", "engine", drop=1),
        Column("sizes", "sizes", wrap=True),
    )
)


def kernel_report(time: KernelTime) -> Iterator[Block]:
    """The time, its share of the roofline, its source, and what was measured near it."""
    yield bold(f"{time.kernel} on {time.gpu}: {format_quantity(time.seconds, 's')}")
    yield f"{time.engine}: {time.sizes}"
    yield f"{time.share:.0%} of the roofline ({format_quantity(time.light, 's')}, limited by {time.bound})"
    yield f"Source: {time.source}"
    if time.nearest:
        yield from ("", "Nearest measured kernels:", Rows(_NEAREST, time.nearest))
