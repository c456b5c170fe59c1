"""One typed door to numba: `@njit` compiles a function of arrays to machine code and keeps the result on disk.

Importing a module of kernels imports numba (0.3 s): keep such imports off the path of `podsim --help`.
The disk cache follows the file of the function it compiled, not the files of the kernels that one calls: after
editing a kernel, remove `__pycache__/*.nbi` of the package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba  # type: ignore[import-untyped]

__all__ = ["njit"]

Function = TypeVar("Function", bound=Callable[..., object])


def njit(function: Function) -> Function:
    """The function, compiled on its first call: IEEE arithmetic, no bounds checks, division by zero gives infinity."""
    return cast("Function", numba.njit(cache=True, error_model="numpy")(function))
