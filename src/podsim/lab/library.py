"""The library's own collectives, called the way a table of the same collective is: same buffers, same result.

`size` is the largest buffer of one rank, cut into equal parts where the collective divides it. Where a release of
PyTorch calls a function by another name, both are understood.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from podsim.lab.wires import Wires
from podsim.network.collectives.program import Span
from podsim.network.collectives.table import EVERYWHERE

LIBRARY = ("all-reduce", "broadcast", "reduce", "all-gather", "reduce-scatter")
"""collectives that are run as the library has them"""
Call = Callable[[Any, Any], None]


def library_call(
    collective: str, wires: Wires, ranks: int, elements: int, inside: bool
) -> tuple[Call, tuple[Span, ...], tuple[Span, ...], Any]:
    """(the call on (input, buffer); what a rank has at the start; what it must have at the end; the buffer)."""
    distributed, me = wires.torch.distributed, wires.rank
    group = distributed.new_group(list(range(ranks))) if ranks < wires.world else None
    part = elements // ranks
    mine = slice(me * part, (me + 1) * part)
    everything = (Span(0, elements, EVERYWHERE),)
    own = (Span(0, elements, me),)

    def copied(source: Any, held: Any) -> Any:
        if not inside:
            held.copy_(source)
        return held

    calls: dict[str, tuple[Call, tuple[Span, ...], tuple[Span, ...]]] = {
        "all-reduce": (lambda s, h: distributed.all_reduce(copied(s, h), group=group), own, everything),
        "broadcast": (
            lambda s, h: distributed.broadcast(copied(s, h) if me == 0 else h, 0, group=group),
            own if me == 0 else (),
            (Span(0, elements, 0),),
        ),
        "reduce": (
            lambda s, h: distributed.reduce(copied(s, h), 0, group=group), own, everything if me == 0 else (),
        ),
        "all-gather": (
            lambda s, h: named_as(distributed, "all_gather_single", "all_gather_into_tensor")(h, s[mine], group=group),
            (Span(me * part, (me + 1) * part, me),),
            tuple(Span(r * part, (r + 1) * part, r) for r in range(ranks)),
        ),
        "reduce-scatter": (
            lambda s, h: named_as(distributed, "reduce_scatter_single", "reduce_scatter_tensor")(h[mine], s, group=group),
            own,
            (Span(me * part, (me + 1) * part, EVERYWHERE),),
        ),
    }  # fmt: skip
    call, starts, ends = calls[collective]
    return call, starts, ends, wires.empty(elements)


def named_as(distributed: Any, *names: str) -> Any:
    """The function under whichever of these names this release has it."""
    return next(getattr(distributed, name) for name in names if hasattr(distributed, name))
