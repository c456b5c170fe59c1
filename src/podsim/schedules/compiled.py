"""Kernels compiled where it pays: loading the compiler takes longer than little work does in plain Python."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])

SMALL = 3_000
"""steps of a loop that plain Python does before the compiler is loaded"""


def quickest(function: Function, steps: int) -> Function:
    """The function as it is for few steps, compiled for many, or where the compiler is loaded anyway."""
    if steps <= SMALL and "numba" not in sys.modules:
        return function
    return _compiled(function)  # type: ignore[return-value]


@cache
def _compiled(function: Callable[..., object]) -> Callable[..., object]:
    from podsim.jit import njit

    return njit(function)
