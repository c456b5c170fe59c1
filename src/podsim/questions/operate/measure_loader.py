"""`podsim measure loader`: samples read for real, epoch after epoch, from a folder or an object store through a cache."""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass
from pathlib import Path

from podsim.answers.lab_storage import MeasuredLoader
from podsim.answers.saved_run import write_run
from podsim.errors import LabError, PodsimError, UnitError, raise_all, unknown_name
from podsim.lab.loader import LoaderJob
from podsim.lab.loader import measure_loader as run
from podsim.lab.options import no_folder, outside
from podsim.lab.places import place_of
from podsim.lab.samples import CACHES, make_samples
from podsim.lab.small_model import MODELS
from podsim.options.measure_options import RanksOptions
from podsim.options.question import Progress, like, no_progress, option, question
from podsim.units import parse_quantity

_MAKE = re.compile(r"\s*([0-9]{1,9})\s*x\s*(.+?)\s*")
_KINDS = {"filecache": "file", "blockcache": "block"}


@dataclass(frozen=True, kw_only=True)
class MeasureLoaderOptions:
    """Samples that are read."""

    source: str = option(MISSING, "Folder, or URL: s3://bucket/folder. Each file is a sample.", argument=True)
    epochs: int = option(3, "Passes over the samples.")
    workers: int = option(2, "Processes that read.")
    cache: Path | None = option(None, "Folder that fsspec keeps samples in.")
    cache_kind: str = option("file", "file (whole samples) or block.")
    batch: int = option(32, "Samples of a step.")
    step_time: str | float = option("0", "Time of an emulated accelerator's step: 50ms. 0: read only.")
    model: str = option("", "resnet: train a small network on the samples.")
    make: str = option("", "First make samples: 1000x150KB.")
    keep_page_cache: bool = option(
        False, "Keep the page cache; by default it is dropped before each epoch.", flag="--keep-page-cache"
    )
    seed: int = option(0, "Seed of the order of the samples.")
    save: Path | None = like(RanksOptions, "save")


@question(
    MeasureLoaderOptions,
    progress="reading samples",
    status=lambda run: 130 if run.stopped else 0,
)
def measure_loader(options: MeasureLoaderOptions, *, progress: Progress = no_progress) -> MeasuredLoader:
    """Samples/s, B/s and accelerator utilisation of epochs of samples, and where their bytes came from.

    Each worker reads two batches ahead. A source "filecache::s3://…" says which kind of cache. `step_time` is that of an
    emulated accelerator, as in MLPerf Storage. Unless `keep_page_cache` is set, the page cache drops what it holds of
    samples and cache before each epoch.

    Ctrl-C ends the run, and what was measured is given. Raises PodsimError for what makes no sense, LabError for
    samples that cannot be read.
    """
    source, cache_kind = options.source, options.cache_kind
    head, chained, rest = source.partition("::")
    if chained and head in _KINDS:
        source, cache_kind = rest, _KINDS[head]
        if options.cache is None:
            raise LabError(f"{head}:: keeps samples in a folder; name it with --cache")
    step = parse_quantity(options.step_time, "s", what="--step-time")
    wrong = [] if cache_kind in CACHES else [unknown_name("kind of cache", cache_kind, CACHES)]
    if options.model and options.model not in MODELS:
        wrong.append(unknown_name("model", options.model, MODELS))
    if options.model and step:
        wrong.append("--model trains, --step-time stands for training: give one of them")
    wrong += outside((
        ("epochs", options.epochs, 1, 10_000), ("workers", options.workers, 1, 256),
        ("batch", options.batch, 1, 1_000_000), ("step-time", step, 0, 3600), ("seed", options.seed, 0, 2**63),
    ))  # fmt: skip
    raise_all(wrong)
    raise_all(no_folder(options.save), LabError)
    samples = place_of(source)
    if options.cache and cache_kind == "block" and (samples.local or samples.filesystem == "memory"):
        raise LabError(
            f"{source}: fsspec reads such files around its cache of blocks: take --cache-kind file"
        )
    if options.cache and samples.local and options.cache.absolute().is_relative_to(samples.path):
        raise LabError(
            f"--cache {options.cache} is within {samples.path}: its files would be taken for samples; give another folder"
        )
    if options.make:
        make_samples(samples, *_made(options.make), progress, options.seed)
    elif samples.local and not Path(samples.path).is_dir():
        raise LabError(
            f"{source}: there is no such folder; --make 1000x150KB makes one with so many samples of so many bytes"
        )
    measured = run(
        LoaderJob(
            place=samples, cache=cache_kind if options.cache else "none",
            folder=str(options.cache.absolute()) if options.cache else "", epochs=options.epochs,
            workers=options.workers, batch=options.batch, step=step, model=options.model,
            keep_pages=options.keep_page_cache, seed=options.seed,
        ),
        progress,
    )  # fmt: skip
    if options.save is not None:
        write_run(options.save, measured)
    return measured


def _made(text: str) -> tuple[int, int]:
    """(samples, B of each) of a text such as 1000x150KB."""
    match = _MAKE.fullmatch(text)
    try:
        count, size = (int(match[1]), round(parse_quantity(match[2], "B"))) if match else (0, 0)
    except UnitError:
        count = size = 0
    if not 1 <= count <= 10_000_000 or not 1 <= size <= 1 << 32:
        raise PodsimError(f"--make {text[:40]!r}; expected samples x bytes, such as 1000x150KB")
    return count, size
