"""Tensors of a run as data: every rank writes its shards as a safetensors file, and any layout reads them.

A safetensors file is a JSON header and bare numbers, so that reading one runs nothing. The header's metadata gives the
place of each shard in its tensor, as JSON: {"weights.head.weight": {"shape": [256, 64], "offset": [128, 0]}, …}.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.errors import CheckpointError, LabError
from podsim.packaged import install_hint

FORMAT = "podsim-shards"
_PATTERN = "rank-*.safetensors"
_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")


@dataclass(frozen=True, kw_only=True)
class Shard:
    """The block of a tensor that a rank holds, axis by axis."""

    shape: tuple[int, ...]
    """The size of the whole tensor in elements."""
    offset: tuple[int, ...]
    """The first element of the block."""
    size: tuple[int, ...]
    """The size of the block in elements."""


def load_safetensors(part: str = "safetensors") -> Any:
    """The safetensors module, or a part of it; LabError where it is not installed."""
    try:
        return import_module(part)
    except ImportError as error:
        raise LabError(
            f"checkpoints need safetensors, which is not installed: {install_hint('lab')}"
        ) from error


def write_shards(
    folder: Path, rank: int, shards: Mapping[str, Shard], data: Mapping[str, NDArray[Any]]
) -> None:
    """Write a rank's shards as one file. Raises OSError where the drive is full or fails."""
    numpy_files = load_safetensors("safetensors.numpy")
    header = {name: {"shape": shard.shape, "offset": shard.offset} for name, shard in shards.items()}
    metadata = {"format": FORMAT, "shards": json.dumps(header)}
    try:
        numpy_files.save_file(dict(data), folder / f"rank-{rank}.safetensors", metadata)
    except load_safetensors().SafetensorError as problem:
        code = _SYSTEM_ERROR.search(str(problem))
        if code is None:
            raise
        raise OSError(int(code[1]), os.strerror(int(code[1]))) from None


def shapes_of(folder: Path) -> dict[str, tuple[int, ...]]:
    """Shapes of all tensors of a checkpoint. Raises CheckpointError for files that are none of podsim's."""
    return {name: shard.shape for _, shards in _files(folder) for name, shard in shards.items()}


def read_shards(folder: Path, wanted: Mapping[str, Shard]) -> dict[str, NDArray[Any]]:
    """The numbers of some shards, put together from whatever shards the files hold.

    Raises CheckpointError for a tensor that is missing, incomplete or of another shape, and for files that are none of
    podsim's.
    """
    arrays: dict[str, NDArray[Any]] = {}
    missing = {name: prod(shard.size) for name, shard in wanted.items()}
    for file, shards in _files(folder):
        for name in wanted.keys() & shards.keys():
            there, here = shards[name], wanted[name]
            if there.shape != here.shape:
                raise CheckpointError(f"{name} has shape {list(there.shape)}, not {list(here.shape)}")
            overlap = _overlap(there, here)
            if overlap is None:
                continue
            piece = file.get_slice(name)[_slices(overlap, there)]
            array = arrays.setdefault(name, np.empty(here.size, piece.dtype))
            array[_slices(overlap, here)] = piece
            missing[name] -= prod(overlap.size)
    if incomplete := sorted(name for name, elements in missing.items() if elements):
        raise CheckpointError(f"{incomplete[0]} is missing or incomplete")
    return arrays


def _files(folder: Path) -> Iterator[tuple[Any, dict[str, Shard]]]:
    """(open file, its shards) of every file of a checkpoint."""
    library = load_safetensors()
    for path in sorted(folder.glob(_PATTERN)):
        if not path.is_file():
            raise CheckpointError(f"{path.name} is no regular file")
        try:
            with library.safe_open(path, "numpy") as file:
                yield file, _shards_of(file)
        except (library.SafetensorError, ValueError, KeyError, TypeError, AttributeError) as problem:
            raise CheckpointError(f"{path.name} is no file of podsim's checkpoints: {problem}") from None


def _shards_of(file: Any) -> dict[str, Shard]:
    """The shards of an open file; ValueError, KeyError or TypeError where its header is not podsim's."""
    header = file.metadata() or {}
    if header.get("format") != FORMAT:
        raise ValueError(f"its format is {str(header.get('format'))[:40]}, not {FORMAT}")
    entries, shards = json.loads(header["shards"]), {}
    for name in file.keys():  # noqa: SIM118 - the library's file is no mapping
        shape, offset = (tuple(int(count) for count in entries[name][key]) for key in ("shape", "offset"))
        size = tuple(file.get_slice(name).get_shape())
        if not len(shape) == len(offset) == len(size):
            raise ValueError(f"{name} has {len(size)} axes, and {len(shape)} in the header")
        shards[name] = Shard(shape=shape, offset=offset, size=size)
    return shards


def _overlap(first: Shard, second: Shard) -> Shard | None:
    """The block that two shards of a tensor share; None where there is none."""
    start = tuple(map(max, first.offset, second.offset))
    ends = ([begin + count for begin, count in zip(shard.offset, shard.size, strict=True)]
            for shard in (first, second))  # fmt: skip
    size = tuple(end - begin for begin, end in zip(start, map(min, *ends), strict=True))
    return Shard(shape=first.shape, offset=start, size=size) if all(count > 0 for count in size) else None


def _slices(block: Shard, shard: Shard) -> tuple[slice, ...]:
    """The position of a block within a shard that holds it."""
    starts = (first - origin for first, origin in zip(block.offset, shard.offset, strict=True))
    return tuple(slice(start, start + count) for start, count in zip(starts, block.size, strict=True))
