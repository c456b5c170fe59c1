"""What each benchmark of servers writes, as a `ServerBenchmark`: vLLM, SGLang, genai-perf, aiperf, trtllm-bench.

Keys appear only where a metric was selected, and were renamed between releases, so that each has several names. Sources:
vLLM 0.33 (benchmarks/serve.py, throughput.py, latency.py), SGLang 0.5.23 (bench_serving.py), perf_analyzer @263c5f6e
(genai-perf), aiperf 0.13, TensorRT-LLM @02499765 (bench/dataclasses/reporting.py).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from podsim.answers.benchmarked import ServerBenchmark
from podsim.answers.quantiles import percentiles

Table: TypeAlias = Mapping[str, Any]

_KINDS = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2el": "e2e", "e2e_latency": "e2e"}
_LATENCY = re.compile(rf"(mean|median|std|p\d{{1,2}}(?:\.\d+)?)_({'|'.join(_KINDS)})_ms")
METRICS = {
    "request_latency": "e2e",
    "time_to_first_token": "ttft",
    "inter_token_latency": "tpot",
}
"""a metric of genai-perf and aiperf -> the kind of latency; their inter-token latency is a request's mean, our tpot"""
_METRIC_RATES = {
    "request_throughput": "requests_rate",
    "output_token_throughput": "output_rate",
    "total_token_throughput": "tokens_rate",
    "output_token_throughput_per_user": "user_rate",
    "request_goodput": "goodput_rate",
    "goodput": "goodput_rate",
}
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "seconds": 1.0}
_STATISTICS = {
    "avg": "mean", "min": "min", "max": "max", "std": "std", "average": "mean", "minimum": "min", "maximum": "max",
}  # fmt: skip
_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?)")


def number(value: object) -> float:
    """A finite number of a file, which may be text; NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return math.nan
    try:
        read = float(str(value).replace(",", "")[:60])
    except ValueError:
        return math.nan
    return read if math.isfinite(read) else math.nan


def first_number(table: Table, *names: str) -> float:
    """The first of some keys that holds a number above 0; 0 if none does."""
    return next((value for name in names if (value := number(table.get(name))) > 0), 0.0)


def _text(table: Table, *names: str) -> str:
    return next((str(table[name])[:200] for name in names if table.get(name) not in (None, "")), "")


def _table(table: Table, name: str) -> Table:
    value = table.get(name)
    return value if isinstance(value, Mapping) else {}


def _known(figures: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in figures.items() if value > 0}


def _counts(**values: float) -> dict[str, int]:
    return {name: int(value) for name, value in values.items() if 1 <= value < 1e9}


def _client_figures(table: Table) -> dict[str, float]:
    """Figures that vLLM and SGLang share: latencies in ms by statistic, and rates."""
    figures = {}
    for key, value in table.items():
        if match := _LATENCY.fullmatch(str(key)):
            statistic = "p50" if match[1] == "median" else match[1]
            figures[f"{_KINDS[match[2]]}_{statistic}"] = 1e-3 * number(value)
    figures |= {
        "requests_rate": first_number(table, "request_throughput"),
        "goodput_rate": first_number(table, "request_goodput", "request_goodput:"),
        "output_rate": first_number(table, "output_throughput"),
        "tokens_rate": first_number(table, "total_token_throughput", "total_throughput"),
    }
    return _known(figures)


def _client_load(table: Table) -> dict[str, Any]:
    """The load that vLLM's and SGLang's clients made."""
    completed = first_number(table, "completed", "num_prompts", "num_requests")
    inputs = first_number(table, "total_input_tokens", "total_input")
    outputs = first_number(table, "total_output_tokens", "total_output")
    return {
        "requests": int(completed), "failed": int(first_number(table, "failed")),
        "input_tokens": inputs / completed if completed else first_number(table, "random_input_len"),
        "output_tokens": outputs / completed if completed else first_number(table, "random_output_len"),
        "rate": first_number(table, "request_rate"), "concurrency": first_number(table, "max_concurrency"),
        "burstiness": first_number(table, "burstiness") or 1.0, "seconds": first_number(table, "duration"),
    }  # fmt: skip


def _layout(table: Table) -> dict[str, int]:
    """Degrees that a table of a server's arguments, or a user's metadata, may state."""
    return _counts(
        tensor=first_number(table, "tensor_parallel_size", "tp_size", "tp"),
        pipeline=first_number(table, "pipeline_parallel_size", "pp_size", "pp"),
        expert=first_number(table, "ep_size", "ep"),
        replicas=first_number(table, "data_parallel_size", "dp_size", "dp"),
        max_batch=first_number(table, "max_num_seqs", "max_running_requests", "max_batch_size"),
        max_batched_tokens=first_number(table, "max_num_batched_tokens", "max_num_tokens"),
    )


def read_vllm_serve(table: Table, id: str) -> ServerBenchmark:
    """`vllm bench serve --save-result`; metadata of the user may name GPU and layout."""
    return ServerBenchmark(
        id=id, tool="vllm", model=_text(table, "model_id", "model"), version=_text(table, "version", "vllm_version"),
        engine=_engine(_text(table, "backend", "endpoint_type")), gpu=_text(table, "gpu", "gpu_name", "device"),
        layout=_layout(table), precision=_text(table, "quantization", "dtype"), figures=_client_figures(table),
        **_client_load(table),
    )  # fmt: skip


def read_sglang(table: Table, id: str) -> ServerBenchmark:
    """A line of SGLang's `bench_serving --output-file`."""
    info = _table(table, "server_info")
    load = _client_load(table)
    return ServerBenchmark(
        id=id, tool="sglang", model=_text(table, "model", "model_id") or _text(info, "model_path", "served_model_name"),
        engine=_engine(_text(table, "backend")), version=_text(info, "version"), gpu=_text(table, "gpu"),
        layout=_layout(info), precision=_text(info, "quantization", "dtype"), cache=_text(info, "kv_cache_dtype"),
        figures=_client_figures(table), **load,
    )  # fmt: skip


def _engine(backend: str) -> str:
    """The engine that a client's backend speaks to; an OpenAI-like one may be any."""
    name = backend.lower()
    known = {"vllm": "vllm", "sglang": "sglang", "trt": "tensorrt-llm", "tensorrt": "tensorrt-llm"}
    return next((engine for start, engine in known.items() if name.startswith(start)), "")


def read_vllm_throughput(table: Table, id: str) -> ServerBenchmark:
    """`vllm bench throughput --output-json`: all requests at once; the tokens are those of prompts and answers."""
    requests = first_number(table, "num_requests")
    seconds = first_number(table, "elapsed_time")
    figures = {
        "requests_rate": first_number(table, "requests_per_second"),
        "tokens_rate": first_number(table, "tokens_per_second"),
    }
    return ServerBenchmark(
        id=id, tool="vllm", engine="vllm", model=_text(table, "model"), requests=int(requests), seconds=seconds,
        layout=_layout(table), gpu=_text(table, "gpu"), figures=_known(figures),
        input_tokens=first_number(table, "input_len"), output_tokens=first_number(table, "output_len"),
    )  # fmt: skip


def read_vllm_latency(table: Table, id: str) -> ServerBenchmark:
    """`vllm bench latency --output-json`: one batch, whose size and lengths the file leaves out."""
    figures = {"step_mean": first_number(table, "avg_latency")}
    for share, value in _table(table, "percentiles").items():
        figures[f"step_p{str(share)[:6]}"] = number(value)
    return ServerBenchmark(
        id=id, tool="vllm", engine="vllm", model=_text(table, "model"), layout=_layout(table), gpu=_text(table, "gpu"),
        concurrency=first_number(table, "batch_size"), input_tokens=first_number(table, "input_len"),
        output_tokens=first_number(table, "output_len"), figures=_known(figures),
    )  # fmt: skip


def statistics(metric: Table, kind: str) -> dict[str, float]:
    """Figures of a metric object {unit, avg, min, max, std, p50, …}, in s."""
    scale = UNITS.get(str(metric.get("unit", "ms")).strip().lower(), 1e-3)
    figures = {}
    for name, value in metric.items():
        if name in _STATISTICS or _PERCENTILE.fullmatch(str(name)):
            figures[f"{kind}_{_STATISTICS.get(name, name)}"] = scale * number(value)
    return _known(figures)


def read_metrics(table: Table, id: str) -> ServerBenchmark:
    """genai-perf's or aiperf's export: an object for each metric."""
    figures: dict[str, float] = {}
    for name, kind in METRICS.items():
        figures |= statistics(_table(table, name), kind)
    for name, figure in _METRIC_RATES.items():
        figures[figure] = figures.get(figure, 0.0) or first_number(_table(table, name), "avg")
    asked = _table(table, "input_config")
    load = {**_table(asked, "loadgen"), **_table(asked, "perf_analyzer"), **asked}
    endpoint = _table(asked, "endpoint")
    names = asked.get("model_names") or endpoint.get("model_names") or asked.get("model")
    model = names[0] if isinstance(names, list) and names else names
    stimulus = _table(load, "stimulus") or load
    lengths = {
        each: first_number(_table(table, f"{each}_sequence_length"), "avg") for each in ("input", "output")
    }
    return ServerBenchmark(
        id=id, tool="aiperf" if "aiperf_version" in table or "schema_version" in table else "genai-perf",
        model=str(model or "")[:200], engine=_engine(_text(asked, "backend", "service_kind")),
        requests=int(first_number(_table(table, "request_count"), "avg")),
        failed=int(first_number(_table(table, "error_request_count"), "avg")), input_tokens=lengths["input"],
        output_tokens=lengths["output"], rate=first_number(stimulus, "request_rate"),
        concurrency=first_number(stimulus, "concurrency"),
        seconds=first_number(_table(table, "benchmark_duration"), "avg"), figures=_known(figures),
    )  # fmt: skip


def read_metric_cells(rows: Iterable[list[str]], id: str) -> ServerBenchmark:
    """genai-perf's or aiperf's CSV: a table Metric,avg,min,… and a table Metric,Value."""
    metrics: dict[str, dict[str, Any]] = {}
    header: list[str] = []
    for row in rows:
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if cells[0].lower() == "metric":
            header = [cell.lower() for cell in cells]
            continue
        match = re.fullmatch(r"(.+?)(?:\s*\(([^()]*)\))?", cells[0])
        name = match[1].strip().lower().replace(" ", "_") if match else ""
        values = dict(zip(header[1:], cells[1:], strict=False))
        unit = (match[2] or "") if match else ""
        metrics[name] = {"unit": unit, "avg": values.get("value"), **values}
    table: dict[str, Any] = {**metrics}
    return read_metrics(table, id)


def read_trtllm(table: Table, id: str) -> ServerBenchmark:
    """`trtllm-bench … --report_json`: it names the GPU, the engine and the layout."""
    engine, world, asked = (_table(table, name) for name in ("engine", "world_info", "request_info"))
    speed, stream = _table(table, "performance"), _table(table, "streaming_metrics")
    figures = {
        "requests_rate": first_number(speed, "request_throughput_req_s"),
        "output_rate": first_number(speed, "system_output_throughput_tok_s"),
        "tokens_rate": first_number(speed, "system_total_throughput_tok_s"),
        "user_rate": first_number(speed, "output_throughput_per_user_tok_s"),
        "e2e_mean": 1e-3 * first_number(speed, "avg_request_latency_ms"),
        "ttft_mean": 1e-3 * first_number(stream, "avg_ttft_ms"),
        "tpot_mean": 1e-3 * first_number(stream, "avg_tpot_ms"),
    }
    for kind, given in (
        ("e2e", _table(speed, "request_latency_percentiles_ms")), ("ttft", _table(stream, "ttft_percentiles")),
        ("tpot", _table(stream, "tpot_percentiles")),
    ):  # fmt: skip
        figures |= statistics({"unit": "ms", **given}, kind)
    return ServerBenchmark(
        id=id, tool="trtllm-bench", engine="tensorrt-llm", model=_text(engine, "model", "model_path"),
        version=_text(engine, "version"), gpu=_text(_table(table, "machine"), "name"), layout=_layout(world),
        precision=_text(engine, "quantization", "dtype"), cache=_text(engine, "kv_cache_dtype"),
        requests=int(first_number(asked, "num_requests")), input_tokens=first_number(asked, "avg_input_length"),
        output_tokens=first_number(asked, "avg_output_length"), rate=max(first_number(world, "issue_rate"), 0.0),
        concurrency=first_number(asked, "avg_num_concurrent_requests"),
        seconds=1e-3 * first_number(speed, "total_latency_ms"), figures=_known(figures),
    )  # fmt: skip


def percentile_figures(kind: str, seconds: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float]:
    """Mean and percentiles of measured times, s."""
    figures = percentiles(seconds) if len(seconds) else {}
    return {f"{kind}_{name}": value for name, value in figures.items()}


FORMS: tuple[tuple[tuple[str, ...], Callable[[Table, str], ServerBenchmark]], ...] = (
    (("engine", "request_info", "performance"), read_trtllm),
    (("backend", "random_input_len"), read_sglang),
    (("backend", "server_info"), read_sglang),
    (("backend", "input_throughput"), read_sglang),
    (("duration", "completed"), read_vllm_serve),
    (("elapsed_time", "requests_per_second"), read_vllm_throughput),
    (("avg_latency", "latencies"), read_vllm_latency),
    (("avg_latency", "percentiles"), read_vllm_latency),
    (("input_config", "request_throughput"), read_metrics),
    (("request_throughput", "request_latency"), read_metrics),
)
"""(the keys by which a JSON object is known, its reader); the first that fits is taken"""
