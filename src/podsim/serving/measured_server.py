"""Results of benchmarks of servers next to podsim's prediction of the same server under the same load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from podsim.accuracy.price_engines import engine_gpu
from podsim.answers.benchmarked import LATENCIES, RATES, ServerBenchmark
from podsim.answers.compared_server import ComparedFigure, ComparedRun, ComparedServer
from podsim.answers.comparison import ComparedRow, Comparison
from podsim.answers.served_load import ServedLoad
from podsim.errors import PodsimError
from podsim.foreign_files import read_start
from podsim.options.serving_options import ServeOptions
from podsim.serving.benchmark_files import is_benchmark, read_benchmarks
from podsim.serving.language_batches import serve_static
from podsim.serving.language_setup import is_network
from podsim.serving.load.simulated_server import serve_load
from podsim.serving.network_scenario import serve_scenario
from podsim.serving.serving_plan import WEIGHT_FORMATS

_REQUESTS = (500, 5000)
"""the fewest and the most requests of a simulation"""
_NAMES = {"first token": "ttft", "each token": "tpot", "between tokens": "itl", "end to end": "e2e"}
"""a time of a simulated server -> its kind in benchmarks"""
_STATISTICS = ("mean", "p50", "p90", "p95", "p99")
_FORMATS = {
    "fp8": "fp8",
    "fp8_e4m3": "fp8",
    "auto": "",
    "float16": "fp16",
    "bfloat16": "bf16",
    "nvfp4": "nvfp4",
}


def is_benchmark_file(path: Path) -> bool:
    """Whether a file looks like the result of a benchmark of servers."""
    return is_benchmark(read_start(path, 1 << 16).decode("utf-8", errors="replace"))


def serve_measured(path: Path, options: ServeOptions) -> ComparedServer:
    """The runs of a file and their predictions; what the user says has priority over what the file says.

    Raises TableError for a file without a measured run, and PodsimError for options that cannot be used.
    """
    runs = [_compared(run, options) for run in read_benchmarks(path)]
    if len(runs) == 1 and runs[0].reason:
        raise PodsimError(f"{path.name}: {runs[0].reason}")
    assumptions = (
        "arrivals at the run's rate, or its clients in a closed loop; prompts and answers of the mean length",
        "no network, tokenizer or HTTP stands between client and server",
    )
    return ComparedServer(file=path.name, runs=tuple(runs), assumptions=assumptions)


def measured_comparisons(path: Path, on: str) -> list[Comparison]:
    """The same as rows of accuracy: latencies, rates of requests, and tokens of a GPU."""
    answer = serve_measured(path, ServeOptions(on=on))
    kinds = {"seconds": "s", "samples/s": "requests_rate", "tokens/s per GPU": "output_rate"}
    reasons = tuple((run.id, run.reason) for run in answer.runs if run.reason)
    comparisons: list[Comparison] = []
    for what, kind in kinds.items():
        rows = tuple(
            ComparedRow(
                id=f"{run.id} {figure.name}", role="test", table=path.stem, group=figure.name,
                predicted=figure.predicted / _share(run, what), measured=figure.measured / _share(run, what),
            )
            for run in answer.runs
            for figure in run.figures
            if kind in (figure.unit, figure.name)
        )  # fmt: skip
        if rows or (reasons and not comparisons):
            comparisons.append(
                Comparison(
                    table=path.stem, title=f"{path.name}: {what}", what=what, rows=rows, sources=(path.name,),
                    not_expressed=reasons if not comparisons else (),
                )
            )  # fmt: skip
    return comparisons


def _share(run: ComparedRun, what: str) -> int:
    return run.gpus if what == "tokens/s per GPU" else 1


def _compared(run: ServerBenchmark, options: ServeOptions) -> ComparedRun:
    """A run and its prediction, or the reason why there is none."""
    load = _load_words(run)
    try:
        asked = _options(run, options)
        predicted, setup, gpus = _predicted(run, asked)
    except PodsimError as problem:
        return ComparedRun(id=run.id, tool=run.tool, setup="", load=load, gpus=1, reason=str(problem))
    figures = tuple(
        ComparedFigure(
            name=name, words=_figure_words(name), unit="1/s" if name.endswith("_rate") else "s", measured=measured,
            predicted=predicted[name],
        )
        for name, measured in run.figures.items()
        if predicted.get(name, 0.0) > 0
    )  # fmt: skip
    reason = "" if figures else "it measured no figure that podsim predicts"
    return ComparedRun(
        id=run.id, tool=run.tool, setup=setup, load=load, gpus=gpus, figures=figures, reason=reason
    )


def _options(run: ServerBenchmark, options: ServeOptions) -> ServeOptions:
    """The options of the run's server and load; the user's own stay."""
    model, gpus = options.model or run.model, _gpus(run)
    if not model:
        raise PodsimError("the file names no model; podsim serve best MODEL --measured FILE gives it")
    on = options.on or (f"{gpus}x{engine_gpu(run.gpu).name}" if run.gpu else "")
    if not on:
        raise PodsimError("the file names no GPU; give --on, such as --on dgx-h100:1")
    said: dict[str, Any] = {
        "engine": run.engine, "tp": run.layout.get("tensor"), "pp": run.layout.get("pipeline"),
        "ep": run.layout.get("expert"), "replicas": run.layout.get("replicas") or 1,
        "max_batch": run.layout.get("max_batch"), "max_batched_tokens": run.layout.get("max_batched_tokens"),
        "precision": _format(run.precision) or None, "kv": _format(run.cache),
    }  # fmt: skip
    plain = ServeOptions()
    open_ones = {
        name: value for name, value in said.items() if getattr(options, name) == getattr(plain, name)
    }
    return replace(options, model=model, on=on, **{name: value for name, value in open_ones.items() if value})


def _gpus(run: ServerBenchmark) -> int:
    layout = run.layout
    return layout.get("tensor", 1) * layout.get("pipeline", 1) * layout.get("replicas", 1)


def _format(text: str) -> str:
    """A number format of an engine as podsim names it; "" for one that is the model's own, or unknown."""
    word = text.strip().lower().replace("-", "_")
    return _FORMATS.get(word, word if word in WEIGHT_FORMATS else "")


def _predicted(run: ServerBenchmark, options: ServeOptions) -> tuple[Mapping[str, float], str, int]:
    """(figures, the setup in words, GPUs) of the prediction."""
    if is_network(options):
        return _network_figures(run, options)
    inputs = options.input_tokens or str(options.tokens or round(run.input_tokens) or "")
    outputs = options.output_tokens or str(options.output or round(run.output_tokens) or "")
    if not inputs or not outputs:
        raise PodsimError("the file gives no lengths; give --input-tokens and --output-tokens")
    if "step_mean" in run.figures:
        return _batch_figures(run, replace(options, tokens=int(inputs), output=int(outputs)))
    count = min(max(run.requests or _REQUESTS[1], _REQUESTS[0]), _REQUESTS[1])
    load: dict[str, Any] = {
        "requests": count,
        "input_tokens": inputs,
        "output_tokens": outputs,
        "tokens": None,
        "output": None,
    }
    if run.rate and not options.rate and options.clients is None:
        arrivals = "poisson" if run.burstiness == 1 else f"gamma:{run.burstiness**-0.5:g}"
        load |= {"rate": f"{run.rate:g}/s", "arrivals": arrivals}
    elif not options.rate and options.clients is None:
        load |= {"clients": int(run.concurrency) or count}
    answer = serve_load(replace(options, **load))
    return _load_figures(answer), f"{answer.model} on {answer.on}: {answer.layout}", answer.gpus


def _load_figures(answer: ServedLoad) -> dict[str, float]:
    """The figures of a simulated server, by the names of benchmarks."""
    figures = {
        f"{_NAMES[row.name]}_{statistic}": float(getattr(row, statistic))
        for row in answer.rows
        if row.name in _NAMES
        for statistic in _STATISTICS
    }
    return figures | {
        "requests_rate": answer.answered_rate, "output_rate": answer.output_rate, "user_rate": answer.user_rate,
    }  # fmt: skip


def _batch_figures(run: ServerBenchmark, options: ServeOptions) -> tuple[Mapping[str, float], str, int]:
    """The latency of one static batch."""
    batch = options.batch or (str(int(run.concurrency)) if run.concurrency else "")
    if not batch:
        raise PodsimError("the file gives no size of the batch; give --batch")
    answer = serve_static(replace(options, batch=batch))
    latency = answer.rows[0].latency
    same = {name: latency for name in run.figures if name.startswith("step_")}
    return same, f"{answer.model} on {answer.gpu}, batch {batch}", int(str(answer.plan.get("tensor", 1)))


def _network_figures(run: ServerBenchmark, options: ServeOptions) -> tuple[Mapping[str, float], str, int]:
    """The rate and the latency of a scenario of MLPerf."""
    words = {"singlestream": "single-stream", "multistream": "multi-stream"}
    name = run.scenario.lower().replace("_", "")
    scenario = options.scenario or words.get(name, name)
    rate = f"{run.rate:g}/s" if run.rate and scenario == "server" else ""
    plan: dict[str, Any] = {
        "tp": None,
        "pp": None,
        "ep": None,
        "replicas": None,
        "max_batch": None,
        "max_batched_tokens": None,
    }
    answer = serve_scenario(replace(options, scenario=scenario, rate=rate, kv="", **plan))
    setup = f"{answer.model} on {answer.instances} x {answer.gpu}: {answer.precision}, {answer.scenario}"
    figures = {"requests_rate": answer.rate, f"e2e_p{100 * answer.percentile:g}": answer.latency}
    return figures, setup, answer.instances


def _load_words(run: ServerBenchmark) -> str:
    lengths = f", {run.input_tokens:,.0f} tokens in, {run.output_tokens:,.0f} out" if run.input_tokens else ""
    if run.rate:
        return f"{run.rate:,.4g} requests/s{lengths}"
    clients = f"{run.concurrency:,.0f} at once" if run.concurrency else "all at once"
    return (
        f"{run.requests:,} requests, {clients}{lengths}"
        if run.requests
        else f"{run.scenario or clients}{lengths}"
    )


def _figure_words(name: str) -> str:
    """A figure in words: "time to first token, p99"."""
    kind, _, statistic = name.rpartition("_")
    if statistic == "rate":
        return f"{RATES.get(kind, kind)} a second"
    return f"{LATENCIES.get(kind, kind)}, {statistic}"
