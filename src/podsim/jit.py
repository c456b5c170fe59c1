"""One typed door to numba: compile a function of arrays to machine code, and keep the result on disk.

Importing a module of kernels imports numba (0.3 s): keep such imports off the path of `podsim --help`.
The disk cache follows the file of the function it compiled, not the files of the kernels that one calls: after
editing a kernel, remove `__pycache__/*.nbi` of the package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def njit(function: Function) -> Function:
    """The function, compiled on its first call: IEEE arithmetic, no bounds checks, x / 0 is infinite."""
    return cast("Function", numba.njit(cache=True, error_model="numpy")(function))


def kernel(function: Function) -> Function:
    """The same for a function that creates no array: built into its callers, without counting references to arrays.

    Calls with many arrays and the counting of references to them took 98 % of the time of small kernels.
    """
    compiler = numba.njit(cache=True, error_model="numpy", _nrt=False, forceinline=True)  # type: ignore[call-overload]
    return cast("Function", compiler(function))


def part(function: Function) -> Function:
    """The same for a function that is called from several places and does much: compiled once, and called."""
    compiler = numba.njit(cache=True, error_model="numpy", _nrt=False)  # type: ignore[call-overload]
    return cast("Function", compiler(function))
