"""Samples in a folder or an object store: made, listed, and read through fsspec's own caches.

Every file is a sample. A cache keeps whole files ("filecache") or the blocks that were asked for ("blockcache") in a
folder, with a list of what it holds. fsspec rewrites that list whenever something is added, merged with what lies
there, but without a lock: of two processes that do so at once, one loses its entry, and the sample comes from the store
again. Here it is written once a batch, under a lock.

What came from the store is counted where fsspec fetches: `get_file` of the file system behind a cache of whole files,
and the bytes that a cache of blocks says it asked for.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.errors import LabError
from podsim.lab.image_files import is_picture, read_picture
from podsim.lab.places import Place, drive_bytes, first_line, fsspec_of

if sys.platform != "win32":
    import fcntl

CACHES = {"file": "WholeFileCacheFileSystem", "block": "CachingFileSystem"}
"""kind of cache -> fsspec's class"""
SIDE = 64
"""pixels of a side of the pictures that a model trains on"""
_HIDDEN = (".", "_")


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A batch as a worker read it."""

    samples: int
    size: float
    """B. The bytes of samples."""
    store: float
    """B. The bytes from the store."""
    fetched: int
    """The number of samples with some bytes from the store."""
    reading: float
    """s. The time spent reading."""
    decoding: float
    """s. The time spent decoding."""
    processor: float
    """s. The processor time."""
    drive: float | None
    """B. The bytes that drives supplied; None if the kernel does not tell."""
    pixels: NDArray[np.uint8] | None
    """The pixels by sample, colour, row and column; None if nothing is decoded."""


def list_samples(place: Place) -> dict[str, int]:
    """{path: B} of the samples of a place, in the order of their names. LabError where there are none."""
    system, path = fsspec_of(f"file://{place.path}" if place.local else place.path)
    try:
        files = system.find(path, detail=True)
    except FileNotFoundError:
        files = {}
    except Exception as problem:
        raise LabError(f"{place.text}: cannot be listed: {first_line(problem)}") from None
    samples = {
        name: int(entry["size"])
        for name, entry in sorted(files.items())
        if not name.rpartition("/")[2].startswith(_HIDDEN) and entry["size"]
    }
    if not samples:
        raise LabError(
            f"{place.text}: there are no files in it; --make 1000x150KB makes some, or give one of pictures or records"
        )
    return samples


def make_samples(
    place: Place, count: int, size: int, progress: Callable[[int, int], None], seed: int = 0
) -> None:
    """Write `count` files of `size` random bytes. LabError for a place that has files already, or that takes none."""
    system, path = fsspec_of(f"file://{place.path}" if place.local else place.path)
    generator = np.random.default_rng(seed)
    try:
        with suppress(FileNotFoundError):
            if any(entry.get("size") for entry in system.find(path, detail=True).values()):
                raise LabError(
                    f"--make: {place.text} has files already; leave --make out to read them, or give a new folder"
                )
        system.makedirs(path, exist_ok=True)
        for k in range(count):
            system.pipe_file(f"{path}/sample-{k:07d}.bin", generator.bytes(size))
            progress(k + 1, count)
    except LabError:
        raise
    except Exception as problem:
        raise LabError(f"--make: {place.text} cannot be written to: {first_line(problem)}") from None


class Reader:
    """Reads samples of a place, through a cache or not; a process has its own."""

    def __init__(self, place: Place, kind: str, folder: str) -> None:
        """Open the place, and a cache (file, block, none) that keeps its list in `folder`."""
        self.system, _ = fsspec_of(f"file://{place.path}" if place.local else place.path)
        self.epoch, self.fetched, self.kept, self.folder = -1, 0.0, kind != "none", Path(folder)
        self.save: Callable[[], None] = lambda: None
        if not self.kept:
            return
        fetch = self.system.get_file

        def counted(path: str, to: str, **more: Any) -> Any:
            done = fetch(path, to, **more)
            self.fetched += Path(to).stat().st_size
            return done

        self.system.get_file = counted
        base = getattr(import_module("fsspec.implementations.cached"), CACHES[kind])
        later = type(f"Later{base.__name__}", (base,), {"save_cache": lambda _: None})
        # it looks at the list of others at the start of an epoch only: an entry that is not saved yet would be lost
        self.system = later(fs=self.system, cache_storage=folder, cache_check=0, skip_instance_cache=True)
        self.save = lambda: base.save_cache(self.system)

    def load(self, paths: Sequence[str], epoch: int, decode: bool) -> Loaded:
        """A batch. Raises LabError, naming the sample, where one cannot be read or decoded."""
        if epoch != self.epoch:
            self.epoch = epoch
            if self.kept:
                self.system.load_cache()  # with what other processes put there in the epoch before
        before, drives, clock = self.fetched, drive_bytes(), time.process_time()
        pixels, size, fetched, reading, decoding = [], 0, 0, 0.0, 0.0
        for path in paths:
            start, had = time.perf_counter(), self.fetched
            try:
                data = self._bytes(path)
            except LabError:
                raise
            except Exception as problem:
                raise LabError(f"{path}: cannot be read: {first_line(problem)}") from None
            size, fetched = size + len(data), fetched + (self.fetched > had)
            middle = time.perf_counter()
            if decode:
                pixels.append(_decoded(path, data))
            reading, decoding = reading + middle - start, decoding + time.perf_counter() - middle
        if self.kept and self.fetched > before:
            with (self.folder / ".lock").open("w") as lock:
                if sys.platform != "win32":
                    fcntl.flock(lock, fcntl.LOCK_EX)
                self.save()
        after = drive_bytes()
        return Loaded(
            samples=len(paths), size=float(size), store=self.fetched - before, fetched=fetched, reading=reading,
            decoding=decoding, processor=time.process_time() - clock,
            drive=None if drives is None or after is None else after - drives,
            pixels=np.stack(pixels) if pixels else None,
        )  # fmt: skip

    def _bytes(self, path: str) -> bytes:
        """A sample; what came from the store is counted."""
        if not self.kept:
            read: bytes = self.system.cat_file(path)
            self.fetched += len(read)
            return read
        with self.system.open(path, "rb") as file:
            content: bytes = file.read()
            if isinstance(file, io.BufferedReader):  # all of it is in the cache
                return content
            if not isinstance(file, import_module("fsspec.spec").AbstractBufferedFile):
                raise LabError("fsspec reads such files around its cache of blocks: take --cache-kind file")
            self.fetched += file.cache.total_requested_bytes
        return content


def _decoded(path: str, data: bytes) -> NDArray[np.uint8]:
    """A picture of SIDE x SIDE: of an image file, or of a record's bytes taken for pixels."""
    if is_picture(path):
        try:
            return read_picture(data, SIDE)
        except ValueError as problem:
            raise LabError(f"{path}: is no picture: {problem}") from None
    wanted = 3 * SIDE * SIDE
    return np.resize(np.frombuffer(data, np.uint8), wanted).reshape(3, SIDE, SIDE)
