"""Files of benchmarks of servers: every tool's form gives the same figures, in SI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from podsim.answers.benchmarked import ServerBenchmark
from podsim.errors import TableError
from podsim.serving.benchmark_files import is_benchmark, read_benchmarks, read_requests

VLLM: dict[str, Any] = {
    "backend": "vllm", "model_id": "meta-llama/Llama-3.1-8B-Instruct", "num_prompts": 100, "request_rate": 10.0,
    "max_concurrency": None, "duration": 10.4, "completed": 100, "failed": 0, "total_input_tokens": 51200,
    "total_output_tokens": 12800, "request_throughput": 9.6, "request_goodput": None, "output_throughput": 1228.4,
    "mean_ttft_ms": 41.0, "median_ttft_ms": 36.0, "p99_ttft_ms": 92.0, "mean_tpot_ms": 9.8, "gpu": "NVIDIA A100",
}  # fmt: skip
DETAILED = VLLM | {"start_times": [3.0, 1.0, 2.0], "input_lens": [5, 6, 7], "output_lens": [1, 0, 3]}
SGLANG = {
    "backend": "sglang", "random_input_len": 1024, "random_output_len": 256, "request_rate": "inf", "max_concurrency": 16,
    "server_info": {"model_path": "some/model", "tp_size": 2, "kv_cache_dtype": "fp8_e4m3"}, "completed": 80,
    "duration": 5.0, "total_input_tokens": 80000, "total_output_tokens": 20000, "output_throughput": 4000.0,
    "mean_e2e_latency_ms": 900.0, "p95_ttft_ms": 50.0,
}  # fmt: skip
METRICS = {
    "request_throughput": {"unit": "requests/sec", "avg": 5.0},
    "time_to_first_token": {"unit": "us", "avg": 30000.0, "p99": 60000.0},
    "inter_token_latency": {"unit": "ms", "avg": 9.0}, "request_latency": {"unit": "ms", "avg": 900.0},
    "input_sequence_length": {"unit": "tokens", "avg": 512.0}, "output_sequence_length": {"unit": "tokens", "avg": 128.0},
    "input_config": {"model_names": ["llama"], "perf_analyzer": {"stimulus": {"concurrency": 8}}},
}  # fmt: skip
TRTLLM = {
    "engine": {"model": "meta-llama/Llama-2-70b", "version": "1.2.1", "quantization": "FP8"},
    "machine": {"name": "NVIDIA H100 80GB HBM3"}, "world_info": {"tp_size": 8, "pp_size": 1, "max_batch_size": 256},
    "request_info": {"num_requests": 500, "avg_input_length": 512, "avg_output_length": 128},
    "performance": {
        "total_latency_ms": 9000.0, "system_output_throughput_tok_s": 6400.0,
        "request_latency_percentiles_ms": {"p50": 900.0, "average": 1000.0},
    },
}  # fmt: skip
SUMMARY = (
    "====\nMLPerf Results Summary\n====\nSUT name : x\nScenario : Server\nScheduled samples per second : 88.00\n"
    "Completed tokens per second: 25000.1\n99.00 percentile first token latency (ns) : 1500000\n"
)


def _profile(number: int) -> dict[str, Any]:
    values = {"time_to_first_token": 20.0 + number, "request_latency": 500.0}
    counts = {"input_sequence_length": 100, "output_sequence_length": 50}
    metrics = {name: {"value": value, "unit": "ms"} for name, value in values.items()}
    metrics |= {name: {"value": value, "unit": "tokens"} for name, value in counts.items()}
    metadata = {"request_start_ns": 10**18 + number * 10**8, "benchmark_phase": "profiling"}
    return {"metadata": metadata, "metrics": metrics, "error": None}


def _read(tmp_path: Path, name: str, content: object) -> tuple[ServerBenchmark, ...]:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    assert is_benchmark(path.read_text()[:4096])
    return read_benchmarks(path)


@pytest.mark.parametrize(
    ("content", "tool", "figures", "lengths"),
    [
        (VLLM, "vllm", {"ttft_p50": 0.036, "ttft_p99": 0.092, "output_rate": 1228.4}, (512, 128)),
        (SGLANG, "sglang", {"e2e_mean": 0.9, "ttft_p95": 0.05}, (1000, 250)),
        (METRICS, "genai-perf", {"ttft_mean": 0.03, "tpot_mean": 0.009, "requests_rate": 5.0}, (512, 128)),
        (METRICS | {"aiperf_version": "0.13.0"}, "aiperf", {"ttft_p99": 0.06}, (512, 128)),
        (TRTLLM, "trtllm-bench", {"output_rate": 6400.0, "e2e_p50": 0.9, "e2e_mean": 1.0}, (512, 128)),
        ({"avg_latency": 1.5, "latencies": [1.5], "percentiles": {"50": 1.5}}, "vllm", {"step_p50": 1.5}, (0, 0)),
        ({"elapsed_time": 2.0, "num_requests": 10, "requests_per_second": 5.0, "tokens_per_second": 9.0}, "vllm",
         {"tokens_rate": 9.0}, (0, 0)),
        ("\n".join(json.dumps(_profile(k)) for k in range(5)), "aiperf", {"ttft_p50": 0.022, "e2e_p99": 0.5}, (100, 50)),
        ("Metric,avg,p99\nTime To First Token (ms),30,48\n\nMetric,Value\nRequest Throughput (per sec),5.5\n",
         "genai-perf", {"ttft_p99": 0.048, "requests_rate": 5.5}, (0, 0)),
        (SUMMARY, "mlperf", {"output_rate": 25000.1, "ttft_p99": 0.0015}, (0, 0)),
    ],
)  # fmt: skip
def test_each_form_gives_figures_in_si(
    content: object, tool: str, figures: dict[str, float], lengths: tuple[float, float], tmp_path: Path
) -> None:
    (run,) = _read(tmp_path, "run", content)
    assert run.tool == tool
    assert {name: run.figures[name] for name in figures} == pytest.approx(figures)
    assert (run.input_tokens, run.output_tokens) == lengths


def test_a_run_keeps_what_its_file_says_of_machine_and_load(tmp_path: Path) -> None:
    (run,) = _read(tmp_path, "t.json", TRTLLM)
    assert (run.gpu, run.layout["tensor"], run.layout["max_batch"]) == ("NVIDIA H100 80GB HBM3", 8, 256)
    (run,) = _read(tmp_path, "s.jsonl", SGLANG)
    assert (run.rate, run.concurrency, run.layout, run.cache) == (0.0, 16.0, {"tensor": 2}, "fp8_e4m3")
    folder = tmp_path / "llama2-70b-99" / "Server"
    folder.mkdir(parents=True)
    (run,) = _read(folder, "mlperf_log_summary.txt", SUMMARY)
    assert (run.model, run.rate, run.scenario) == ("llama-2-70b", 88.0, "Server")


def test_lines_are_several_runs(tmp_path: Path) -> None:
    runs = _read(tmp_path, "v.jsonl", json.dumps(VLLM) + "\n" + json.dumps(VLLM | {"request_rate": "inf"}))
    assert [run.id for run in runs] == ["v.jsonl#1", "v.jsonl#2"]
    assert [run.rate for run in runs] == [10.0, 0.0]


def test_detailed_runs_are_requests(tmp_path: Path) -> None:
    path = tmp_path / "v.json"
    path.write_text(json.dumps(DETAILED))
    table, notes = read_requests(path)
    assert table.arrival.tolist() == [0.0, 1.0, 2.0]
    assert table.input_tokens.tolist() == [6, 7, 5]
    assert table.output_tokens.tolist() == [1, 3, 1]
    assert notes
    path.write_text("\n".join(json.dumps(_profile(k)) for k in range(5)))
    assert read_requests(path)[0].arrival.tolist() == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])
    path.write_text(json.dumps(VLLM))
    with pytest.raises(TableError, match="--save-detailed"):
        read_requests(path)


@pytest.mark.parametrize(
    "text", ["{", "[1]", "", '{"a": 1}', '{"duration": 1, "completed": 2}', "[" * 100_000]
)
def test_a_file_without_figures_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad"
    path.write_text(text)
    with pytest.raises(TableError, match="expected the JSON, JSON lines or CSV"):
        read_benchmarks(path)
