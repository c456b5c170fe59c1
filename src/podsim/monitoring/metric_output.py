"""Metrics of a source, written to a file or served until Ctrl-C; and the dashboards and rules that read them."""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Iterable
from importlib.resources import as_file, files
from pathlib import Path
from typing import TypeAlias

import numpy as np

from podsim.axes import Floats
from podsim.errors import PodsimError
from podsim.monitoring.day_source import DaySource
from podsim.monitoring.exposition import Family, metric_text
from podsim.monitoring.host_source import HostSource
from podsim.monitoring.metric_server import make_server
from podsim.monitoring.training_source import TrainingSource
from podsim.quoting import visible
from podsim.units import format_quantity, read_duration
from podsim.whole_files import write_files, write_pieces

_MOST_SAMPLES = 50_000_000
_MOST_TIMES = 20_000
Source: TypeAlias = DaySource | HostSource | TrainingSource


def write_samples(source: Source, every: str, path: Path) -> None:
    """Write all samples as OpenMetrics, with their own times, those of a day at equal distances (`every`, as 60s).

    A name that ends in .gz gets gzip. Before, the size of the text is said on standard error.

    Raises PodsimError for more samples than are written, and for a file that cannot be.
    """
    times = _sample_times(source, every)
    series = sum(int((family.series >= 0).sum()) for family in source.families(times[:1]))
    if series * len(times) > _MOST_SAMPLES:
        least = series * source.length / _MOST_SAMPLES
        raise PodsimError(
            f"{series:,} series at {len(times):,} times are more than {_MOST_SAMPLES:,} samples, all that is written;"
            f" take --every {least:.0f}s or more, a shorter --length, or fewer nodes"
        )
    scrape = sum(
        len(piece) for piece in metric_text(source.families(times[:1]), "openmetrics", times[:1].tolist())
    )
    packed = path.suffix.lower() == ".gz"
    sys.stderr.write(
        f"podsim: about {format_quantity(float(scrape * len(times)), 'B')} of text"
        f"{', packed by gzip' if packed else f'; with --write {path.name}.gz a fraction of it'}\n"
    )
    pieces = (piece.encode() for piece in metric_text(source.families(times), "openmetrics", times.tolist()))
    try:
        write_pieces(path, _packed(pieces) if packed else pieces)
    except OSError as problem:
        raise PodsimError(f"--write {str(path)[-80:]}: {problem.strerror or problem}") from None
    sys.stdout.write(f"{visible(str(path))}: {series:,} series at {len(times):,} times\n")
    sys.stdout.writelines(_fault_lines(source))


def _packed(pieces: Iterable[bytes]) -> Iterable[bytes]:
    """The pieces as gzip, without a time in its head."""
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    yield from map(packer.compress, pieces)
    yield packer.flush()


def _fault_lines(source: Source) -> Iterable[str]:
    """The faults of a day, and which of them have no effect."""
    if not isinstance(source, DaySource):
        return
    for fault in source.day.faults:
        lacks = fault.lacks(source.day.cluster, source.day.runs)
        yield f"fault {fault}{f' has no effect: no {lacks} on its part then' if lacks else ''}\n"


def _sample_times(source: Source, every: str) -> Floats:
    """The times of the samples that are written: of a training run, those of its steps."""
    if isinstance(source, TrainingSource):
        return source.ends
    if isinstance(source, HostSource):
        return np.array([time.time()])
    step = read_duration(every, "every")
    if not step > 0 or source.length / step > _MOST_TIMES:
        raise PodsimError(f"every={every}; above 0, and at most {_MOST_TIMES:,} times in the day")
    return source.begin + np.arange(0.0, source.length, step)


def write_dashboards(folder: Path) -> None:
    """Write the dashboards, the alert rules and a configuration to a folder."""
    try:
        with as_file(files("podsim.monitoring") / "files") as packaged:
            for path in sorted(each for each in packaged.rglob("*") if each.suffix in (".json", ".yml")):
                target = folder / path.relative_to(packaged)
                target.parent.mkdir(parents=True, exist_ok=True)
                write_files({target: path.read_bytes()})
                sys.stdout.write(f"{visible(str(target))}\n")
    except OSError as problem:
        raise PodsimError(f"--files {str(folder)[-80:]}: {problem.strerror or problem}") from None


def serve_metrics(source: Source, *, speed: float, host: str, port: int) -> None:
    """Answer scrapes until Ctrl-C: a day goes by at its pace, and stays at its end."""
    began = time.monotonic()

    def scrape() -> Iterable[Family]:
        passed = min((time.monotonic() - began) * speed, source.length)
        return source.families(np.array([source.begin + passed]))

    server = make_server(scrape, host, port)
    sys.stdout.write(f"podsim: http://{host}:{server.server_address[1]}/metrics\npodsim: Ctrl-C ends it\n")
    sys.stdout.writelines(_fault_lines(source))
    sys.stdout.flush()
    with server:
        server.serve_forever()
