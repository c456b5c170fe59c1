"""What options of the lab's commands may be, in words: all that is wrong with them, for one error."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from podsim.lab.ranks import MOST_RANKS
from podsim.lab.wires import BACKENDS


def outside(values: Iterable[tuple[str, float, float, float]]) -> list[str]:
    """A line for each (option, value, least, most) whose value is no number from least to most."""
    return [
        f"--{name} {value:g}; it must be {least:g} to {most:g}"
        for name, value, least, most in values
        if not least <= value <= most
    ]


def wrong_ranks(ranks: int, started: int | None) -> list[str]:
    """A line if there cannot be this many ranks; `started`: ranks that torchrun or others started, None if nobody did."""
    if started is not None:
        differs = ranks != started
        return [f"--ranks {ranks}: this job was started with {started}; leave --ranks out"] if differs else []
    if 1 <= ranks <= MOST_RANKS:
        return []
    return [f"--ranks {ranks}; 1 to {MOST_RANKS} are forked on one machine, more are started with torchrun"]


def unknown_backend(backend: str) -> list[str]:
    """A line if ranks cannot talk that way."""
    return [f"--backend {backend[:40]!r}; known: {', '.join(BACKENDS)}"] if backend not in BACKENDS else []


def no_folder(save: Path | None, option: str = "--save") -> list[str]:
    """A line if the run, or its picture, cannot be kept there; said before it is made."""
    if save is None or save.parent.is_dir():
        return []
    return [f"{option} {save}: there is no folder {save.parent}"]
