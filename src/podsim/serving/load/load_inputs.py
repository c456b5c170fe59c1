"""What a user asks of a server under load -> requests, and a pool of replicas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from podsim.errors import PlanError, PodsimError, UnitError, unknown_name
from podsim.hardware.cluster import Cluster
from podsim.options.serving_options import ServeOptions
from podsim.serving.benchmark_files import read_requests
from podsim.serving.language_notes import plan_words
from podsim.serving.language_setup import LanguageSetup, prefill_plan, read_language_setup
from podsim.serving.load.load_layout import ReplicaOptions, for_requests, replica_kind
from podsim.serving.load.replica_pool import SCHEDULERS, Autoscaling, ReplicaKind, ReplicaPool
from podsim.serving.load.request_streams import RequestStream, draw_requests, read_rate
from podsim.serving.load.request_table import MOST, RequestTable
from podsim.serving.load.server_state import ROUTINGS
from podsim.serving.plan_rules import check_plan
from podsim.serving.trace_file import Progress
from podsim.units import parse_quantity

REQUESTS = 20_000
"""requests of a stream where the user gives no number"""
_ROOM = 64
"""sequences for which a plan that the user leaves open has room"""
_STATIC = ("batch", "latency", "triton", "prefix")
"""options of static batches"""
_LIMITS = ("ttft", "tpot", "e2e")


@dataclass(frozen=True, kw_only=True)
class LoadInputs:
    """The requests, and the pool that answers them."""

    stream: RequestStream
    """The stream of requests; of a trace its number and seed alone."""
    trace: RequestTable | None
    pool: ReplicaPool
    setups: tuple[LanguageSetup, ...]
    cluster: Cluster
    clients: int
    think: float
    """s. The mean time that a client thinks."""
    share: float
    """share. The rate over that at which the server saturates; 0 where the user gives the rate."""
    slo: Mapping[str, float]
    notes: tuple[str, ...]
    price: str
    is_streamed: bool

    @property
    def setup(self) -> LanguageSetup:
        """The first model's."""
        return self.setups[0]


def read_load(options: ServeOptions, progress: Progress | None = None) -> LoadInputs:
    """All that a simulation needs. Raises PodsimError for anything unusable, NoFitError for models that do not fit."""
    given = [
        name for name in ("rate", "load", "trace", "clients") if getattr(options, name) not in ("", None)
    ]
    if len(given) > 1:
        raise PodsimError(
            f"{' and '.join('--' + name for name in given)} each say when requests arrive; give one of them"
        )
    static = [name for name in _STATIC if getattr(options, name)]
    if static:
        flags, remedy = (
            ", ".join(f"--{name}" for name in static),
            "--max-batch, --slo e2e=5s and --shared-prefix 1024:8",
        )
        raise PodsimError(f"{flags}: of static batches; requests that arrive have {remedy}")
    stream, (trace, notes) = _stream(options), _trace(options, progress)
    others = [_other(text) for text in options.also_serve]
    if trace is not None and others:
        raise PodsimError("--also divides requests of a stream over models; a trace is of one model")
    length = _typical_length(trace if trace is not None else _few_requests(stream))
    setups = _setups(options, [name for name, _ in others], length)
    pool = _pool(options, setups, (1.0 - sum(share for _, share in others), *(share for _, share in others)))
    stream = replace(stream, shares=_shares(others), adapters=_adapters(options)[0])
    return LoadInputs(
        stream=stream, trace=trace, pool=pool, setups=setups, cluster=setups[0].cluster, clients=_clients(options),
        think=_seconds(options.think, "think"), share=_load_share(options.load), slo=read_slo(options.slo), notes=notes,
        price=options.price, is_streamed=options.stream,
    )  # fmt: skip


def read_slo(text: str) -> dict[str, float]:
    """s. The limits of a good answer from ttft=500ms,tpot=30ms,e2e=5s."""
    limits = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, equals, value = (each.strip() for each in part.partition("="))
        if name.lower() not in _LIMITS or not equals:
            raise PodsimError(
                f"slo: {unknown_name('limit', name[:40], _LIMITS)}; expected such as ttft=500ms,tpot=30ms"
            )
        limits[name.lower()] = _seconds(value, f"slo: {name}")
    return limits


def _stream(options: ServeOptions) -> RequestStream:
    """The stream of requests that the options describe."""
    shared = _numbers(options.shared_prefix, "shared_prefix", "1024:8", 2) if options.shared_prefix else []
    return RequestStream(
        requests=REQUESTS if options.requests is None else options.requests,
        rate=read_rate(options.rate) if options.rate else inf, arrivals=options.arrivals,
        input_tokens=options.input_tokens or str(options.tokens or 512),
        output_tokens=options.output_tokens or str(options.output or 128),
        shared_tokens=shared[0] if shared else 0, shared_groups=shared[1] if len(shared) > 1 else 1,
        patience=_seconds(options.patience, "patience") if options.patience else inf, seed=_seed(options.seed),
    )  # fmt: skip


def _few_requests(stream: RequestStream) -> RequestTable:
    """Some requests of a stream, for their lengths."""
    return draw_requests(replace(stream, requests=200, rate=inf, arrivals="poisson"))


def _typical_length(table: RequestTable) -> int:
    """The tokens of requests of which a plan that the user leaves open holds 64: their mean, or one of the longest."""
    tokens = table.input_tokens + table.output_tokens
    return int(max(np.mean(tokens), np.max(tokens) / _ROOM))


def _trace(options: ServeOptions, progress: Progress | None) -> tuple[RequestTable | None, tuple[str, ...]]:
    """(the requests of a file, what is worth saying of it); (None, ()) without one."""
    if options.trace is None:
        return None, ()
    table, notes = read_requests(options.trace, progress=progress)
    return (table if options.requests is None else table.first(max(options.requests, 1))), tuple(notes)


def _setups(options: ServeOptions, others: list[str], length: int) -> tuple[LanguageSetup, ...]:
    """The setup of each model; several share the GPUs, with as many replicas each as their requests need."""
    first = read_language_setup(options, _ROOM, length)
    if not others:
        return (first,)
    alone = replace(options, replicas=1, tp=None, pp=None, ep=None, cp=None, attention_dp=None)
    return (
        read_language_setup(replace(options, replicas=1), _ROOM, length),
        *(read_language_setup(replace(alone, model=name), _ROOM, length) for name in others),
    )


def _pool(options: ServeOptions, setups: tuple[LanguageSetup, ...], shares: tuple[float, ...]) -> ReplicaPool:
    """The replicas of all models."""
    if options.routing not in ROUTINGS:
        raise PodsimError(unknown_name("routing", options.routing[:40], ROUTINGS))
    if options.scheduler and options.scheduler not in SCHEDULERS:
        raise PodsimError(unknown_name("scheduler", options.scheduler[:40], SCHEDULERS))
    _, slots, rank = _adapters(options)
    rate = parse_quantity(options.load_from, "B/s", what="load_from") if options.load_from else 0.0
    details = ReplicaOptions(
        scheduler=options.scheduler, chunked=options.chunked, swap=options.swap,
        prefix_cache=options.prefix_cache, adapter_slots=slots,
        adapter_rank=rank, load_rate=rate,
    )  # fmt: skip
    kinds = [
        replica_kind(setup.model, setup.cluster, setup.plan, details, number=number)
        for number, setup in enumerate(setups)
    ]
    if len(kinds) > 1:
        kinds = _shared_gpus(kinds, shares, setups[0].cluster)
    if options.disaggregate:
        kinds = _disaggregated(options, setups, kinds, details)
    scaling = None
    if options.autoscale:
        kinds, scaling = _autoscaled(options, kinds)
    return ReplicaPool(kinds=tuple(kinds), routing=options.routing, autoscaling=scaling)


def _shared_gpus(kinds: list[ReplicaKind], shares: tuple[float, ...], cluster: Cluster) -> list[ReplicaKind]:
    """Replicas of several models on one pool: the next one goes to the model with the most work for each of its GPUs."""
    counts = [1] * len(kinds)
    used = sum(kind.gpus for kind in kinds)
    if used > cluster.gpus:
        raise PlanError([
            f"one replica of each model takes {used} GPUs ({', '.join(str(kind.gpus) for kind in kinds)}); {cluster.name}"
            f" has {cluster.gpus}"
        ])  # fmt: skip
    work = [
        share * kind.cost.seconds([(512.0, 0.0)], 64, 512.0)
        for share, kind in zip(shares, kinds, strict=True)
    ]
    while True:
        fits = [k for k, kind in enumerate(kinds) if used + kind.gpus <= cluster.gpus]
        if not fits:
            return [replace(kind, replicas=count) for kind, count in zip(kinds, counts, strict=True)]
        busiest = max(fits, key=lambda k: work[k] / counts[k])
        counts[busiest] += 1
        used += kinds[busiest].gpus


def _disaggregated(
    options: ServeOptions,
    setups: tuple[LanguageSetup, ...],
    kinds: list[ReplicaKind],
    details: ReplicaOptions,
) -> list[ReplicaKind]:
    """Some replicas that prefill, and some that decode."""
    numbers = _numbers(options.disaggregate, "disaggregate", "2:1", 2)
    if len(numbers) != 2 or len(kinds) > 1 or options.autoscale:
        raise PodsimError(
            "disaggregate: expected replicas that prefill and that decode, as 2:1, of one model, not scaled"
        )
    setup = setups[0]
    plans = (prefill_plan(setup.plan, options.prefill_tp), setup.plan)
    gpus = sum(count * plan.gpus for count, plan in zip(numbers, plans, strict=True))
    if gpus > setup.cluster.gpus:
        raise PlanError([
            f"disaggregate={options.disaggregate}: replicas on {gpus} GPUs ({plan_words(setup.plan)}) are more than the"
            f" {setup.cluster.gpus} of {setup.cluster.name}; give --tp and --prefill-tp"
        ])  # fmt: skip
    made = []
    for role, count, plan in zip(("prefill", "decode"), numbers, plans, strict=True):
        pool = replace(plan, replicas=count)
        check_plan(setup.model, setup.cluster, pool)
        made.append(replace(replica_kind(setup.model, setup.cluster, pool, details), role=role))
    return made


def _autoscaled(options: ServeOptions, kinds: list[ReplicaKind]) -> tuple[list[ReplicaKind], Autoscaling]:
    """(the most replicas of each model, when they are started and stopped)."""
    numbers = _numbers(options.autoscale, "autoscale", "1:4:32", 3)
    least, most = (numbers[0], numbers[1]) if len(numbers) > 1 else (1, numbers[0])
    count = min(kind.replicas for kind in kinds)
    if not least <= most <= count:
        raise PodsimError(
            f"autoscale={options.autoscale[:40]}: 1 to {count} replicas, as many as the GPUs hold, such as 1:{count}:32"
        )
    target = float(numbers[2]) if len(numbers) > 2 else Autoscaling.target
    return [replace(kind, replicas=most) for kind in kinds], Autoscaling(least=least, target=target)


def _adapters(options: ServeOptions) -> tuple[int, int, int]:
    """(adapters that requests ask for, slots of a replica, rank)."""
    if not options.adapters:
        return 0, 0, 16
    numbers = [*_numbers(options.adapters, "adapters", "100:8:16", 3), 0, 0][:3]
    return numbers[0], numbers[1] or min(numbers[0], 8), numbers[2] or 16


def _numbers(text: str, name: str, example: str, most: int) -> list[int]:
    """Whole numbers from 1 with colons between them."""
    parts = [part.strip() for part in str(text).split(":")]
    if len(parts) > most or not all(
        part.isdecimal() and int(part[:9]) >= 1 and len(part) < 9 for part in parts
    ):
        raise PodsimError(f"{name}={str(text)[:40]!r}: expected whole numbers from 1, such as {example}")
    return [int(part) for part in parts]


def _seconds(text: str, name: str) -> float:
    if not text:
        return 0.0
    seconds = parse_quantity(text, "s", what=name)
    if not 0 < seconds <= 1e7:
        raise UnitError(f"{name}={text[:40]}: expected a time above 0, such as 500ms or 30s")
    return seconds


def _clients(options: ServeOptions) -> int:
    if options.clients is None:
        if options.think:
            raise PodsimError("think is of --clients, who wait for their answers; --rate does not wait")
        return 0
    if not 1 <= options.clients <= MOST:
        raise PodsimError(f"clients={options.clients}: 1 or more ask at once")
    return options.clients


def _load_share(text: str) -> float:
    if not text:
        return 0.0
    words = str(text).strip()
    share = parse_quantity(words.removesuffix("%"), what="load") / (100 if words.endswith("%") else 1)
    if not 0.001 <= share <= 10:
        raise UnitError(
            f"load={words[:40]!r}: a share of the rate at which the server saturates, such as 90%"
        )
    return share


def _seed(seed: int) -> int:
    if not 0 <= seed < 2**62:
        raise PodsimError(f"seed={seed}; it must be 0 or more")
    return seed


def _other(text: str) -> tuple[str, float]:
    """(another model, its share of the requests)."""
    name, equals, value = (part.strip() for part in text.rpartition("="))
    share = (
        parse_quantity(value.removesuffix("%"), what="also") / (100 if value.endswith("%") else 1)
        if equals
        else 0.0
    )
    if not name or not 0 < share < 1:
        raise PodsimError(
            f"also {text[:60]!r}: expected a model and its share of the requests, as llama-3-8b=0.3"
        )
    return name, share


def _shares(others: list[tuple[str, float]]) -> tuple[float, ...]:
    rest = 1.0 - sum(share for _, share in others)
    if rest <= 0:
        raise PodsimError(
            "also: the shares of other models leave nothing to the first; they must be below 1 in all"
        )
    return (rest, *(share for _, share in others))


def requests_of(inputs: LoadInputs, rate: float, count: int | None = None) -> RequestTable:
    """The requests at a rate: of a stream drawn, of a trace its own with their times stretched; infinity: all at once."""
    if inputs.trace is None:
        return draw_requests(replace(inputs.stream, rate=rate, requests=count or inputs.stream.requests))
    table = inputs.trace if count is None else inputs.trace.first(count)
    if rate == inf:
        return replace(table, arrival=np.zeros(len(table)), patience=np.zeros(0))
    span = float(table.arrival[-1] - table.arrival[0])
    return replace(
        table, arrival=(table.arrival - table.arrival[0]) * (len(table) / rate / span if span else 1.0)
    )


def fitted_pool(inputs: LoadInputs, table: RequestTable) -> ReplicaPool:
    """The pool with steps that hold every prompt."""
    return replace(inputs.pool, kinds=tuple(for_requests(kind, table) for kind in inputs.pool.kinds))
