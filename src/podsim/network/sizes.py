"""What `podsim collective` reads: names of collectives, and sizes as nccl-tests counts them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from podsim.errors import PodsimError, unknown_name

ELEMENT = 4
"""bytes of a float, the type that is reduced"""
NCCL_NAMES = {
    "all-reduce": "all_reduce", "all-gather": "all_gather", "reduce-scatter": "reduce_scatter",
    "broadcast": "broadcast", "reduce": "reduce", "all-to-all": "all_to_all", "send-recv": "send_recv",
}  # fmt: skip
"""collectives that NCCL has, and how podsim.network.nccl calls them"""
_OTHERS = ("gather", "scatter")
_ALIASES = {"alltoall": "all-to-all", "sendrecv": "send-recv", "allreduce": "all-reduce", "allgather": "all-gather",
            "reducescatter": "reduce-scatter"}  # fmt: skip
DIVIDED = ("all-gather", "reduce-scatter", "all-to-all", "gather", "scatter")
"""collectives whose size is the sum of equal parts, one for each rank"""
_SIZE = re.compile(r"(\d{1,18})\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_LARGEST = 2**50
_MOST = 1000
_EXAMPLE = "such as 8:16G:2 (first, last, factor; K, M, G are binary, as in nccl-tests), 8:64:+8 or 1G"


def collective_name(text: str) -> str:
    """The collective as tables call it: "all_reduce" and "alltoall" are understood; PodsimError for others."""
    name = text.strip().lower().replace("_", "-").removesuffix("-perf")
    name = _ALIASES.get(name, name)
    if name not in (*NCCL_NAMES, *_OTHERS):
        raise PodsimError(unknown_name("collective", text[:80], (*NCCL_NAMES, *_OTHERS)))
    return name


def _size(text: str, sizes: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise PodsimError(f"sizes {sizes[:60]!r}: {text[:30]!r} is no size; {_EXAMPLE}")
    value = int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[match[2].upper()]
    if not 1 <= value <= _LARGEST:
        raise PodsimError(f"sizes {sizes[:60]!r}: {text[:30]} is {value:,} B; a size is 1 B to 1024T")
    return value


def read_sizes(sizes: str | int | Sequence[int], collective: str, ranks: int) -> tuple[int, ...]:
    """Sizes in B of a text such as "8:16G:2", or numbers; empty: from the smallest buffer that divides, to 16G, doubling.

    Raises PodsimError for text that is no list of sizes, for more than 1000 of them, and for a size that is
    no whole number of elements for each rank.
    """
    unit = ELEMENT * (ranks if collective in DIVIDED else 1)
    if not isinstance(sizes, str):
        given = list(sizes) if isinstance(sizes, Iterable) else [sizes]
        if len(given) > _MOST:
            raise PodsimError(f"sizes: {len(given)} of them; at most {_MOST}")
        return tuple(size for item in given for size in read_sizes(str(item) or "0", collective, ranks))
    if not sizes.strip():
        first = unit if collective in DIVIDED else 8
        return tuple(first << step for step in range(64) if first << step <= 16 << 30)
    parts = sizes.split(":")
    if len(parts) > 3:
        raise PodsimError(f"sizes {sizes[:60]!r}: {len(parts)} parts; {_EXAMPLE}")
    ends = [_size(text, sizes) for text in parts[:2]]
    first, last = ends[0], ends[-1]
    if last < first:
        raise PodsimError(f"sizes {sizes[:60]!r}: ends at {last} B, below its start {first} B; {_EXAMPLE}")
    steps = _steps(first, last, parts[2].strip() if len(parts) > 2 else "2", sizes)
    for size in steps:
        if size % unit:
            of_ranks = f" for each of {ranks} ranks" if unit > ELEMENT else ""
            raise PodsimError(
                f"sizes {sizes[:60]!r}: {size} B is no whole number of floats ({ELEMENT} B){of_ranks}; "
                f"multiples of {unit} B are, such as {unit}:{unit << 20}:2"
            )
    return steps


def _steps(first: int, last: int, step: str, sizes: str) -> tuple[int, ...]:
    """All sizes from first to last; step: a factor, or "+" and bytes."""
    adds = step.startswith("+")
    if not adds and not re.fullmatch(r"\d{1,6}", step):
        raise PodsimError(f"sizes {sizes[:60]!r}: {step[:30]!r} is no factor; {_EXAMPLE}")
    by = _size(step[1:], sizes) if adds else int(step)
    if not adds and by < 2:
        raise PodsimError(f"sizes {sizes[:60]!r}: factor {by}; it must be 2 or more, or a step such as +64K")
    steps = [first]
    while (size := steps[-1] + by if adds else steps[-1] * by) <= last:
        steps.append(size)
        if len(steps) > _MOST:
            raise PodsimError(f"sizes {sizes[:60]!r}: more than {_MOST} sizes; take a larger step")
    return tuple(steps)
