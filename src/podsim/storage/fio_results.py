"""A reader of fio's output with --output-format=json (or json+), summed over jobs and clients.

Bandwidth is `bw_bytes` (B/s); older releases give only `bw` in KiB/s. Equal jobs that run at once count as one: their
rates are summed, and their mean latencies are weighted by accesses. Different jobs, and jobs one after another
(stonewall), are rejected. A job's options override global ones. Engines that wait for each access have a depth of one,
whatever iodepth is, as in fio itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podsim.answers.storage import FioMeasured
from podsim.errors import PodsimError, TableError, UnitError
from podsim.foreign_files import finite, read_json, read_text

_LIMIT = 64_000_000
_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,6})?)([kmg]?)(?:i?b)?", re.IGNORECASE | re.ASCII)
_WAITING = ("psync", "sync", "vsync", "pvsync", "pvsync2", "mmap")
"""engines that have one access under way; the first is fio's own choice"""
_SAME = 0.1
"""share by which the mean access may differ from the block"""
_LATENCIES = (("lat_ns", 1e-9), ("lat", 1e-6), ("clat_ns", 1e-9), ("clat", 1e-6))


def read_fio(path: str | Path) -> FioMeasured:
    """The measurements of a fio run.

    Raises TableError for a file that cannot be read, is no JSON of fio, holds no job, a job that failed, or numbers that
    are none.
    """
    path = Path(path)
    document = _document(path)
    jobs = _jobs(document, path.name)
    first = _options(document, jobs[0])
    problems = [
        f"job {str(job.get('jobname', k))[:60]!r} ended with error {job['error']}"
        for k, job in enumerate(jobs)
        if job.get("error")
    ]
    if problems:
        raise TableError(f"{path.name}: {'; '.join(problems)}; a failed run measures nothing")
    _check_alike(document, jobs, path.name)
    sides = {side: _side_totals(jobs, side, path.name) for side in ("read", "write")}
    if not sides["read"][0] and not sides["write"][0]:
        raise TableError(f"{path.name}: nothing was read or written")
    hosts = len({job["hostname"] for job in jobs if job.get("hostname")}) or 1
    return FioMeasured(
        name=path.name, version=str(document.get("fio version", ""))[:60], rw=_pattern(first, sides),
        block=_block(first, sides, path.name), numjobs=_integer(first, "numjobs", _job_count(jobs, hosts), path.name),
        iodepth=_depth(first, path.name), clients=hosts, direct=_direct(first),
        read_bandwidth=sides["read"][0], read_iops=sides["read"][1], read_latency=sides["read"][2],
        write_bandwidth=sides["write"][0], write_iops=sides["write"][1], write_latency=sides["write"][2],
        seconds=_runtime_seconds(jobs, path.name),
    )  # fmt: skip


def read_block(text: str, what: str = "bs") -> float:
    """B of a size as fio writes it: 4k and 1M are binary, 1000 is bytes; a range or a list takes its first (reads').

    Raises UnitError for anything else.
    """
    first = str(text).split(",", maxsplit=1)[0].split("-", maxsplit=1)[0].strip()
    match = _SIZE.fullmatch(first)
    if match is None:
        raise UnitError(f"{what}: cannot read {str(text)[:60]!r}; expected bytes, as 4k, 128k or 1M")
    return float(match[1]) * 2.0 ** {"": 0, "k": 10, "m": 20, "g": 30}[match[2].lower()]


def _document(path: Path) -> dict[str, Any]:
    """The JSON object of a file; fio may write warnings before it."""
    text = read_text(path, most=_LIMIT, error=TableError, hint="no JSON of fio is", is_lenient=True)
    text = text[max(text.find("{"), 0) :]
    run = "run fio with --output-format=json --output=FILE"
    value = read_json(text, name=path.name, error=TableError, hint=run)
    if not isinstance(value, dict):
        raise TableError(f"{path.name}: holds {type(value).__name__}, not the object that fio writes")
    return value


def _jobs(document: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The jobs; for a run over clients the jobs of the clients, without the line of their sum."""
    rows = document.get("client_stats") or document.get("jobs")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise TableError(f"{name}: no list of jobs in it; is it what fio --output-format=json wrote?")
    jobs = [row for row in rows if row.get("jobname") != "All clients"]
    if not jobs:
        raise TableError(f"{name}: it lists no job")
    return jobs


def _options(document: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for part in (document.get("global options"), job.get("job options")):
        if isinstance(part, Mapping):
            options |= part
    return options


def _check_alike(document: Mapping[str, Any], jobs: list[dict[str, Any]], name: str) -> None:
    """Raise TableError for jobs that are not one: of different options, or one after another on a host."""
    kinds: dict[tuple[object, ...], str] = {}
    first: dict[object, object] = {}
    for k, job in enumerate(jobs):
        options, group = _options(document, job), str(job.get("groupid", 0))
        later = first.setdefault(str(job.get("hostname")), group) != group
        rw = str(options.get("rw", options.get("readwrite", "")))
        block = str(options.get("bs", options.get("blocksize", "")))
        title = str(job.get("jobname", k))[:60]
        words = f"{title} ({', '.join(filter(None, (rw, block)))[:60]})" if rw or block else title
        kinds.setdefault((rw, block, _depth(options, name), later and group), words)
    if len(kinds) > 1:
        said = "; ".join(list(kinds.values())[:8])
        raise TableError(
            f"{name}: fio ran {len(kinds)} different jobs, or one after another: {said}; their rates do not add up: run"
            " each alone, as with fio --section=NAME"
        )


def _depth(options: Mapping[str, Any], name: str) -> int:
    """Accesses that a job has under way."""
    depth = _integer(options, "iodepth", 1, name)
    return 1 if str(options.get("ioengine", _WAITING[0])) in _WAITING else depth


def _direct(options: Mapping[str, Any]) -> bool:
    """Whether the run went past the page cache."""
    return str(options.get("direct", "0")) != "0" or str(options.get("buffered", "1")) == "0"


def _side_totals(jobs: list[dict[str, Any]], side: str, name: str) -> tuple[float, float, float]:
    """(B/s, operations/s, mean latency) of reads or writes, all jobs together."""
    bandwidth = operations = weighted = done = 0.0
    for job in jobs:
        part = job.get(side)
        if not isinstance(part, Mapping):
            continue
        bytes_ = part.get("bw_bytes", part.get("bw", 0) * 1024 if _is_number(part.get("bw")) else 0)
        bandwidth += _number(bytes_, f"{side}.bw_bytes", name)
        operations += _number(part.get("iops", 0), f"{side}.iops", name)
        ios = _number(part.get("total_ios", part.get("iops", 0)), f"{side}.total_ios", name)
        weighted += ios * _latency_seconds(part, side, name)
        done += ios
    return bandwidth, operations, weighted / done if done else 0.0


def _runtime_seconds(jobs: list[dict[str, Any]], name: str) -> float:
    """Seconds of the longest reading or writing."""
    sides = [job[side] for job in jobs for side in ("read", "write") if isinstance(job.get(side), Mapping)]
    return max((_number(side.get("runtime", 0), "runtime", name) for side in sides), default=0.0) * 1e-3


def _latency_seconds(part: Mapping[str, Any], side: str, name: str) -> float:
    for key, factor in _LATENCIES:
        figures = part.get(key)
        if isinstance(figures, Mapping) and "mean" in figures and figures.get("N", 1):
            return _number(figures["mean"], f"{side}.{key}.mean", name) * factor
    return 0.0


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number(value: object, what: str, name: str) -> float:
    number = finite(value)
    if number is None or number < 0:
        raise TableError(f"{name}: {what} is {str(value)[:60]!r}; expected a number, 0 or more")
    return number


def _pattern(options: Mapping[str, Any], sides: Mapping[str, tuple[float, float, float]]) -> str:
    """fio's --rw, or what the numbers imply if it is missing."""
    given = str(options.get("rw", options.get("readwrite", ""))).split(":", maxsplit=1)[0]
    if given:
        return "rw" if given == "readwrite" else given
    used = {side for side, rates in sides.items() if rates[0]}
    return used.pop() if len(used) == 1 else "rw" if used else "read"


def _block(options: Mapping[str, Any], sides: Mapping[str, tuple[float, float, float]], name: str) -> float:
    """B of an access; TableError if the accesses were of several sizes."""
    try:
        given = str(options.get("bs", options.get("blocksize", "4k")))
        if not (block := read_block(given)):
            raise UnitError(f"bs: a block of {given[:20]}; expected more than 0 bytes, as 4k")
    except PodsimError as error:
        raise TableError(f"{name}: {error}") from None
    for side, (bandwidth, operations, _) in sides.items():
        if operations and abs(bandwidth / operations / block - 1.0) > _SAME:
            raise TableError(
                f"{name}: a {side} was of {bandwidth / operations:,.0f} B on average, and the block is {block:,.0f} B; a"
                " prediction is for accesses of one size: run fio with --bs and without bsrange or bssplit"
            )
    return block


def _job_count(jobs: list[dict[str, Any]], hosts: int) -> int:
    return max(len(jobs) // hosts, 1)


def _integer(options: Mapping[str, Any], key: str, default: int, name: str) -> int:
    text = str(options.get(key, default))
    if not text.isdecimal() or len(text) > 7 or not 1 <= int(text) <= 1_000_000:
        raise TableError(f"{name}: {key} is {text[:60]!r}; expected a whole number, 1 or more")
    return int(text)
