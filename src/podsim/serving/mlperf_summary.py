"""Summaries of MLPerf inference runs, as loadgen writes them (mlperf_log_summary.txt); its times are in ns.

The text does not name the benchmark: folders of a submission do, such as results/DGX-H100/llama2-70b-99/Server.
Source: mlcommons/inference, loadgen/results.cc.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from podsim.answers.benchmarked import ServerBenchmark
from podsim.serving.benchmark_forms import number

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
