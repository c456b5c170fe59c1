"""Writing a timeline to a file and reading it back; the file's name gives its format."""

from __future__ import annotations

import gzip
from pathlib import Path

from podsim.answers.timeline import Timeline
from podsim.errors import TimelineError
from podsim.options.question import Progress
from podsim.timeline.trace import chrome_text, read_chrome
from podsim.timeline.trace_perfetto import packets
from podsim.timeline.trace_perfetto_read import read_perfetto
from podsim.whole_files import whole_file, write_whole

SUFFIXES = (".json", ".json.gz", ".pftrace", ".pftrace.gz", ".png", ".svg", ".html")
"""The formats of `write_timeline`."""
_READABLE = (".json", ".json.gz", ".pftrace", ".pftrace.gz", ".perfetto-trace")
_LEVEL = 3
"""The level of gzip: files a fifth larger than the best, in a quarter of the time."""


def suffix_of(path: str | Path, known: tuple[str, ...], what: str) -> str:
    """The end of a file's name, which gives its format; TimelineError if the format is unknown."""
    name = Path(path).name.lower()
    suffix = max((end for end in known if name.endswith(end)), key=len, default="")
    if not suffix or name == suffix:
        raise TimelineError(
            f"{what} {str(path)[-80:]!r}: give a name that ends in {', '.join(known[:-1])} or {known[-1]}"
        )
    return suffix


def check_suffix(path: Path) -> None:
    """Raise TimelineError for a name that ends in no format of `write_timeline`."""
    suffix_of(path, SUFFIXES, "timeline")


def write_timeline(
    timeline: Timeline, path: str | Path, *, title: str = "", progress: Progress | None = None
) -> None:
    """Write a timeline to a file of the kind that its name ends in.

    .json and .pftrace open in Perfetto (ui.perfetto.dev) and .json in chrome://tracing, too; .png and .svg are a Gantt
    chart, .html one to zoom into, with nothing fetched. `title` heads the charts; `progress` gets (spans written, of
    all). Raises TimelineError for another ending and for a timeline without a span.
    """
    end = suffix_of(path, SUFFIXES, "timeline")
    if not len(timeline):
        raise TimelineError("the timeline holds no span; there is nothing to write")
    path = Path(path)
    if end in (".png", ".svg"):
        from podsim.timeline.gantt import gantt_image

        write_whole(path, gantt_image(timeline, end[1:], title=title))
    elif end == ".html":
        from podsim.timeline.gantt_page import gantt_page

        write_whole(path, gantt_page(timeline, title=title))
    else:
        _write_trace(timeline, path, end, progress)


def _write_trace(timeline: Timeline, path: Path, end: str, progress: Progress | None) -> None:
    chunks = (
        (text.encode("utf-8") for text in chrome_text(timeline, progress))
        if end.startswith(".json")
        else packets(timeline, progress)
    )
    with whole_file(path) as file:
        if end.endswith(".gz"):
            with gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
                for chunk in chunks:
                    packed.write(chunk)
        else:
            file.writelines(chunks)


def read_timeline(path: str | Path, *, progress: Progress | None = None) -> Timeline:
    """The timeline of a trace file, of podsim or of another program; TimelineError if it cannot be read.

    Perfetto's own format by its ending, everything else as events in JSON.
    """
    end = suffix_of(path, _READABLE, "trace")
    if end.startswith(".json"):
        return read_chrome(path, progress)

    return read_perfetto(path, progress)
