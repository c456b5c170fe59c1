"""A graph divided over a mesh of GPUs: annotations, the step, collectives, ops."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.answers.sharding import Sharded
from podsim.report.columns import Column, Table
from podsim.report.screen import Block, Paragraph, Rows, bold
from podsim.units import format_quantity

_OPS = Table(
    Column("op", lambda op: op.name[-26:] + (f" x {op.copies}" if op.copies > 1 else "")),
    Column("output", lambda op: op.shape.replace(" ", ""), drop=1),
    Column("divided", "division"),
    Column("exchanges", lambda op: "; ".join(op.exchanges) or "-", wrap=True),
)
_SENT = Table(Column("collective", "0"), Column("bytes of a step", "1", "B"))
_WEIGHTS = Table(Column("weight", "0"), Column("divided", "1"))
_SHOWN = 12


def shard_report(answer: Sharded, *, detail: str = "") -> Iterator[Block]:
    """The mesh and annotations, the step with its parts and its plan, and what every op exchanges."""
    step, compute, exposed, hidden, update = (
        format_quantity(seconds, "s")
        for seconds in (answer.step_time, answer.compute, answer.exposed, answer.hidden, answer.update)
    )
    memory, room = (format_quantity(size, "B") for size in (answer.memory, answer.capacity))
    yield bold(f"{answer.model} on {answer.gpus} GPUs of {answer.cluster}: mesh {answer.mesh}")
    how = f"found among {answer.tried:,} sets" if answer.is_searched else "given"
    yield f"Annotations, {how}; all other divisions follow:"
    yield from (f"  --annotate '{text}'" for text in answer.annotations)
    yield bold(f"{step} a step of {answer.batch:,} samples: {answer.samples_per_second:,.5g} samples/s")
    yield f"Compute {compute}, collectives {exposed} exposed and {hidden} hidden, {answer.optimizer} update {update}"
    again = "; layers run again in the backward pass" if answer.plan.get("recompute") == "full" else ""
    remedy = "" if answer.fits else "; take more GPUs, a smaller --batch or a shorter --sequence"
    yield f"Memory: {memory} of {room}{'' if answer.fits else ': does not fit'} with ZeRO {answer.zero}{again}{remedy}"
    if answer.command:
        other = f"; other divisions take {format_quantity(answer.beyond, 's')} more" if answer.beyond else ""
        yield Paragraph(f"As a plan: {answer.command}{other}", indent="  ", first="")
    yield ""
    divided = [(name, text) for name, text in answer.weights.items() if text.strip(", ")]
    if divided:
        yield Rows(_WEIGHTS, divided[:_SHOWN])
        if len(divided) > _SHOWN:
            yield f"  and {len(divided) - _SHOWN} more weights"
        yield ""
    yield Rows(_SENT, list(answer.collectives.items()))
    ops = [op for op in answer.ops if op.exchanges or detail]
    if detail or len(ops) <= 2 * _SHOWN:
        yield from ("", Rows(_OPS, ops))
    else:
        yield f"  {len(ops)} of {len(answer.ops)} ops exchange something; --detail ops lists them"
    yield from (Paragraph(note, "dim", indent="  ", first="Note: ") for note in answer.notes)
