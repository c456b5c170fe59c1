"""Epochs of samples, read by processes ahead of a consumer that is timed.

Workers read batches through fsspec (podsim.lab.samples), two batches ahead for each worker. The consumer takes them in
order and, for each, does nothing, sleeps for a step's time as MLPerf Storage's emulated accelerators do, or trains
a small residual network. Accelerator utilisation is the steps' time over the epoch's, as that benchmark defines it.

Before an epoch what the page cache holds of the store's folder and of the cache's is dropped, unless it is to be kept:
a data set that is small enough to be measured in minutes would else be read from memory, which no real one is.
"""

from __future__ import annotations

import os
import platform
import signal
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

from podsim.answers.lab_storage import MeasuredEpoch, MeasuredLoader
from podsim.errors import LabError
from podsim.lab import usage
from podsim.lab.places import Place, drop, filesystem_of
from podsim.lab.processes import die_with_parent, stopped_by_signals
from podsim.lab.samples import Loaded, Reader, list_samples
from podsim.lab.small_model import MODELS, make_trainer
from podsim.programs import needs_linux

AHEAD = 2
"""batches that each worker has under way"""
Step = Callable[[Loaded], float]
"""what is done with a batch; s that count as computing"""


@dataclass(frozen=True, kw_only=True)
class LoaderJob:
    """What is to be read, through what, and for whom."""

    place: Place
    cache: str
    """The kind of cache: file, block or none."""
    folder: str
    epochs: int
    workers: int
    batch: int
    step: float
    """s. The time of an emulated accelerator's step; 0 without one."""
    model: str
    """The model that trains; empty for none."""
    keep_pages: bool
    seed: int


_reader: Reader | None = None
"""of this process, where it is a worker"""


def _begin(place: Place, cache: str, folder: str, parent: int) -> None:
    """A worker's start: Ctrl-C is its parent's business."""
    global _reader  # noqa: PLW0603
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with_parent(parent)
    _reader = Reader(place, cache, folder)


def _load(paths: Sequence[str], epoch: int, decode: bool) -> Loaded:
    assert _reader is not None
    return _reader.load(paths, epoch, decode)


def measure_loader(
    job: LoaderJob, progress: Callable[[int, int], None] = lambda _done, _whole: None
) -> MeasuredLoader:
    """The epochs as they were measured; after Ctrl-C those until then. LabError where samples cannot be read."""
    needs_linux("forking readers of samples")
    samples = list_samples(job.place)
    names, rows, stopped = list(samples), [], False
    generator = np.random.default_rng(job.seed)
    started = usage.now_text()
    many = -(-len(names) // job.batch)
    with stopped_by_signals(), _pool(job) as (pool, readers):
        step, name = _consumer(job)
        for epoch in range(job.epochs):
            measured = _Epoch(epoch)
            try:
                if not job.keep_pages:
                    _drop_pages(job, names)
                order = [names[k] for k in generator.permutation(len(names))]
                batches = [order[first : first + job.batch] for first in range(0, len(order), job.batch)]
                for done in measured.run(pool, batches, step, job):
                    progress(epoch * many + done, job.epochs * many)
            except KeyboardInterrupt:
                stopped = True
                for reader in readers:  # one may wait for a store that does not answer
                    reader.kill()
            except BrokenProcessPool:
                raise LabError(f"a process that read samples died in epoch {epoch + 1}") from None
            if measured.steps:
                rows.append(measured.row(job, whole=not stopped))
            if stopped:
                break
    if not rows:
        raise KeyboardInterrupt
    local = bool(job.folder)
    return MeasuredLoader(
        source=job.place.text, filesystem=job.place.filesystem, cache_kind=job.cache, cache_folder=job.folder,
        cache_filesystem=filesystem_of(Path(job.folder).absolute()) if local else "", samples=len(names),
        size=float(sum(samples.values())), batch=job.batch, workers=job.workers, consumer=name, step=job.step,
        page_cache="kept" if job.keep_pages else "dropped", host=platform.node(), cores=usage.cores(),
        software=f"{job.place.software}Python {platform.python_version()}", started=started, rows=tuple(rows),
        stopped=stopped,
    )  # fmt: skip


@contextmanager
def _pool(job: LoaderJob) -> Iterator[tuple[ProcessPoolExecutor, list[BaseProcess]]]:
    """The workers, forked at once: what is in this process's memory (memory://) they see as it is now."""
    before = active_children()
    if job.cache != "none":
        try:
            Path(job.folder).mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise LabError(f"--cache {job.folder}: {problem.strerror or problem}") from None
    pool = ProcessPoolExecutor(
        job.workers, mp_context=get_context("fork"), initializer=_begin,
        initargs=(job.place, job.cache, job.folder, os.getpid()),
    )  # fmt: skip
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # fsspec's thread and numpy's idle here; fsspec starts its own in a child
            pool.submit(os.getpid).result()
        yield pool, [child for child in active_children() if child not in before]
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _consumer(job: LoaderJob) -> tuple[Step, str]:
    """(what is done with a batch, what that is in words)."""
    if job.model:
        train = make_trainer(job.model, max(usage.cores() - job.workers, 1))  # the readers need theirs

        def trained(batch: Loaded) -> float:
            start = time.perf_counter()
            train(batch.pixels)
            return time.perf_counter() - start

        return trained, f"{MODELS[job.model]}, training"
    if not job.step:
        return (lambda _: 0.0), "read only"

    def slept(_: Loaded) -> float:
        time.sleep(job.step)
        return job.step

    return slept, f"emulated accelerator, a step of {job.step * 1e3:g} ms"


def _drop_pages(job: LoaderJob, names: Sequence[str]) -> None:
    """Take the samples' files and the cache's out of the page cache."""
    if job.place.local:
        for name in names:
            drop(Path(name))
    if job.folder:
        for path in Path(job.folder).iterdir():
            drop(path)


class _Epoch:
    """What was measured of an epoch so far."""

    def __init__(self, epoch: int) -> None:
        self.epoch, self.steps, self.waited, self.compute = epoch, 0, 0.0, 0.0
        self.told: list[Mapping[str, Any]] = []
        self.before, self.used = usage.mark(), {"wall": 0.0, "own": 0.0, "machine": 0.0, "packets": 0.0}

    def run(
        self, pool: ProcessPoolExecutor, batches: Sequence[Sequence[str]], step: Step, job: LoaderJob
    ) -> Iterator[int]:
        """Consume the batches; after each, how many are done."""
        ahead: deque[Future[Loaded]] = deque()
        left, self.before = iter(batches), usage.mark()

        def more() -> None:
            for paths in left:
                ahead.append(pool.submit(_load, paths, self.epoch, bool(job.model)))
                if len(ahead) >= AHEAD * job.workers:
                    return

        try:
            more()
            while ahead:
                start = time.perf_counter()
                batch = ahead.popleft().result()
                self.waited += time.perf_counter() - start
                self.compute += step(batch)
                self.steps += 1
                self.told.append({name: value for name, value in vars(batch).items() if name != "pixels"})
                self.used = usage.since(self.before)
                more()
                yield self.steps
        finally:
            for future in ahead:
                future.cancel()

    def row(self, job: LoaderJob, *, whole: bool) -> MeasuredEpoch:
        """The epoch's line."""

        def summed(name: str) -> float:
            return float(sum(batch[name] for batch in self.told))

        seconds, size = self.used["wall"], summed("size")
        used = dict(self.used, own=self.used["own"] + summed("processor"))
        cpu, others = usage.busiest([used], [usage.this_process()])
        drives = [batch["drive"] for batch in self.told]
        computed = job.model or job.step
        return MeasuredEpoch(
            epoch=self.epoch, whole=whole, samples=round(summed("samples")), steps=self.steps, seconds=seconds,
            rate=summed("samples") / seconds, bandwidth=size / seconds, compute=self.compute, waited=self.waited,
            utilisation=min(self.compute / seconds, 1.0) if computed else None, store=summed("store"),
            cache=max(size - summed("store"), 0.0), fetched=round(summed("fetched")),
            drive=None if None in drives else float(sum(drives)), reading=summed("reading"),
            decoding=summed("decoding"), processor=summed("processor"), cpu=cpu, others=others,
        )  # fmt: skip
