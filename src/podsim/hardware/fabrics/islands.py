"""What hangs together in a fabric, by the names of its parts."""

from __future__ import annotations

from podsim.hardware.fabrics.fabric import Fabric

__all__ = ["islands", "link_names", "lost_text"]


def link_names(fabric: Fabric) -> tuple[list[str], list[str]]:
    """Names of the tails and of the heads of all links."""
    both = [block.ends(place) for block in fabric.blocks for place in range(block.count)]
    return [tail for tail, _ in both], [head for _, head in both]


def islands(fabric: Fabric) -> tuple[tuple[str, ...], ...]:
    """Ends that working links join in one direction or the other, by name, the largest island first."""
    root: dict[str, str] = {}

    def top(part: str) -> str:
        while root.setdefault(part, part) != part:
            root[part] = root[root[part]]
            part = root[part]
        return part

    for tail, head, rate in zip(*link_names(fabric), fabric.capacity, strict=True):
        if rate > 0:
            root[top(tail)] = top(head)
    found: dict[str, list[str]] = {}
    for ends in fabric.ends:
        for place in range(ends.count):
            found.setdefault(top(ends.name(place)), []).append(ends.name(place))
    return tuple(sorted((tuple(names) for names in found.values()), key=len, reverse=True))


def lost_text(fabric: Fabric, source: int, destination: int) -> str:
    """Why there is no route between two ends: the smaller island is named."""
    names = fabric.end_name(source), fabric.end_name(destination)
    groups = islands(fabric)
    one, other = (next(group for group in groups if name in group) for name in names)
    said = f"{fabric.name}: no route from {names[0]} to {names[1]}"
    if one is other:
        return f"{said}; links join them, but broken ones cut every way that is allowed"
    island = min(other, one, key=len)
    listed = ", ".join(island[:8]) + (f" and {len(island) - 8} more" if len(island) > 8 else "")
    return f"{said}; {listed} {'is' if len(island) == 1 else 'are'} an island that no route reaches"
