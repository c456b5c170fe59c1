"""Tensors in safetensors files: read with bounds, by name and without copies; written whole or not at all.

A file is 8 bytes with the length of the header, the header as JSON, and bare numbers. Reading one runs nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.errors import PodsimError
from podsim.whole_files import whole_file

MOST_HEADER = 100 << 20
MOST_TENSORS = 1_000_000
_MOST_AXES = 16
WIDTHS: Mapping[str, int] = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1,
    "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
}  # fmt: skip
"""bytes of an element, by the name of its type in a header"""
BITS: Mapping[str, type[Any]] = {
    "F64": np.uint64, "F32": np.uint32, "F16": np.uint16, "BF16": np.uint16,
}  # fmt: skip
"""the unsigned integer of the same width, of the types that masks are for"""


@dataclass(frozen=True, kw_only=True)
class TensorEntry:
    """One tensor of a file."""

    name: str
    kind: str
    """The type of its elements, as F16."""
    shape: tuple[int, ...]
    """The size of each axis in elements."""
    begin: int
    """B. The position of its first byte in the file."""
    end: int
    """B. The position after its last byte."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TensorFile:
    """A file that is open for reading."""

    path: Path
    entries: tuple[TensorEntry, ...]
    """The tensors in the order of their bytes."""
    metadata: Mapping[str, str]
    data: NDArray[np.uint8]
    """The bytes of the file, which are read when they are needed."""

    def raw(self, entry: TensorEntry) -> NDArray[np.uint8]:
        """The bytes of a tensor."""
        return self.data[entry.begin : entry.end]

    def bits(self, entry: TensorEntry) -> NDArray[Any]:
        """The elements of a tensor as unsigned integers of their width, in its shape."""
        return np.asarray(self.raw(entry).view(BITS[entry.kind]).reshape(entry.shape))


def read_tensor_file(path: Path) -> TensorFile:
    """A safetensors file. Raises PodsimError, naming what is wrong, for one that cannot be read or is none."""
    try:
        data = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.empty(0, np.uint8)
    except (OSError, ValueError) as problem:
        raise PodsimError(
            f"{path}: cannot be read: {getattr(problem, 'strerror', None) or problem}"
        ) from None
    length = int.from_bytes(data[:8].tobytes(), "little") if len(data) >= 8 else -1
    if not 2 <= length <= min(len(data) - 8, MOST_HEADER):
        raise PodsimError(f"{path}: no safetensors file: its first 8 bytes give no length of a header")
    try:
        header = json.loads(data[8 : 8 + length].tobytes())
    except (ValueError, RecursionError):
        raise PodsimError(f"{path}: no safetensors file: its header is no JSON") from None
    if not isinstance(header, dict) or len(header) > MOST_TENSORS:
        raise PodsimError(f"{path}: its header is no table of up to {MOST_TENSORS:,} tensors")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise PodsimError(f"{path}: __metadata__ of its header is no table of texts")
    entries = sorted(
        (_entry(path, name, described, 8 + length, len(data)) for name, described in header.items()),
        key=lambda each: each.begin,
    )
    position = 8 + length
    for entry in entries:
        if entry.begin != position:
            raise PodsimError(f"{path}: the bytes of {entry.name[:80]!r} overlap others or leave a gap")
        position = entry.end
    if position != len(data):
        raise PodsimError(f"{path}: {len(data) - position:,} bytes belong to no tensor; the file is damaged")
    return TensorFile(path=path, entries=tuple(entries), metadata=metadata, data=data)


def _entry(path: Path, name: str, described: Any, start: int, size: int) -> TensorEntry:
    """A tensor as the header describes it."""
    fields: dict[str, Any] = described if isinstance(described, dict) else {}
    kind, shape, offsets = (
        fields.get("dtype"),
        _counts(fields.get("shape")),
        _counts(fields.get("data_offsets")),
    )
    if not isinstance(kind, str) or kind not in WIDTHS:
        raise PodsimError(f"{path}: {name[:80]!r} has type {str(kind)[:20]!r}; known are {', '.join(WIDTHS)}")
    if shape is None or offsets is None or len(offsets) != 2 or len(shape) > _MOST_AXES:
        raise PodsimError(f"{path}: {name[:80]!r} has no shape and data_offsets of whole numbers")
    begin, end = offsets
    if end - begin != math.prod(shape) * WIDTHS[kind] or start + end > size:
        raise PodsimError(f"{path}: {name[:80]!r} of shape {shape} does not fill bytes {begin:,} to {end:,}")
    return TensorEntry(name=name, kind=kind, shape=shape, begin=start + begin, end=start + end)


def _counts(value: Any) -> tuple[int, ...] | None:
    """A list of whole numbers from 0; None for anything else."""
    is_counts = isinstance(value, list) and all(type(each) is int and each >= 0 for each in value)
    return tuple(value) if is_counts else None


def write_tensor_file(
    path: Path,
    tensors: Iterable[tuple[str, str, tuple[int, ...]]],
    parts: Iterable[NDArray[Any]],
    metadata: Mapping[str, str],
) -> None:
    """Write tensors (name, type, shape) whose numbers come one after the other; a file of that name is replaced.

    Raises PodsimError where it cannot be written.
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    done = 0
    for name, kind, shape in tensors:
        size = math.prod(shape) * WIDTHS[kind]
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [done, done + size]}
        done += size
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    try:
        with whole_file(path) as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for part in parts:
                file.write(np.ascontiguousarray(part).data)
    except OSError as problem:
        raise PodsimError(f"{path}: cannot be written: {problem.strerror or problem}") from None
