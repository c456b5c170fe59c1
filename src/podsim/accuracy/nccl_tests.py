"""Reads what nccl-tests prints, as rows of a collectives table.

Tolerant of its versions: with or without prefixes of a launcher, a root column, a reduction, an error column or the
in-place half. Times are the out-of-place ones. The header and the lines of the ranks show how it was launched.
Format: github.com/NVIDIA/nccl-tests (src/common.cu, doc/PERFORMANCE.md).
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from podsim.accuracy.reading import read_rows
from podsim.accuracy.tables import Row, Rows, find_kind, make_row
from podsim.errors import TableError
from podsim.foreign_files import read_start, read_text

_PREFIX = re.compile(r"^\s*(?:\[\d+,\d+\](?:<stdout>)?:?|\d+:)\s*")
_RANK = re.compile(
    r"#\s*Rank\s+\d+\s+(?:Group\s+\d+\s+)?Pid\s+(\d{1,15})\s+on\s+(\S+)\s+device\s+\d+\s+\[[^\]]*\]\s+(.+?)\s*$"
)
_HEADER = re.compile(r"nThread\s+(\d{1,15})\s+nGpus\s+(\d{1,15})")
_NAMES = r"(all_reduce|all_gather|reduce_scatter|broadcast|reduce|alltoall|all_to_all|sendrecv)"
_PERF = re.compile(rf"(?<![a-z_]){_NAMES}_perf")
_FILE = re.compile(rf"(?<![a-z]){_NAMES}(?![a-z])")
_VERSION = re.compile(r"NCCL version:?\s*(2\.\d+)")
_LIBRARY = re.compile(r"nccl-library=2(\d\d)\d\d")
_DEVICES = {"H100 80GB HBM3": "H100-SXM5-80GB", "H200": "H200-SXM5-141GB", "A100 80GB PCIe": "A100-PCIE-80GB"}
"""Name of a GPU in its driver -> its name in tables, if they differ."""
_ALGORITHM = "# Algorithm: "
_COUNTED = re.compile(r"^\d{1,18}$")
_WORD = re.compile(r"^[a-z]\w*$", re.IGNORECASE)


def read_any(path: str | Path) -> Rows:
    """Rows of a CSV with the columns of a reference table, or of a log of nccl-tests; TableError as both raise it."""
    path = Path(path)
    start = read_start(path, 65536).decode("utf-8", errors="replace")
    return read_log(path) if is_log(start) else read_rows(path)[1]


def is_log(text: str) -> bool:
    """Whether a text looks like the output of nccl-tests."""
    return bool(_HEADER.search(text)) or all(word in text for word in ("algbw", "busbw", "redop", "#"))


def read_log(path: str | Path) -> Rows:
    """Rows of a log file; TableError if it holds no measurement, or its collective is unknown."""
    path = Path(path)
    return read_log_text(read_text(path, most=1 << 26, error=TableError, is_lenient=True), path.stem)


def read_log_text(text: str, name: str) -> Rows:
    """Rows of the text of a log. `name` is the sweep's id, and names the collective if the text does not."""
    lines = [_PREFIX.sub("", line).strip() for line in text.splitlines()]
    ranks = [match.groups() for line in lines if (match := _RANK.match(line))]
    header = next((match for line in lines if (match := _HEADER.search(line))), None)
    threads, each = (int(header[1]), int(header[2])) if header else (1, 1)
    gpus = len(ranks) or threads * each
    collective = _PERF.search(text) or _FILE.search(name)
    if collective is None:
        raise TableError(
            f"{name}: the log does not name its collective; name the file after it, as in all_reduce.log"
        )
    shared = {
        "id": name,
        "source": name,
        "gpu": gpu_name(ranks[0][2]) if ranks else "",
        "nodes": str(len({host for _, host, _ in ranks}) or 1),
        "gpus": str(gpus),
        "collective": collective[1],
        "algo": "auto",
        "proto": "auto",
        "launch": _launch(len({(host, pid) for pid, host, _ in ranks}), threads, gpus),
        "nccl": _release(text),
    }
    measured = [row for line in _library_lines(lines) if (row := _read_line(line))]
    if not measured:
        raise TableError(f"{name}: no line of the log holds a size and a time")
    return make_rows("collectives", name, [{**shared, **cells} for cells in measured])


def _library_lines(lines: list[str]) -> list[str]:
    """The lines of NCCL's own collective in a log of `podsim measure collective`, which also has podsim's tables."""
    heads = [index for index, line in enumerate(lines) if line.startswith(_ALGORITHM)]
    for first, last in pairwise([*heads, len(lines)]):
        if lines[first] == f"{_ALGORITHM}library":
            return lines[first:last]
    return lines


def gpu_name(device: str) -> str:
    """The name of a GPU in tables, from its name in the driver: NVIDIA H100 80GB HBM3 is H100-SXM5-80GB."""
    name = device.strip().removeprefix("NVIDIA ").removeprefix("Tesla ").strip()
    return _DEVICES.get(name, name)


def _launch(processes: int, threads: int, gpus: int) -> str:
    """How the ranks were launched: as threads, as a process each, or several of a single process."""
    if threads > 1:
        return "thread"
    return "process" if processes > 1 and gpus <= processes else "single"


def _release(text: str) -> str:
    """Major and minor version of the NCCL that ran; "" where the log does not say."""
    version, library = _VERSION.search(text), _LIBRARY.search(text)
    return version[1] if version else f"2.{int(library[1])}" if library else ""


def _read_line(line: str) -> dict[str, str] | None:
    """Size, time and rates of one line of the table; None for any other line.

    size count type [redop] [root] | time algbw busbw [wrong] | time algbw busbw [wrong]
    """
    cells = line.split()
    if len(cells) < 6 or not (
        _COUNTED.match(cells[0]) and _COUNTED.match(cells[1]) and _WORD.match(cells[2])
    ):
        return None
    rest = cells[3:]
    if rest and _WORD.match(rest[0]) and rest[0] != "N/A":
        rest = rest[1:]
    if len(rest) in (9, 7, 5):  # an odd number of columns: the first is the root
        rest = rest[1:]
    try:
        time, algbw, busbw = (float(cell) for cell in rest[:3])
    except ValueError:
        return None
    if not (time > 0 and int(cells[0]) > 0):
        return None
    rates = {"algbw_GBps": rest[1] if algbw > 0 else "", "busbw_GBps": rest[2] if busbw > 0 else ""}
    return {"size_bytes": cells[0], "time_us": rest[0], **rates}


def make_rows(kind_name: str, name: str, measured: list[dict[str, str]]) -> Rows:
    """Rows of a table of a kind from their known cells; their role is `test`."""
    kind = find_kind(kind_name)
    blank = dict.fromkeys(kind.columns, "")
    rows: dict[str, Row] = {}
    for cells in measured:
        row = make_row(kind, {**blank, **cells}, role="test")
        rows.setdefault(row.id, row)
    return Rows(
        name=name,
        title=f"{kind.title} ({name})",
        kind=kind.name,
        rows=tuple(rows.values()),
        what=kind.what,
        sweep=kind.sweep,
        classes=kind.classes,
    )
