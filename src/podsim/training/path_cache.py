"""Counts of paths kept on disk: a search of the same model plays no schedule again.

They depend on the model's blocks and on the pipeline alone, not on the cluster. A file holds those of one model's blocks,
in the user's cache (podsim.cache_folder). Its name is a hash of the blocks and of the sources that count paths, so what
an older release wrote is not read. Files are written whole, and what cannot be read counts as absent: they may be deleted
at any time, and several processes may write them at once.
"""

from __future__ import annotations

import hashlib
import io
import stat
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from podsim.cache_folder import cache_folder, is_private
from podsim.foreign_files import DAMAGED_ARRAYS

Size: TypeAlias = tuple[int, int, int, int]
"""(schedule, ranks, chunks of a rank, micro-batches)"""
Counts: TypeAlias = NDArray[np.float64]
_LARGEST = 1 << 26
"""B. The largest file that is read or written."""
_LARGEST_UNPACKED = 1 << 30
"""B of its arrays."""
_MOST = 64
"""The number of files that stay; the oldest go first."""
_SOURCES = (
    *(
        Path(__file__).with_name(name)
        for name in ("paths.py", "pipeline_paths.py", "pipeline_stages.py", "path_counts.c", "path_cache.py")
    ),
    *sorted((Path(__file__).parents[1] / "schedules").glob("*.py")),
)


@cache
def _sources_digest() -> str:
    return hashlib.sha256(b"\n".join(path.read_bytes() for path in _SOURCES)).hexdigest()


def _file(blocks: tuple[object, ...]) -> Path | None:
    """The file of a model's blocks; None where the user has no cache."""
    folder = cache_folder("paths")
    name = hashlib.sha256(f"{_sources_digest()}{blocks!r}".encode()).hexdigest()[:32]
    return None if folder is None else folder / f"{name}.npz"


def read_counts(blocks: tuple[object, ...]) -> dict[Size, Counts]:
    """The counts of the longest paths of each pipeline that is kept for a model's blocks."""
    path = _file(blocks)
    if path is None or not is_private(path, stat.S_ISREG) or path.stat().st_size > _LARGEST:
        return {}
    try:
        packed = io.BytesIO(path.read_bytes())
        if sum(part.file_size for part in zipfile.ZipFile(packed).infolist()) > _LARGEST_UNPACKED:
            return {}
        with np.load(packed, allow_pickle=False) as file:
            sizes, paths = np.asarray(file["sizes"]), np.asarray(file["paths"])  # bytes if they are no arrays
            counts = file["counts"].astype(float)
    except DAMAGED_ARRAYS:
        return {}
    is_whole = sizes.shape == (paths.size, 4) and paths.ndim == 1 and counts.ndim == 2
    is_counted = is_whole and sizes.dtype.kind == paths.dtype.kind == "i" and bool((paths >= 0).all())
    if not is_counted or paths.sum() != len(counts) or not np.isfinite(counts).all():
        return {}
    parts = np.split(counts, np.cumsum(paths)[:-1])
    return {(row[0], row[1], row[2], row[3]): part for row, part in zip(sizes.tolist(), parts, strict=True)}


def write_counts(blocks: tuple[object, ...], played: Mapping[Size, Counts]) -> None:
    """Keep counts of pipelines with those that are there already; a full or read-only disk keeps none."""
    path = _file(blocks)
    if path is None or not played:
        return
    every = {**read_counts(blocks), **played}
    counts = np.concatenate(list(every.values()))
    short = counts.astype(np.float32)
    out = io.BytesIO()
    np.savez_compressed(
        out,
        sizes=np.array(list(every), dtype=np.int64),
        paths=np.array([len(part) for part in every.values()]),
        counts=short if np.array_equal(short, counts) else counts,
    )
    try:
        if out.tell() <= _LARGEST:
            from podsim.whole_files import write_whole

            if not is_private(path, stat.S_ISREG):
                path.unlink(missing_ok=True)  # a new file would keep the permissions of an old one
            write_whole(path, out.getvalue())
        kept = sorted(path.parent.glob("*.npz"), key=lambda file: file.stat().st_mtime)
        for old in kept[:-_MOST]:
            old.unlink(missing_ok=True)
    except OSError:
        pass  # the next process plays them again
