"""Counters and traces of a real run as one record: ethtool, InfiniBand, tc, NCCL's flight recorder, Kineto.

A file is one reading of one port, or the trace of one rank. `mlx5_0@12.5.txt` is the reading of mlx5_0 after 12.5 s; two
readings of a port give bytes and rates, one alone its errors since the machine started. Formats, each by its content:

    ethtool -S eth0                        "NIC statistics:", then NAME: NUMBER
    grep . /sys/class/infiniband/*/ports/*/counters/*      PATH:NUMBER; also perfquery's NAME:....NUMBER
    tc -s qdisc, tc -s -j qdisc            one port a device
    torch's flight recorder                JSON, or the pickle, of which only plain values are read
    torch.profiler                         export_chrome_trace, one file a rank

Units: port_xmit_data counts 4 B (Linux ABI, sysfs-class-infiniband). Laps are the times between two collectives of a
rank; the flight recorder's times are those at which a thread noticed, so laps below a millisecond say nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from pickletools import genops
from typing import Any

from podsim.answers.telemetry import PortRow, Telemetry
from podsim.errors import TimelineError
from podsim.foreign_files import finite, read_bytes, read_json
from podsim.timeline.kineto_kinds import COLLECTIVES, kind_of
from podsim.timeline.kineto_read import read_profile

_MOST, _FILES, _LAPS = 256 << 20, 4096, 10_000
_BINS = 96
_LINE = re.compile(
    r"^[ \t]*(?:(?P<path>\S*/)?(?P<name>[A-Za-z]\w*)\s*:[\s.]*(?P<value>\d{1,20}))\s*$", re.MULTILINE
)
_BYTES = {
    "port_xmit_data": ("out", 4), "PortXmitData": ("out", 4), "tx_bytes_phy": ("out", 1), "tx_bytes": ("out", 1),
    "port_rcv_data": ("in", 4), "PortRcvData": ("in", 4), "rx_bytes_phy": ("in", 1), "rx_bytes": ("in", 1),
}  # fmt: skip
_DOWNS = ("link_downed", "LinkDownedCounter", "link_down_events_phy")
_ERRORS = (
    "port_rcv_errors", "PortRcvErrors", "symbol_error", "SymbolErrorCounter", "rx_crc_errors_phy",
    "rx_symbol_err_phy", "rx_pcs_symbol_err_phy", "port_xmit_discards", "PortXmitDiscards", "rx_discards_phy",
)  # fmt: skip
_QDISC = re.compile(
    r"^qdisc \S+ \S+ dev (?P<dev>\S+) root.*?\n\s*Sent (?P<bytes>\d{1,20}) bytes \d+ pkt \(dropped (?P<drops>\d{1,20})"
    r".*?\n\s*backlog \S+ (?P<qlen>\d{1,20})p",
    re.MULTILINE,
)
Reading = dict[str, dict[str, float]]
"""Port -> out, in (B), downs, errors, waiting (packets)."""


def read_counters(path: Path) -> Telemetry:
    """The record of a file, or of all files of a folder. Raises TimelineError for a file of none of the formats."""
    files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
    if not files or len(files) > _FILES:
        raise TimelineError(f"{path.name}: {len(files)} files; a run has 1 to {_FILES:,}")
    readings: dict[str, list[tuple[float, dict[str, float]]]] = {}
    laps: list[PortRow] = []
    for file in files:
        stem, _, after = file.name.removesuffix(".txt").removesuffix(".json").partition("@")
        text = read_bytes(
            file, most=_MOST, error=TimelineError, hint="a reading, or a trace of one rank, is smaller"
        )
        try:
            ports = _ports_of(text.decode("utf-8", errors="replace"), stem)
            row = None if ports else _rank_row(file, text, len(laps))
        except TimelineError:
            raise
        except (ValueError, TypeError, AttributeError) as problem:
            raise TimelineError(f"{file.name}: not as its tool writes it: {str(problem)[:100]}") from None
        if row is None:
            time = float(after) if re.fullmatch(r"\d+(\.\d+)?", after) else 0.0
            for port, reading in ports.items():
                readings.setdefault(port, []).append((time, reading))
        else:
            laps.append(row)
    last = max((time for held in readings.values() for time, _ in held), default=0.0)
    rows = [
        row
        for port, held in readings.items()
        for row in _port_rows(port, sorted(held, key=lambda r: r[0]), last)
    ]
    seconds = last or max((sum(row.values) for row in laps), default=1.0)
    return Telemetry(source="real", job=path.name, seconds=max(seconds, 1e-9), bins=_BINS, ports=len(readings),
                     rows=(*rows, *_aligned(laps)))  # fmt: skip


def _ports_of(text: str, stem: str) -> Reading:
    """The counters of a text; empty if it has none."""
    ports: Reading = {}
    if text.lstrip().startswith("["):
        try:
            entries = read_json(text, name=stem, error=TimelineError)
        except TimelineError:
            return {}
        for entry in entries:
            if (
                isinstance(entry, dict)
                and "dev" in entry
                and (entry.get("root") or entry.get("parent") is None)
            ):
                counts = {"out": "bytes", "errors": "drops", "waiting": "qlen"}
                ports[str(entry["dev"])] = {kind: _number(stem, entry, key) for kind, key in counts.items()}
        return ports
    for match in _QDISC.finditer(text):
        ports[match["dev"]] = {
            "out": float(match["bytes"]), "errors": float(match["drops"]), "waiting": float(match["qlen"]),
        }  # fmt: skip
    for match in _LINE.finditer(text):
        parts = (match["path"] or "").split("/")
        port = "/".join(parts[parts.index("infiniband") + 1 :][:3:2]) if "infiniband" in parts else stem
        counters, name, value = ports.setdefault(port, {}), match["name"], float(match["value"])
        if name in _BYTES:
            way, factor = _BYTES[name]
            counters[way] = max(counters.get(way, 0.0), factor * value)
        elif name in _DOWNS or name in _ERRORS:
            kind = "downs" if name in _DOWNS else "errors"
            counters[kind] = counters.get(kind, 0.0) + value
    return {port: counters for port, counters in ports.items() if counters}


def _port_rows(
    port: str, readings: Sequence[tuple[float, dict[str, float]]], last: float
) -> Iterator[PortRow]:
    """A row for each direction of a port, from its readings in order of time."""
    first = readings[0][1] if len(readings) > 1 else {}
    final = readings[-1][1]
    grown = {name: max(value - first.get(name, 0.0), 0.0) for name, value in final.items()}
    downs, errors = (int(grown.get(kind, 0)) for kind in ("downs", "errors"))
    ways = [way for way in ("out", "in") if way in final]
    if not ways:
        yield PortRow(port=port, kind="adapter", downs=downs, errors=errors)
    for way in ways:  # what is counted once for both stands with the first
        values, is_first = [0.0] * _BINS, way == ways[0]
        for (begin, before), (end, after) in pairwise(readings):
            low = int(begin / (last or 1.0) * _BINS)  # readings without times have all in the first bin
            high = max(int(end / (last or 1.0) * _BINS), low + 1)
            for position in range(low, min(high, _BINS)):
                values[position] += max(after.get(way, 0.0) - before.get(way, 0.0), 0.0) / (high - low)
        yield PortRow(port=f"{port} {way}", kind="adapter", values=tuple(values), busy=last, downs=downs * is_first,
                      errors=errors * is_first)  # fmt: skip


def _rank_row(file: Path, data: bytes, number: int) -> PortRow:
    """The laps of the rank of a trace."""
    digits = re.findall(r"\d+", file.name.removesuffix(".json"))
    rank = int(digits[-1]) if digits else number
    if data[:1] == b"\x80" or b'"entries"' in data[:4096] or b'"pg_config"' in data:
        spans, missed = _recorder_spans(file.name, plain_values(file.name, data))
    else:
        profile = read_profile(file)
        spans = [
            (work.start, work.end)
            for work in profile.work or profile.ops
            if kind_of(work.name) in COLLECTIVES
        ]
        rank, missed = profile.whole("rank", rank), 0
    if not spans:
        raise TimelineError(f"{file.name}: no counters, and no collectives either; see podsim why --help")
    spans.sort()
    laps = [max(after[0] - before[1], 0.0) for before, after in pairwise(spans)]
    return PortRow(port=f"rank {rank}", kind="compute", collective="job", ranks=str(rank), errors=missed,
                   values=tuple(laps[-_LAPS:]), busy=sum(end - start for start, end in spans))  # fmt: skip


def _recorder_spans(name: str, dump: Any) -> tuple[list[tuple[float, float]], int]:
    """(start and end of each collective in s, the last sequence number) of a flight recorder's dump."""
    entries = dump.get("entries") if isinstance(dump, Mapping) else None
    if not isinstance(entries, list):
        raise TimelineError(f"{name}: no list of entries; expected a dump of torch's flight recorder")
    spans, last = [], 0
    for entry in entries:
        if not isinstance(entry, Mapping) or entry.get("is_p2p"):
            continue
        begin = _number(name, entry, "time_created_ns") / 1e9
        end = _number(name, entry, "time_discovered_completed_ns") / 1e9
        spans.append((begin, max(end, begin)))
        last = max(last, int(_number(name, entry, "collective_seq_id")))
    return spans, last


def _number(name: str, entry: Mapping[str, Any], key: str) -> float:
    """A number of an object, below 2^63; TimelineError for another value."""
    value = entry.get(key)
    number = 0.0 if value is None else finite(value)
    if number is None or abs(number) >= 1 << 63:
        raise TimelineError(f"{name}: {key}={str(value)[:40]} is no number below 2^63")
    return number


def _aligned(laps: Sequence[PortRow]) -> Iterator[PortRow]:
    """The laps with as many for each rank, the last ones; errors: the collectives that a rank has not joined."""
    most = max((row.errors for row in laps), default=0)
    count = min((len(row.values) for row in laps), default=0)
    for row in laps:
        values = row.values[len(row.values) - count :]
        yield PortRow(port=row.port, kind=row.kind, collective=row.collective, ranks=row.ranks, values=values,
                      busy=row.busy, errors=most - row.errors)  # fmt: skip


def plain_values(name: str, data: bytes) -> Any:
    """The content of JSON, or of a pickle of plain values, which is read without running anything.

    Raises TimelineError for a pickle that holds objects, and for what is neither.
    """
    try:
        if data[:1] == b"\x80":
            return _unpickled(data)
        return read_json(data.decode("utf-8", errors="replace"), name=name, error=TimelineError)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise TimelineError(f"{name}: no JSON, and no pickle of plain values: {str(problem)[:100]}") from None


def _unpickled(data: bytes) -> Any:
    """The value of a pickle that has dicts, lists, tuples, numbers and text only."""
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, Any] = {}
    for opcode, argument, _ in genops(data):
        name = opcode.name
        if name in ("PROTO", "FRAME"):
            continue
        if name == "MARK":
            marks.append(len(stack))
        elif name in ("EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE"):
            stack.append({"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}[name]())
        elif name in ("NONE", "NEWTRUE", "NEWFALSE"):
            stack.append({"NONE": None, "NEWTRUE": True, "NEWFALSE": False}[name])
        elif name in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
            memo[len(memo) if argument is None else int(argument)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[int(argument or 0)])
        elif name in ("SETITEM", "APPEND", "SETITEMS", "APPENDS", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"):
            _gather(name, stack, marks)
        elif name == "STOP":
            return stack.pop()
        elif isinstance(argument, (int, float, str)) and name not in ("GLOBAL", "INST", "PERSID"):
            stack.append(argument)
        else:
            raise ValueError(f"it holds {name}, which could run")
    raise ValueError("it is cut off")


def _gather(name: str, stack: list[Any], marks: list[int]) -> None:
    """Take the last values off the stack into the container below them, or into a tuple."""
    fixed = {"SETITEM": 2, "APPEND": 1, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}.get(name)
    first = marks.pop() if fixed is None else len(stack) - fixed
    items = stack[first:]
    del stack[first:]
    if name.startswith("TUPLE"):
        stack.append(tuple(items))
    elif name.startswith("SET"):
        stack[-1].update(zip(items[::2], items[1::2], strict=True))
    else:
        stack[-1].extend(items)
