"""`podsim measure serving`: a small language model that is really served under load, or the server of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path

import numpy as np

from podsim.answers.saved_run import write_run
from podsim.answers.served_real import MeasuredServing
from podsim.errors import LabError, PodsimError, raise_all
from podsim.lab.options import no_folder, outside
from podsim.lab.serving.load_generator import read_url
from podsim.lab.serving.measured_serving import ServingMeasurement, measure_server, measure_url
from podsim.lab.serving.served_run import SentLoad, ServerJob
from podsim.options.measure_options import RanksOptions
from podsim.options.question import Progress, like, no_progress, option, question
from podsim.serving.load.request_streams import RequestStream, draw_requests, read_rate
from podsim.units import parse_quantity
from podsim.workload.specification import Transformer, resolve

_VOCAB = 512


@dataclass(frozen=True, kw_only=True)
class MeasureServingOptions:
    """A server, and the requests that it gets."""

    loads: str = option("30%,60%,80%", "Loads: shares of the rate that the server can answer.")
    requests: int = option(2000, "Requests of each load.")
    input_tokens: str = option(
        "uniform:16:128", "Tokens of a prompt: 64, uniform:LOW:HIGH, lognormal:MEAN:CV."
    )
    output_tokens: str = option("uniform:4:32", "Tokens of an answer, in the same forms.")
    arrivals: str = option("poisson", "poisson, even, gamma:CV, bursts:ON:OFF (e.g. bursts:10s:30s).")
    sequences: int = option(16, "Sequences at once.")
    budget: int = option(128, "Tokens of a step.")
    layers: int = option(4, "Layers of the network.")
    hidden: int = option(256, "Width of the network.")
    tries: int = option(2, "Runs at a load, until other programs take at most 5 % of the processors.")
    url: str = option("", "Instead: a server of others, http://HOST:PORT, with OpenAI's /v1/completions.")
    model: str = option("", "Model that requests to --url name.")
    rate: str = option("", "Requests to --url, e.g. 5/s.")
    clients: int = option(0, "Instead of --rate: clients that each wait for their answer.")
    seed: int = option(0, "Seed of lengths and arrivals.")
    save: Path | None = like(RanksOptions, "save")


@question(
    MeasureServingOptions,
    progress="answering requests",
    status=lambda run: 130 if run.stopped else 0,
)
def measure_serving(options: MeasureServingOptions, *, progress: Progress = no_progress) -> MeasuredServing:
    """Requests to a real server, timed by token: podsim's own on one core at shares of what it can answer, or `url`.

    The server of podsim is a small GPT with random weights, in continuous batches, on loopback. Clients in loops
    measure the time of its steps, before each load and after the last; requests arrive in between. `progress` is called
    with (requests that were answered, all). Ctrl-C, SIGTERM and SIGHUP keep what was answered until then, and `save` has
    each load as soon as it ends. Raises PodsimError for what makes no sense, LabError for a server that fails.
    """
    _check(options)

    def draw(rate: float, requests: int, seed: int) -> SentLoad:
        table = draw_requests(RequestStream(
            requests=requests, rate=rate, arrivals=options.arrivals, input_tokens=options.input_tokens,
            output_tokens=options.output_tokens, seed=seed,
        ))  # fmt: skip
        return SentLoad(
            prompts=table.input_tokens.tolist(), outputs=table.output_tokens.tolist(), seed=seed,
            times=table.arrival.tolist() if isfinite(rate) else None,
        )  # fmt: skip

    def keep(run: MeasuredServing) -> None:
        if options.save is not None:
            write_run(options.save, run)

    measured = _others(options, draw, progress) if options.url else _own(options, draw, progress, keep)
    keep(measured)
    return measured


def _check(options: MeasureServingOptions) -> None:
    """Raise PodsimError with all that makes no sense."""
    wrong = outside((
        ("requests", options.requests, 1, 1_000_000), ("sequences", options.sequences, 1, 256),
        ("budget", options.budget, 1, 65_536), ("layers", options.layers, 1, 64), ("hidden", options.hidden, 16, 4096),
        ("seed", options.seed, 0, 2**31), ("tries", options.tries, 1, 10),
    ))  # fmt: skip
    if options.hidden % 16:
        wrong.append(f"--hidden {options.hidden}; it must be a multiple of 16")
    raise_all(wrong)
    raise_all(no_folder(options.save), LabError)


def _own(
    options: MeasureServingOptions,
    draw: Callable[[float, int, int], SentLoad],
    progress: Progress,
    keep: Callable[[MeasuredServing], None],
) -> MeasuredServing:
    """The runs of podsim's own server."""
    if options.rate or options.clients or options.model:
        raise PodsimError("--rate, --clients and --model are for --url; podsim's own server runs at --loads")
    shares = _shares(options.loads)
    few = draw(inf, max(options.requests, 1000), options.seed)
    longest = max(int(np.max(np.add(few.prompts, few.outputs))) * 2, 64)
    heads = 4 if options.hidden >= 64 else options.hidden // 16
    spec = resolve(Transformer(
        name="served-gpt", layers=options.layers, hidden=options.hidden, heads=heads, vocab=_VOCAB, sequence=longest,
        ffn=4 * options.hidden, positions=longest, tied=False,
    ))  # fmt: skip
    job = ServerJob(spec=spec, sequences=options.sequences, budget=options.budget)
    asked = ServingMeasurement(
        job=job, shares=shares, requests=options.requests, draw=draw, seed=options.seed
    )
    return measure_server(asked, progress, keep)


def _shares(text: str) -> tuple[float, ...]:
    """Loads from 30%,60%,80%."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    shares = tuple(
        parse_quantity(part.removesuffix("%"), what="loads") / (100 if part.endswith("%") else 1)
        for part in parts
    )
    if not shares or not all(0.01 <= share <= 1.5 for share in shares):
        raise PodsimError(f"loads={text[:40]!r}: shares of what the server can answer, e.g. 30%,60%,80%")
    return shares


def _others(
    options: MeasureServingOptions,
    draw: Callable[[float, int, int], SentLoad],
    progress: Progress,
) -> MeasuredServing:
    """A run against a server of others."""
    if bool(options.rate) == bool(options.clients):
        names = ("--rate 5/s", "--clients 16")
        raise PodsimError(f"--url needs a load: {' or '.join(names)}, one of them")
    rate = read_rate(options.rate) if options.rate else inf
    server, load = read_url(options.url, options.model), draw(rate, options.requests, options.seed)
    rng = np.random.default_rng(options.seed)
    prompts = [rng.integers(100, 5000, count).tolist() for count in load.prompts]
    if options.clients:
        load = SentLoad(prompts=load.prompts, outputs=load.outputs, clients=options.clients)
    return measure_url(server, options.url, load, rate if isfinite(rate) else 0.0, prompts, progress)
