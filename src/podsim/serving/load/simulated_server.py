"""A language model under load: requests arrive, wait and are answered; times, rates, and what holds the server back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from math import inf

import numpy as np

from podsim.answers.best_serving import MeasuredPoint
from podsim.answers.served_load import LoadPoint, ServedLoad
from podsim.fleet.price_offers import price_offer
from podsim.options.serving_options import ServeOptions
from podsim.serving.language_notes import plan_words
from podsim.serving.load.load_answer import (
    bottleneck,
    cached_share,
    expenses,
    good_share,
    latency_rows,
    load_point,
    measure_use,
)
from podsim.serving.load.load_inputs import LoadInputs, fitted_pool, read_load, requests_of
from podsim.serving.load.load_run import ClosedLoop, LoadRun, run_load
from podsim.serving.load.load_statistics import (
    Measures,
    measure_run,
    overloaded_rate,
    saturated_rate,
)
from podsim.serving.load.replica_pool import SCHEDULERS
from podsim.serving.load.request_table import RequestTable
from podsim.serving.measured_points import PredictedServer, bands_of, measured_points

_POINTS = (0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
"""shares of the saturated rate at which the curve is drawn"""
_POINT_REQUESTS = 3000
_KEEPS_UP = 0.98
"""share of the rate that a server which keeps up answers"""
_OVERLOAD = 1.25
"""share of the saturated rate at which it is looked at again"""
_MANY = 1000
"""requests from which a run says enough"""
_SATURATING = (2000, 30_000)
"""the least and most requests that come at once to see at which rate a server saturates"""

Progress = Callable[[int, int], None]


def serve_load(options: ServeOptions, *, progress: Progress | None = None) -> ServedLoad:
    """The answer of `podsim serve` with --rate, --load, --trace or --clients.

    Ctrl-C ends it. Raises PodsimError for anything unusable, NoFitError where a model does not fit.
    """
    inputs = read_load(options, progress)
    saturation = _saturation(inputs)
    table, loop, rate = _requests(inputs, saturation)
    run = run_load(table, fitted_pool(inputs, table), loop=loop, seed=inputs.stream.seed, progress=progress)
    measures = measure_run(run)
    if rate == 0.0:
        rate = measures.answered_rate
    if measures.answered_rate >= _KEEPS_UP * rate and len(measures.first_token) >= _MANY:
        saturation = max(saturation, rate)  # prefixes hit more often where requests come bit by bit
    curve = () if loop else _curve(inputs, saturation)
    return _answer(inputs, run, measures, (rate, saturation), curve)


def _saturation(inputs: LoadInputs) -> float:
    """1/s. The most answers: if all requests are there from the start, or if more arrive than that, on all replicas.

    Equal requests that are all there at first stay in step with each other, which may cost some of the rate.
    """
    sequences = sum(kind.sequences * kind.replicas for kind in inputs.pool.kinds)
    count = int(np.clip(8 * sequences, *_SATURATING))
    open_ended = replace(
        inputs, stream=replace(inputs.stream, patience=inf), pool=replace(inputs.pool, autoscaling=None)
    )
    rate = 0.0
    for arriving in (inf, _OVERLOAD):
        table = requests_of(open_ended, arriving * rate if rate else inf, count)
        run = run_load(table, fitted_pool(open_ended, table), seed=inputs.stream.seed)
        rate = max(rate, saturated_rate(run) if arriving == inf else overloaded_rate(run))
    return rate


def _requests(inputs: LoadInputs, saturation: float) -> tuple[RequestTable, ClosedLoop | None, float]:
    """(the requests, the closed loop, 1/s of arrivals; 0 where it comes about)."""
    if inputs.clients:
        table = requests_of(inputs, inf)
        rng = np.random.default_rng([inputs.stream.seed, 1])
        think = rng.exponential(inputs.think, len(table)) if inputs.think else np.zeros(len(table))
        return table, ClosedLoop(clients=inputs.clients, think=think), 0.0
    if inputs.trace is not None:
        span = float(inputs.trace.arrival[-1] - inputs.trace.arrival[0])
        return inputs.trace, None, len(inputs.trace) / span if span else saturation
    rate = inputs.share * saturation if inputs.share else inputs.stream.rate
    return requests_of(inputs, rate), None, rate


def _curve(inputs: LoadInputs, saturation: float) -> tuple[LoadPoint, ...]:
    """Latency against rate, of a few thousand requests each."""
    points = []
    for share in _POINTS:
        table = requests_of(inputs, share * saturation, min(_POINT_REQUESTS, inputs.stream.requests))
        run = run_load(table, fitted_pool(inputs, table), seed=inputs.stream.seed)
        if run.answered.any():
            points.append(load_point(run, share * saturation))
    return tuple(points)


def _answer(
    inputs: LoadInputs,
    run: LoadRun,
    measures: Measures,
    rates: tuple[float, float],
    curve: tuple[LoadPoint, ...],
) -> ServedLoad:
    """All figures of a run."""
    rate, saturation = rates
    use, rows = measure_use(run), latency_rows(measures, is_streamed=inputs.is_streamed)
    money, good = (
        expenses(inputs.cluster, use, measures.output_rate, inputs.price),
        good_share(run, measures, inputs.slo, is_streamed=inputs.is_streamed),
    )
    each = next(row for row in rows if row.name == "each token").p50
    kept = measures.kept.stop - measures.kept.start
    return ServedLoad(
        model=" and ".join(setup.model.name for setup in inputs.setups), on=inputs.cluster.name, gpus=inputs.pool.gpus,
        layout=_layout_words(inputs), scheduler=_scheduler_words(inputs), workload=_workload_words(inputs, run),
        requests=len(run.table), kept=kept, answered=int(run.answered.sum()), given_up=int(run.given_up.sum()),
        refused=int(run.refused.sum()), rate=rate, saturation=saturation, answered_rate=measures.answered_rate,
        output_rate=measures.output_rate, gpu_output_rate=measures.output_rate / max(use.gpus_on, 1e-9),
        user_rate=1 / each if each else 0.0, rows=rows, slo=dict(inputs.slo), good_share=good,
        goodput=None if good is None else good * min(rate, measures.answered_rate), busy=use.busy, batch=use.batch,
        blocks=use.blocks, most_blocks=use.most_blocks, preempted=int(run.preempted.sum()), cached=cached_share(run),
        parts=use.parts, held_back=use.held_back, bottleneck=bottleneck(run, use, rate, saturation),
        replicas_on=use.on, seconds=use.seconds, steps=run.steps, watts=money.watts, token_energy=money.token_energy,
        price=money.price, price_low=money.low, price_high=money.high, curve=curve,
        measured=_measured(inputs, run, 1 / each if each else 0.0),
        bands=bands_of(asdict(inputs.setup.plan), is_split=any(kind.role == "prefill" for kind in inputs.pool.kinds)),
        assumptions=_assumptions(inputs),
        warnings=_warnings(inputs, run, kept, rates),
    )  # fmt: skip


def _measured(inputs: LoadInputs, run: LoadRun, user: float) -> tuple[MeasuredPoint, ...]:
    """The measured servers that are like this one, of one model."""
    setup, table = inputs.setup, run.table
    if len(inputs.setups) > 1 or not user:
        return ()
    server = PredictedServer(
        setup.model.name, setup.cluster.gpu.name, asdict(setup.plan), float(table.input_tokens.mean()),
        float(table.output_tokens.mean()), user,
    )  # fmt: skip
    return measured_points(server)


def _layout_words(inputs: LoadInputs) -> str:
    """The engine, the division and the replicas in words."""
    texts = []
    for kind in inputs.pool.kinds:
        setup = inputs.setups[kind.model]
        role = {"both": "", "prefill": "prefill ", "decode": "decode "}[kind.role]
        name = f"{setup.model.name}: " if len(inputs.setups) > 1 else ""
        count = f"{kind.replicas} {role}replica{'s' if kind.replicas > 1 else ''}"
        size = f"{kind.gpus} GPUs ({plan_words(setup.plan)})" if kind.gpus > 1 else "one GPU"
        texts.append(f"{name}{count} of {size}")
    plan = inputs.setup.plan
    return f"{plan.engine}, {plan.precision}, caches {plan.cache}; {', '.join(texts)}"


def _scheduler_words(inputs: LoadInputs) -> str:
    kind = inputs.pool.kinds[0]
    name = next(name for name, each in SCHEDULERS.items() if each == kind.scheduler)
    routing = f", {inputs.pool.routing}" if sum(each.replicas for each in inputs.pool.kinds) > 1 else ""
    return f"{name}, at most {kind.sequences:,} sequences and {kind.batch_tokens:,} tokens a step{routing}"


def _workload_words(inputs: LoadInputs, run: LoadRun) -> str:
    if inputs.trace is not None:
        table = run.table
        means = (
            f"{table.input_tokens.mean():,.0f} tokens in, {table.output_tokens.mean():,.0f} out on average"
        )
        return f"{table.source or 'a trace'}: {means}"
    stream = inputs.stream
    if inputs.clients:
        think = f" that think for {inputs.think:g} s" if inputs.think else ""
        return (
            f"{inputs.clients:,} clients{think}, {stream.input_tokens} tokens in, {stream.output_tokens} out"
        )
    return f"{stream.arrivals} arrivals, {stream.input_tokens} tokens in, {stream.output_tokens} out"


def _assumptions(inputs: LoadInputs) -> tuple[str, ...]:
    kind = inputs.pool.kinds[0]
    notes = [
        f"scheduler: {kind.scheduler.source}",
        "no network, tokenizer or HTTP stands between client and server",
    ]
    if offer := price_offer(inputs.price, inputs.cluster):
        notes.append(offer.origin)
    if inputs.pool.autoscaling:
        scaling = inputs.pool.autoscaling
        notes.append(
            f"a replica starts in {kind.load_seconds:.0f} s; looked at every {scaling.interval:g} s, stopped after"
            f" {scaling.cooldown:g} s, {scaling.target:g} open requests each"
        )
    if any(each.role == "decode" for each in inputs.pool.kinds):
        notes.append(
            f"caches move at {kind.link_rate / 1e9:.4g} GB/s, one from and to a replica at a time; the first token"
            " comes from the replica that prefills"
        )
    if kind.adapters:
        notes.append(f"an adapter loads in {kind.adapter_seconds * 1e3:.3g} ms; its products cost nothing")
    return tuple(notes)


def _warnings(inputs: LoadInputs, run: LoadRun, kept: int, rates: tuple[float, float]) -> tuple[str, ...]:
    rate, saturation = rates
    notes = list(inputs.notes)
    if not inputs.clients and rate > saturation:
        notes.append(
            f"{rate:.4g}/s arrive and at most {saturation:.4g}/s are answered: the queue grows, and with it all times"
        )
    if refused := int(run.refused.sum()):
        notes.append(f"{refused:,} requests are longer than the cache of any replica, and were refused")
    span, typical = float(run.arrival[-1] - run.arrival[0]), float(np.median(run.done - run.arrival))
    if span < 5 * typical and not inputs.clients:
        notes.append(
            f"requests arrive for {span:.3g} s and take {typical:.3g} s: no steady state; give more --requests"
        )
    elif kept < _MANY:
        notes.append(f"{kept:,} requests after the warm-up are few; give more --requests")
    if autoscaling := inputs.pool.autoscaling:
        span = float(run.arrival[-1] - run.arrival[0])
        if span < 4 * autoscaling.cooldown:
            notes.append(
                f"{span:.0f} s are short for autoscaling, which stops replicas after {autoscaling.cooldown:g} s"
            )
    return tuple(notes)
