"""The C core: where its library comes from, and how arrays cross to it.

    class Flows(NamedTuple):                        # struct Flows {
        starts: Ints                                #     const int64_t *starts;
        capacity: Floats                            #     const double *capacity;
        links: int                                  #     int64_t links;   };

    _fill = c_function("flow_fill", Ints, int, Flows, Floats)
    # EXPORT void flow_fill(int64_t *todo, int64_t count, const struct Flows *flows, double *rates)
    _level = c_function("flow_level", Flows, float, result=float)      # result: int, float, bool or nothing

    flows = c_struct(Flows(...))                    # once per run; it keeps the arrays alive
    _fill(todo, len(todo), flows, rates)            # a NamedTuple itself is also taken, and made a struct in the call

An array is NDArray[kind] of the type that is declared, C-contiguous; arrays of records are declared
`Annotated[NDArray[np.void], DTYPE]`, or `Any`. A NamedTuple's fields are arrays, int, float or bool: 8 bytes each in C.
`c_function` only declares: the library is loaded by the first call, and compiled where the installation has none.
"""

from __future__ import annotations

import ctypes
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property, partial
from pathlib import Path
from types import NoneType
from typing import Any, Generic, TypeVar, get_args, get_type_hints, overload

import numpy as np

from podsim.c_compiler import CompileError, compile_library, compiler_commands, library_name
from podsim.cache_folder import cache_folder, is_private
from podsim.errors import NativeError

PACKAGE = Path(__file__).parent
Result = TypeVar("Result")


class CFunction(Generic[Result]):
    """A function of the C core, callable; see `c_function`."""

    def __init__(self, name: str, arguments: tuple[Any, ...], result: type[Result]) -> None:
        """Keep the declaration."""
        self.name, self.arguments, self.result = name, arguments, result

    @cached_property
    def _parts(self) -> tuple[Callable[..., Result], list[Callable[[Any], object] | None]]:
        """(the function of the library, what makes each argument one of C's; None: as it is)."""
        function = getattr(load_library(), self.name)
        function.argtypes = [_argument_type(kind) for kind in self.arguments]
        function.restype = None if self.result is NoneType else _SCALARS[self.result]
        return function, [_argument_converter(kind) for kind in self.arguments]

    def __call__(self, *values: object) -> Result:
        """Call it; the GIL is free meanwhile, and Ctrl-C waits."""
        function, converters = self._parts
        return function(
            *(convert(value) if convert else value for convert, value in zip(converters, values, strict=True))
        )


@overload
def c_function(name: str, *arguments: object) -> CFunction[None]: ...
@overload
def c_function(name: str, *arguments: object, result: type[Result]) -> CFunction[Result]: ...
def c_function(name: str, *arguments: object, result: type[Any] = NoneType) -> CFunction[Any]:
    """A function of the C core by its name and the kinds of its arguments: array types, NamedTuples, int, float."""
    return CFunction(name, arguments, result)


def c_struct(values: tuple[Any, ...]) -> ctypes.Structure:
    """The struct of a NamedTuple, whose arrays it keeps. Raises TypeError for an array of another kind than declared."""
    kind = _struct_type(type(values))
    cells = []
    for (name, hint), value in zip(_fields(type(values)), values, strict=True):
        try:
            cells.append(value if hint in _SCALARS else _address(_dtype(hint), value))
        except TypeError as problem:
            raise TypeError(f"{type(values).__name__}.{name}: {problem}") from None
    struct = kind(*cells)
    struct._values = values
    return struct


_SCALARS: dict[Any, Any] = {int: ctypes.c_int64, float: ctypes.c_double, bool: ctypes.c_int64}


@cache
def _fields(kind: type) -> tuple[tuple[str, Any], ...]:
    """(name, annotation) of the fields of a NamedTuple."""
    return tuple(get_type_hints(kind, include_extras=True).items())


@cache
def _struct_type(kind: type) -> type[ctypes.Structure]:
    """The struct of a NamedTuple class."""
    fields = [(name, _SCALARS.get(hint, ctypes.c_void_p)) for name, hint in _fields(kind)]
    return type(kind.__name__, (ctypes.Structure,), {"_fields_": fields})


@cache
def _dtype(hint: Any) -> Any:
    """The numpy dtype of the elements of an annotated array; None where it is left open."""
    for extra in getattr(hint, "__metadata__", ()):
        if isinstance(extra, np.dtype):
            return extra
    if hint is Any:
        return None
    array = getattr(hint, "__origin__", hint) if hasattr(hint, "__metadata__") else hint
    parts = get_args(
        array
    )  # (shape, dtype[scalar]), or (scalar,) where NDArray is an alias statement of numpy
    return np.dtype(parts[0] if len(parts) == 1 else get_args(parts[1])[0])


def _address(kind: Any, array: Any) -> int:
    """Where the elements of an array lie."""
    is_array = isinstance(array, np.ndarray) and array.flags.c_contiguous
    if not is_array or (kind is not None and kind != array.dtype):
        given = f"{array.dtype} array" if isinstance(array, np.ndarray) else type(array).__name__
        raise TypeError(f"a C-contiguous {kind or 'record'} array is needed, not a {given}")
    return int(array.ctypes.data)


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple)


def _argument_type(kind: Any) -> Any:
    if _is_struct(kind):
        return ctypes.POINTER(_struct_type(kind))
    return _SCALARS.get(kind, ctypes.c_void_p)


def _argument_converter(kind: Any) -> Callable[[Any], object] | None:
    if _is_struct(kind):
        return lambda value: value if isinstance(value, ctypes.Structure) else c_struct(value)
    return None if kind in _SCALARS else partial(_address, _dtype(kind))


@cache
def load_library() -> ctypes.CDLL:
    """The C library: the installation's, else the user's cache's, else compiled now.

    Raises NativeError where there is none and none can be compiled.
    """
    name = library_name(PACKAGE)
    if (PACKAGE / name).exists():
        with suppress(OSError):  # built for another C library, in an installation that several systems share
            return ctypes.CDLL(str(PACKAGE / name))
    from podsim.whole_files import scratch_folder, write_whole  # most installations bring the library

    folder = cache_folder("native")
    kept = None if folder is None else folder / name
    with suppress(OSError):  # a folder from which nothing may be loaded
        if kept is not None and is_private(kept, stat.S_ISREG):
            return ctypes.CDLL(str(kept))
    with scratch_folder() as aside:
        _compile(aside / name)
        with suppress(OSError):  # a full or read-only disk
            if kept is not None:
                kept.unlink(missing_ok=True)  # a new file would keep the permissions of an old one
                write_whole(kept, (aside / name).read_bytes())
                return ctypes.CDLL(str(kept))
        return ctypes.CDLL(str(aside / name))


def is_compiled() -> bool:
    """Whether the library is there, so that its first call need not compile it."""
    return bool(load_library.cache_info().currsize) or _is_built()


@cache
def _is_built() -> bool:
    name, folder = library_name(PACKAGE), cache_folder("native")
    return (PACKAGE / name).exists() or (folder is not None and is_private(folder / name, stat.S_ISREG))


def _compile(path: Path) -> None:
    """Compile the library, and say so."""
    if compiler_commands():
        print("podsim: compiling its C library, once (a few seconds)", file=sys.stderr, flush=True)
    try:
        compile_library(PACKAGE, path)
    except CompileError as problem:
        raise NativeError(str(problem)) from None
