"""Files of benchmarks of servers: measured runs, and their requests where a file keeps them.

It reads JSON, JSON lines and CSV of vLLM, SGLang, genai-perf, aiperf and trtllm-bench, and summaries of MLPerf inference
as loadgen writes them (mlperf_log_summary.txt; times in ns; source: mlcommons/inference, loadgen/results.cc). Their text
does not name the benchmark: folders of a submission do, such as results/DGX-H100/llama2-70b-99/Server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from podsim.answers.benchmarked import ServerBenchmark
from podsim.axes import Floats
from podsim.errors import TableError
from podsim.foreign_files import csv_lines, read_start, read_text
from podsim.serving.benchmark_forms import (
    FORMS,
    METRICS,
    UNITS,
    Table,
    number,
    percentile_figures,
    read_metric_cells,
)
from podsim.serving.load.request_table import RequestTable
from podsim.serving.trace_file import Progress, is_trace, read_request_trace

_LINE = re.compile(r"\s*([^:]+?)\s*:\s*(.*?)\s*")
_BENCHMARKS = {
    "resnet": "resnet-50", "bert": "bert-large", "gptj": "gpt-j-6b", "gpt-j": "gpt-j-6b", "llama2-70b": "llama-2-70b",
    "llama3.1-405b": "llama-3.1-405b", "llama3_1-405b": "llama-3.1-405b", "llama3.1-8b": "llama-3.1-8b",
    "llama3_1-8b": "llama-3.1-8b", "mixtral-8x7b": "mixtral-8x7b", "deepseek-r1": "deepseek-v3",
}  # fmt: skip
"""how the name of a folder begins -> the model"""
_RATES = {
    "samples per second": "requests_rate",
    "completed samples per second": "requests_rate",
    "tokens per second": "output_rate",
    "completed tokens per second": "output_rate",
}
_LATENCIES = (
    ("ttft", re.compile(r"(\S+) (?:percentile )?first token latency \(ns\)")),
    ("tpot", re.compile(r"(\S+) (?:percentile )?time (?:to|per) output token \(ns\)")),
    ("e2e", re.compile(r"(\S+) (?:percentile )?latency \(ns\)")),
)


def is_summary(text: str) -> bool:
    """Whether a text is such a summary."""
    return "MLPerf Results Summary" in text[:4096]


def read_summary(text: str, path: PurePath) -> ServerBenchmark:
    """The run of a summary; its model from the folders that hold it, if they say."""
    cells: dict[str, str] = {}
    for line in text.splitlines():
        if match := _LINE.fullmatch(line):
            cells.setdefault(match[1].lower(), match[2])
    figures = {figure: number(cells.get(name, "")) for name, figure in _RATES.items() if name in cells}
    for name, cell in cells.items():
        for kind, pattern in _LATENCIES:
            if match := pattern.fullmatch(name):
                figures[f"{kind}_{_statistic(match[1])}"] = 1e-9 * number(cell)
                break
    parts = [part.lower() for part in path.parts]
    named = (name for part in parts for start, name in _BENCHMARKS.items() if part.startswith(start))
    completed = number(cells.get("sample_count", "")) or 0.0
    return ServerBenchmark(
        id=path.name, tool="mlperf", model=next(named, ""), scenario=cells.get("scenario", ""),
        requests=int(completed) if completed > 0 else 0,
        rate=max(number(cells.get("scheduled samples per second", "0")), 0.0),
        figures={name: value for name, value in figures.items() if value > 0},
    )  # fmt: skip


def _statistic(word: str) -> str:
    """p99 of "99.00" and of "99th"; mean, min and max as they are."""
    digits = re.match(r"\d+(?:\.\d+)?", word)
    return f"p{float(digits[0]):g}" if digits else word.lower()


LARGEST = 1 << 27
"""B of the largest file; one of a vLLM run that keeps each token's time has 10,000 requests in it"""
_EXPECTED = (
    "expected the JSON, JSON lines or CSV of vllm bench, SGLang's bench_serving, genai-perf, aiperf or trtllm-bench, or "
    "mlperf_log_summary.txt"
)
_PROFILED = ("metadata", "metrics")
"""keys of a request in aiperf's profile_export.jsonl"""


def is_benchmark(start: str) -> bool:
    """Whether a text begins as the file of a benchmark does."""
    known = {key for keys, _ in FORMS for key in keys} - {"engine", "duration", "completed", "backend"}
    head = start.lstrip("\ufeff \n\r\t")
    if head.startswith(("{", "[")):
        keys = (*known, "output_throughput", "request_rate", *_PROFILED)
        return '"format": "podsim-run"' not in start and any(f'"{key}"' in start for key in keys)
    return is_summary(start) or head[:7].lower() == "metric,"


def read_benchmarks(path: str | Path) -> tuple[ServerBenchmark, ...]:
    """The runs of a benchmark's file. Raises TableError for a file that holds none, or that cannot be read."""
    path = Path(path)
    text = _text(path)
    if is_summary(text):
        return _measured((read_summary(text, path),), path.name)
    if text[:7].lower() == "metric,":
        rows = csv_lines(text[: 1 << 22], name=path.name, error=TableError)
        return _measured((read_metric_cells(rows, path.name),), path.name)
    objects = _objects(text, path.name)
    if profiled := _profiled(objects):
        return _measured((_profile(profiled, path.name),), path.name)
    several = len(objects) > 1
    runs = (
        _run(record, f"{path.name}#{count}" if several else path.name)
        for count, record in enumerate(objects, 1)
    )
    return _measured(tuple(run for run in runs if run is not None), path.name)


def read_requests(
    path: str | Path, *, progress: Progress | None = None
) -> tuple[RequestTable, tuple[str, ...]]:
    """(requests, notes) of a trace, or of a benchmark that keeps each request: its start, its tokens.

    Raises TableError for a file of no known kind, or one without the time of each request.
    """
    path = Path(path)
    start = read_start(path, 1 << 16)
    head = start.decode("utf-8", errors="replace")
    if is_trace(head) or start[:2] == b"\x1f\x8b" or not is_benchmark(head):
        return read_request_trace(path, progress=progress)
    objects = _objects(_text(path), path.name)
    profiled = _profiled(objects)
    columns = _profiled_columns(profiled) if profiled else _listed_columns(objects[0])
    if columns is None:
        raise TableError(
            f"{path.name}: it holds no time of each request; run vllm bench serve with --save-detailed, aiperf with its "
            "profile_export.jsonl, or give a trace"
        )
    return _request_table(columns, path.name)


def _profiled(objects: Sequence[Table]) -> list[Table]:
    """The requests of aiperf's profile among some objects."""
    return [record for record in objects if all(key in record for key in _PROFILED)]


def _text(path: Path) -> str:
    hint = "save the run without --save-detailed"
    return read_text(path, most=LARGEST, error=TableError, hint=hint).strip()


def _objects(text: str, name: str) -> list[dict[str, Any]]:
    """The JSON objects of a text: one, a list of them, or one on each line."""
    try:
        parsed = json.loads(text)
    except RecursionError:
        raise TableError(f"{name}: its JSON is nested too deep; {_EXPECTED}") from None
    except ValueError as problem:
        parsed = list(_lines(text, name, str(problem)))
    objects = parsed if isinstance(parsed, list) else [parsed]
    if not objects or not all(isinstance(record, dict) for record in objects):
        raise TableError(f"{name}: it holds no JSON object; {_EXPECTED}")
    return objects


def _lines(text: str, name: str, problem: str) -> Iterator[Any]:
    """The values of JSON lines; the problem of the text as a whole where the first line is none."""
    for count, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            yield json.loads(line)
        except (ValueError, RecursionError) as error:
            why = problem if count == 1 else f"line {count}: {error}"
            raise TableError(f"{name}: it is no JSON: {why[:120]}; {_EXPECTED}") from None


def _run(table: Table, id: str) -> ServerBenchmark | None:
    reader = next((read for keys, read in FORMS if all(key in table for key in keys)), None)
    return reader(table, id) if reader else None


def _measured(runs: Sequence[ServerBenchmark], name: str) -> tuple[ServerBenchmark, ...]:
    """The runs that measured anything; TableError if none did."""
    kept = tuple(run for run in runs if run.figures)
    if not kept:
        raise TableError(f"{name}: it holds no measured latency or rate; {_EXPECTED}")
    return kept


def _metric(request: Table, name: str) -> float:
    """A metric of a request of aiperf: s of a time, or a count."""
    metrics = request["metrics"]
    metric = metrics.get(name) if isinstance(metrics, Mapping) else None
    if not isinstance(metric, Mapping):
        return np.nan
    scale = UNITS.get(str(metric.get("unit", "")), 1.0)
    return scale * number(metric.get("value"))


def _profile(requests: Sequence[Table], name: str) -> ServerBenchmark:
    """A run of aiperf by its requests, those of the warm-up and those without an answer left out."""
    answered = [request for request in requests if not request.get("error") and _phase(request) != "warmup"]
    columns = _profiled_columns(answered)
    figures: dict[str, float] = {}
    for metric, kind in METRICS.items():
        values = np.array([_metric(request, metric) for request in answered])
        figures |= percentile_figures(kind, values[np.isfinite(values)])
    if columns is None:
        return ServerBenchmark(id=name, tool="aiperf", figures=figures)
    start, inputs, outputs = columns
    ends = start + np.nan_to_num(np.array([_metric(request, "request_latency") for request in answered]))
    seconds = float(ends.max() - start.min())
    if seconds > 0:
        figures |= {"requests_rate": len(answered) / seconds, "output_rate": float(outputs.sum()) / seconds}
    return ServerBenchmark(
        id=name, tool="aiperf", requests=len(answered), failed=len(requests) - len(answered), figures=figures,
        input_tokens=float(inputs.mean()), output_tokens=float(outputs.mean()), seconds=seconds,
    )  # fmt: skip


def _phase(request: Table) -> str:
    metadata = request["metadata"]
    return str(metadata.get("benchmark_phase", "")).lower() if isinstance(metadata, Mapping) else ""


def _profiled_columns(requests: Sequence[Table]) -> tuple[Floats, Floats, Floats] | None:
    """Start s, input tokens and output tokens of aiperf's requests; None where one has no start or no lengths."""
    times = (
        request["metadata"].get("request_start_ns")
        for request in requests
        if isinstance(request["metadata"], Mapping)
    )
    starts = [time for time in times if isinstance(time, int) and 0 < time < 1 << 62]
    if not starts or len(starts) < len(requests):
        return None
    first = min(starts)
    columns = (
        1e-9 * np.array([float(start - first) for start in starts]),
        np.array([_metric(request, "input_sequence_length") for request in requests]),
        np.array([_metric(request, "output_sequence_length") for request in requests]),
    )
    return columns if all(np.isfinite(column).all() for column in columns) else None


def _listed_columns(table: Table) -> tuple[Floats, Floats, Floats] | None:
    """Start s, input tokens and output tokens of a client's detailed lists; None if it has none."""
    lists = [table.get(name) for name in ("start_times", "input_lens", "output_lens")]
    if not all(isinstance(values, list) and values for values in lists):
        return None
    columns = tuple(np.array([number(value) for value in values]) for values in lists if values is not None)
    equal = len({len(column) for column in columns}) == 1
    return (
        (columns[0], columns[1], columns[2])
        if equal and all(np.isfinite(column).all() for column in columns)
        else None
    )


def _request_table(columns: tuple[Floats, Floats, Floats], name: str) -> tuple[RequestTable, tuple[str, ...]]:
    """The requests of a run in the order of their start; those without an answer count as one token."""
    order = np.argsort(columns[0], kind="stable")
    start, inputs, outputs = (column[order] for column in columns)
    if not all(
        np.isfinite(column).all() and np.abs(column).max(initial=0.0) < 1 << 53
        for column in (start, inputs, outputs)
    ):
        raise TableError(f"{name}: starts and lengths of requests must be numbers below 2^53")
    empty = int(np.count_nonzero(outputs < 1))
    table = RequestTable(
        arrival=start - start[0], input_tokens=np.maximum(inputs, 1).astype(np.int64),
        output_tokens=np.maximum(outputs, 1).astype(np.int64), source=name,
    )  # fmt: skip
    return table, (f"{name}: {empty:,} answers have no token; each counts as one",) if empty else ()
