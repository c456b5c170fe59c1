"""`podsim serve --ttft --tpot`: the best way to serve a language model under a load."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from podsim.answers.best_serving import BestServing, ServingWay
from podsim.answers.quantiles import PERCENTILES
from podsim.errors import CatalogError, PodsimError, UnitError, unknown_name
from podsim.fleet.price_offers import price_offer
from podsim.hardware.cluster import Cluster
from podsim.options.serving_options import ServeOptions
from podsim.serving.benchmark_files import read_requests
from podsim.serving.best_layouts import Choices
from podsim.serving.best_search import Objective
from podsim.serving.best_ways import ServingCase, search_best
from podsim.serving.deployments.deployments import TRITON_ENGINES, read_targets, target_engine
from podsim.serving.language_engines import engine_family, language_engine_names, load_language_engine
from podsim.serving.language_layers import check_language_model
from podsim.serving.language_setup import OUTPUT, TOKENS, model_keys, prefill_plan, read_format
from podsim.serving.load.request_streams import RequestStream, draw_lengths, draw_requests, read_rate
from podsim.serving.load.request_table import RequestTable
from podsim.serving.serving_gpus import read_serving_cluster
from podsim.serving.serving_plan import CACHE_FORMATS, WEIGHT_FORMATS, ServingPlan
from podsim.serving.steady_load import workload_of
from podsim.serving.trace_file import Progress
from podsim.units import parse_quantity
from podsim.workload.catalog import load_model

_REQUESTS, _LEAST = 5000, 1500
"""requests of a simulation: the most, and the fewest where answers are long"""
_EIGHT_BITS = ("fp8", "fp8_block", "mxfp8", "nvfp4")
"""formats of weights with which caches in fp8 are tried, too"""


def serve_best(options: ServeOptions, *, progress: Progress | None = None) -> BestServing:
    """The best way to serve within limits of latency. Raises NoFitError where nothing fits or no law allows it."""
    model = load_model(options.model, model_keys(options.overrides))
    check_language_model(model)
    cluster = read_serving_cluster(options.on, options.overrides)
    objective = _objective(options)
    requests, notes = _requests(options, progress)
    load = replace(workload_of(requests, _given_rate(options)), prefix_share=options.prefix)
    case = ServingCase(
        model=model, cluster=cluster, load=load, requests=requests, objective=objective, notes=notes,
        choices=_choices(options, cluster), offer=price_offer(options.price, cluster),
    )  # fmt: skip
    answer = search_best(case)
    return replace(answer, ways=tuple(replace(way, command=_command(options, way)) for way in answer.ways))


def _objective(options: ServeOptions) -> Objective:
    limits = {}
    for name, text in (("ttft", options.ttft), ("tpot", options.tpot)):
        if not text:
            continue
        limits[name] = parse_quantity(text, "s", what=name)
        if not 0 < limits[name] <= 86_400:
            raise UnitError(f"{name}: {text[:40]!r} is out of reach; expected up to a day, such as 500ms")
    percentile = 99 if options.percentile is None else options.percentile
    if percentile not in PERCENTILES:
        raise PodsimError(f"percentile={percentile:g}: one of 50, 90, 95, 99")
    infinite = float("inf")
    return Objective(
        first=limits.get("ttft", infinite), each=limits.get("tpot", infinite), percentile=int(percentile)
    )


def _given_rate(options: ServeOptions) -> float:
    """1/s. The user's rate of arrivals; 0 where a trace has its own."""
    return read_rate(options.rate) if options.rate else 0.0


def _requests(options: ServeOptions, progress: Progress | None) -> tuple[RequestTable, tuple[str, ...]]:
    """The requests of the simulations, and notes on them."""
    rate, answer = _given_rate(options), _mean_answer(options)
    count = options.requests or max(round(_REQUESTS * min(1.0, OUTPUT / answer)), _LEAST)
    if options.clients is not None or options.load:
        raise PodsimError(
            "--clients and --load have no rate of their own: with --ttft and --tpot give --rate or --trace"
        )
    if options.trace is not None:
        table, notes = read_requests(options.trace, progress=progress)
        part = table.first(count)
        if len(part) < len(table):
            notes = (
                *notes,
                f"{options.trace.name}: the first {len(part):,} of {len(table):,} requests are simulated",
            )
        own = float(part.arrival[-1])
        if rate and own > 0:
            part = replace(part, arrival=part.arrival * ((len(part) - 1) / own / rate))
        elif own <= 0:
            raise PodsimError(f"{options.trace.name}: all requests arrive at once; give --rate, such as 20/s")
        return part, notes
    if not rate:
        raise PodsimError(
            "--ttft and --tpot need a load: --rate 20/s (with --input-tokens and --output-tokens), or --trace FILE"
        ).offer(rate="20/s")
    stream = RequestStream(
        requests=count, rate=rate, arrivals=options.arrivals, seed=options.seed,
        input_tokens=options.input_tokens or str(options.tokens or TOKENS),
        output_tokens=options.output_tokens or str(options.output or OUTPUT),
    )  # fmt: skip
    return draw_requests(stream), ()


def _mean_answer(options: ServeOptions) -> float:
    """count. About the tokens of an answer."""
    text = options.output_tokens or str(options.output or OUTPUT)
    return float(draw_lengths(text, 200, np.random.default_rng(0), "output tokens").mean())


def _choices(options: ServeOptions, cluster: Cluster) -> Choices:
    """What the user leaves open."""
    engines = tuple(name for name in language_engine_names() if engine_family(name) == name)
    targets = read_targets(options.launch)
    if needed := target_engine(targets):
        engines = (needed,)
    elif "triton" in targets:
        engines = TRITON_ENGINES
    if options.engine:
        engines = tuple(load_language_engine(name, cluster.gpu).name for name in _words(options.engine))
    usual = "fp16" if "fp16" in cluster.gpu.peaks else next(iter(cluster.gpu.peaks))
    weights = [read_format(name) for name in _words(options.precision or "")] or [usual]
    for name in weights:
        if name not in WEIGHT_FORMATS:
            raise CatalogError(unknown_name("precision", name[:40], WEIGHT_FORMATS))
    caches = [read_format(name) for name in _words(options.kv)]
    for name in caches:
        if name not in CACHE_FORMATS:
            raise CatalogError(unknown_name("format of keys and values", name[:40], CACHE_FORMATS))
    pairs = tuple(
        (name, cache)
        for name in weights
        for cache in caches or (("fp16", "fp8") if name in _EIGHT_BITS else ("fp16",))
    )
    pins = {
        "tensor": options.tp, "pipeline": options.pp, "expert": options.ep, "data_attention": options.attention_dp,
        "replicas": options.replicas, "max_batch": options.max_batch, "max_batched_tokens": options.max_batched_tokens,
    }  # fmt: skip
    if wrong := [f"{name}={value}" for name, value in pins.items() if value is not None and value < 1]:
        raise PodsimError(f"{', '.join(wrong)}: 1 or more")
    drafted = (options.speculate,) if options.speculate else ((2, 4) if options.draft else ())
    return Choices(
        engines=engines, formats=pairs, draft=options.draft.strip().lower(), drafted=(0, *drafted),
        acceptance=options.acceptance, is_split="triton" not in targets and options.replicas is None,
        pins={name: value for name, value in pins.items() if value is not None},
    )  # fmt: skip


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _command(options: ServeOptions, way: ServingWay) -> str:
    """The command that simulates a way under the same load; empty where its pools differ in layout."""
    if way.prefill is not None:
        own: dict[str, Any] = dict(way.plan)
        follows = asdict(prefill_plan(ServingPlan(**own), int(str(way.prefill["tensor"]))))
        if any(way.prefill[name] != follows[name] for name in ("pipeline", "expert", "data_attention")):
            return ""
    words = ["podsim", "serve", "load", str(options.model), "--on", str(options.on)]
    loads = {
        "rate": options.rate, "trace": options.trace, "input-tokens": options.input_tokens or options.tokens,
        "output-tokens": options.output_tokens or options.output,
    }  # fmt: skip
    for name, value in loads.items():
        if value:
            words += [f"--{name}", str(value)]
    return shlex.join([*words, *_plan_words(way.plan, way.prefill)])


def _plan_words(plan: Mapping[str, object], prefill: Mapping[str, object] | None) -> Iterator[str]:
    flags = {
        "engine": "--engine", "precision": "--precision", "cache": "--kv", "tensor": "--tp", "pipeline": "--pp",
        "expert": "--ep", "data_attention": "--attention-dp", "draft_tokens": "--speculate", "draft": "--draft",
        "max_batch": "--max-batch", "max_batched_tokens": "--max-batched-tokens",
    }  # fmt: skip
    plain = {"pipeline": 1, "expert": 1, "data_attention": 1, "draft_tokens": 0, "draft": ""}
    for name, flag in flags.items():
        if plan[name] != plain.get(name):
            yield from (flag, str(plan[name]))
    if prefill is None:
        yield from ("--replicas", str(plan["replicas"]))
    else:
        yield from ("--disaggregate", f"{prefill['replicas']}:{plan['replicas']}")
        if prefill["tensor"] != plan["tensor"]:
            yield from ("--set", f"serve.prefill_tp={prefill['tensor']}")
    if any(pool is not None and pool["replicas"] != 1 for pool in (plan, prefill)):
        yield from ("--routing", "least-loaded")
    if engine_family(str(plan["engine"])) == "tensorrt-llm":
        yield from ("--scheduler", "trtllm-chunked")
