"""Weights that were pruned 2:4, tensor by tensor."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.answers.pruned import Pruned, PrunedTensor
from podsim.report.columns import Column, Table, percent
from podsim.report.screen import Block, Paragraph, Rows, bold
from podsim.units import format_quantity

_SHOWN = 14
"""The number of printed tensors of a large file."""


def prune_report(pruned: Pruned) -> Iterator[Block]:
    """What was pruned, what stays, and the sizes."""
    share = pruned.pruned / max(1, pruned.weights)
    yield bold(
        f"{pruned.file}: {pruned.pruned:,} of {pruned.weights:,} weights pruned 2:4 ({percent(share)})"
    )
    better = "" if pruned.before is None else f", {percent(pruned.before)} without the permutation"
    yield f"kept magnitude of them: {percent(pruned.kept)}{better}"
    dense, packed = (format_quantity(size, "B") for size in (pruned.dense_bytes, pruned.compressed_bytes))
    yield f"{dense} dense, {packed} compressed ({percent(pruned.compressed_bytes / max(1, pruned.dense_bytes))})"
    if pruned.to:
        yield Paragraph(
            f"written to {pruned.to}, {'compressed' if pruned.compressed else 'dense, with zeros'}"
        )
    chosen = [tensor for tensor in pruned.tensors if not tensor.reason]
    columns = (
        Column("tensor", "name"), Column("type", "kind", drop=1), Column("shape", _shape, align="r"),
        Column("kept", "", percent), Column("permuted", "", percent, optional=True),
        Column("compressed", "compressed_bytes", "B"),
    )  # fmt: skip
    yield from ("", Rows(Table(columns=columns), chosen[:_SHOWN]))
    if len(chosen) > _SHOWN:
        yield f"  and {len(chosen) - _SHOWN:,} more (--csv lists all)"
    yield from _dense(pruned)


def _dense(pruned: Pruned) -> Iterator[Block]:
    """How many tensors stay dense, by reason."""
    reasons: dict[str, int] = {}
    for tensor in pruned.tensors:
        if tensor.reason:
            reasons[tensor.reason] = reasons.get(tensor.reason, 0) + 1
    if reasons:
        counts = sorted(reasons.items(), key=lambda pair: -pair[1])
        yield Paragraph("dense: " + ", ".join(f"{count} ({reason})" for reason, count in counts[:6]))


def _shape(tensor: PrunedTensor) -> str:
    return " x ".join(map(str, tensor.shape))
