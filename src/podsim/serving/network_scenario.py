"""A network under one of MLPerf's scenarios: `podsim serve resnet-50 --on t4 --scenario server --latency 15ms`."""

from __future__ import annotations

from dataclasses import replace

from podsim.answers.scenario_run import ScenarioRun
from podsim.answers.served import Served
from podsim.errors import PodsimError
from podsim.hardware.parts import PRECISIONS, Gpu
from podsim.options.serving_options import ServeOptions
from podsim.serving.load.request_streams import read_rate
from podsim.serving.network_batches import read_limit, serve_batches
from podsim.serving.scenarios import Ask, Benchmark, benchmark_of, scenario_run
from podsim.serving.serving_gpus import read_serving_gpu
from podsim.units import format_quantity, parse_quantity

BATCHES = "1,2,4,8,12,16,24,32,48,64,96,128,192,256,384,512,768,1024,2048"
"""batches whose seconds a scenario interpolates"""


def serve_scenario(options: ServeOptions) -> ScenarioRun:
    """The answer of `podsim serve --scenario`. Raises PodsimError for options that contradict each other."""
    bench = benchmark_of(options.model) if options.scenario else None
    limit = read_limit(options.latency) or (bench.latency if bench else None)
    rate = _rate(options)
    scenario = "server" if rate else options.scenario
    if scenario == "server" and limit is None and rate is None:
        raise PodsimError(
            f"scenario server: {options.model} has no limit in MLPerf Inference; give one: --latency 100ms"
        )
    ask = Ask(
        scenario=scenario, limit=None if scenario == "offline" else limit, rate=rate,
        percentile=read_percentile(options.percentile), delay=read_delay(options.queue_delay),
        spread=bench.spread if bench and options.tokens is None else 0.0,
    )  # fmt: skip
    served = batches_of(benchmark_options(options, bench))
    made = scenario_run(served, ask)
    return replace(made, assumptions=(*_assumptions(options, ask, bench, served), *made.assumptions))


def _rate(options: ServeOptions) -> float | None:
    """1/s of the user's requests. Raises PodsimError for a scenario without a rate."""
    if not options.rate:
        return None
    if options.scenario not in ("", "server"):
        raise PodsimError(f"rate: the scenario {options.scenario} sends its requests without one")
    return read_rate(options.rate)


def benchmark_options(options: ServeOptions, bench: Benchmark | None) -> ServeOptions:
    """The options with what the benchmark of the network states: its precision and its sequences."""
    if bench is None:
        return options
    chip, _, _ = read_serving_gpu(options.on, options.overrides)
    precision = options.precision or _native(chip, bench)
    is_captured = options.model.lower().endswith("-384")
    tokens = options.tokens or (None if is_captured else bench.tokens)
    return replace(options, precision=precision, tokens=tokens)


def _native(chip: Gpu, bench: Benchmark) -> str | None:
    """The first of the benchmark's precisions that the GPU computes."""
    return next((each for each in bench.precisions if PRECISIONS[each].is_native(chip)), None)


def batches_of(options: ServeOptions, portion: float = 1.0) -> Served:
    """The seconds of many batches of a network, of which each request holds a portion of a sample."""
    batch = _with_one(options.batch) if options.batch else BATCHES
    return serve_batches(replace(options, batch=batch, latency="", triton=None), portion)


def _with_one(batch: str) -> str:
    """The batches that a user allows, with a lone sample."""
    sizes = [size for size in BATCHES.split(",") if batch.strip().isdecimal() and int(size) < int(batch)]
    return ",".join(["1", *sizes, batch])


def read_percentile(percentile: float | None) -> float | None:
    """The share of requests of a percentile. Raises PodsimError for one that is none."""
    if percentile is None:
        return None
    if not 1 <= percentile < 100:
        raise PodsimError(f"percentile={percentile:g}: 1 to 99.9, such as 99")
    return percentile / 100


def read_delay(text: str) -> float:
    """Seconds of a queue delay. Raises PodsimError for one that is none."""
    seconds = parse_quantity(text, "s", what="queue_delay") if text else 0.0
    if not 0 <= seconds <= 60:
        raise PodsimError(f"queue_delay={text[:40]!r}: 0 s to 60 s, such as 2ms")
    return seconds


def _assumptions(options: ServeOptions, ask: Ask, bench: Benchmark | None, served: Served) -> tuple[str, ...]:
    notes = []
    if bench is not None:
        notes.append(f"the benchmark {bench.name}: {bench.source}")
    if bench is not None and not options.precision:
        notes.append(
            f"{served.precision}, as submissions of the closed division; --precision chooses another"
        )
    if ask.spread:
        notes.append(f"{served.tokens} tokens a sequence on average, none of them padding")
    if ask.scenario == "server":
        delay = (
            f"waits up to {format_quantity(ask.delay, 's')} for a fuller batch"
            if ask.delay
            else "starts a batch as soon as a GPU is free"
        )
        gpus = "one GPU" if served.instances == 1 else f"{served.instances} GPUs"
        notes.append(f"Poisson arrivals; one queue feeds {gpus} and {delay}")
    return tuple(notes)
