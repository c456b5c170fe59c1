"""A server in the steady state, in closed form: how many sequences a rate of requests keeps decoding, and how fast.

With N sequences decoding, a step gives each its tokens, and N / output tokens of them end. As many prompts arrive, each
in chunks that share steps with decoding. So N decides the step, and with it the rate; the curve is read backwards. Waits
are those of a queue with general service (Pollaczek and Khinchine) with an exponential tail, and of the spread of N,
taken as Poisson's. Simulation decides between candidates: the estimate only has to rank them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from podsim.axes import Floats, Shaped
from podsim.serving.load.request_table import RequestTable
from podsim.serving.step_cost import CacheRoom, StepCost, chunk_seconds, decode_seconds, token_seconds

SEQUENCES = np.unique(np.round(np.geomspace(1, 4096, 40)))
"""count. The decoding sequences of a replica for which a curve has a point."""
BUDGETS = np.array([256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 16384], float)
"""count. The tokens of a step that are tried."""
_DEVIATE = {50: 0.0, 90: 1.2816, 95: 1.6449, 99: 2.3263}
"""percentile -> standard deviations of a normal distribution"""
_LEAST_CHUNK = 16.0


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The requests that a server answers, as means."""

    rate: float
    """1/s. The arrivals."""
    input_tokens: float
    """count. The mean tokens of a prompt."""
    output_tokens: float
    """count. The mean tokens of an answer."""
    input_spread: float = 0.0
    """share. The standard deviation of prompts' tokens over their mean."""
    prefix_share: float = 0.0
    """share. The tokens of prompts that a prefix cache holds."""

    @property
    def new_tokens(self) -> float:
        """count. The tokens of a prompt that are computed."""
        return max(self.input_tokens * (1 - self.prefix_share), 1.0)

    @property
    def context(self) -> float:
        """count. The mean tokens in the cache of a decoding sequence."""
        return self.input_tokens + self.output_tokens / 2


def workload_of(requests: RequestTable, rate: float = 0.0) -> Workload:
    """The means of a table of requests; their own rate where none is given."""
    span = float(requests.arrival[-1])
    mean = float(requests.input_tokens.mean())
    return Workload(
        rate=rate or (len(requests) - 1) / span if span > 0 else rate, input_tokens=mean,
        output_tokens=float(requests.output_tokens.mean()), input_spread=float(requests.input_tokens.std()) / mean,
    )  # fmt: skip


class Curves(NamedTuple):
    """A replica at each number of decoding sequences, for each budget of a step. Infinite where it cannot be."""

    rate: Shaped[Floats, "budget sequences"]
    """1/s. The requests that end."""
    step: Shaped[Floats, "budget sequences"]
    """s. The mean time between two tokens of a sequence."""
    prefill: Shaped[Floats, "budget sequences"]
    """s. The time of a prompt's own steps."""
    busy: Shaped[Floats, "budget sequences"]
    """share. The steps' room for prompts that prompts take."""


def mixed_curves(cost: StepCost, load: Workload, accepted: float = 1.0, *, mixed: bool = True) -> Curves:
    """A replica that reads prompts and decodes; `accepted` tokens a sequence and step.

    If not `mixed`, decoding sequences wait while steps of prompts run.
    """
    batch = np.maximum(SEQUENCES / cost.stages, 1.0)
    decoding = batch * cost.decode_tokens
    shared = float(mixed)
    room = BUDGETS[:, None] - shared * decoding
    chunks = np.ceil(load.new_tokens / np.maximum(room, _LEAST_CHUNK))
    chunk = load.new_tokens / chunks
    past = load.input_tokens - load.new_tokens + (load.new_tokens - chunk) / 2
    plain = cost.step + cost.request * batch + decode_seconds(cost, batch, load.context)
    alone = plain + token_seconds(cost, decoding)
    each_step = batch * accepted / load.output_tokens * chunks
    together = np.maximum(each_step, 1.0)
    chunk_time = cost.request + chunk_seconds(cost, chunk, past)
    tokens = token_seconds(cost, shared * decoding + together * chunk, is_prompted=True)
    longer = shared * plain + (1 - shared) * cost.step + tokens + together * chunk_time
    step = alone + each_step * (longer - shared * alone) / together
    most = np.maximum(np.floor(room / chunk), 1.0)
    is_possible = (room >= np.minimum(_LEAST_CHUNK, load.new_tokens)) & (each_step <= most)
    active = np.minimum(SEQUENCES, batch * cost.stages)
    rate = active * accepted / (load.output_tokens * step)
    return Curves(
        rate=np.where(is_possible, rate, 0.0), step=np.where(is_possible, step / accepted, np.inf),
        prefill=np.where(is_possible, chunks * longer, np.inf), busy=each_step / most,
    )  # fmt: skip


def decode_curves(cost: StepCost, load: Workload, accepted: float = 1.0) -> Curves:
    """A replica that only decodes, one budget."""
    batch = np.maximum(SEQUENCES / cost.stages, 1.0)
    step = cost.step + cost.request * batch + decode_seconds(cost, batch, load.context)
    step = (step + token_seconds(cost, batch * cost.decode_tokens))[None, :]
    rate = np.minimum(SEQUENCES, batch * cost.stages) * accepted / (load.output_tokens * step)
    return Curves(rate=rate, step=step / accepted, prefill=np.zeros_like(step), busy=np.zeros_like(step))


class Prefill(NamedTuple):
    """A replica that only reads prompts, for each budget of a step."""

    seconds: Shaped[Floats, "budget"]
    """s. The time of one prompt alone."""
    rate: Shaped[Floats, "budget"]
    """1/s. The most prompts."""


def prefill_figures(cost: StepCost, load: Workload) -> Prefill:
    """A replica that only reads prompts: several in a step, or one in several steps."""
    together = np.maximum(np.floor(BUDGETS / load.new_tokens), 1.0)
    chunks = np.ceil(load.new_tokens / BUDGETS)
    chunk = load.new_tokens / chunks
    past = load.input_tokens - load.new_tokens + (load.new_tokens - chunk) / 2
    attention = cost.request + chunk_seconds(cost, chunk, past)
    alone = chunks * (cost.step + token_seconds(cost, chunk, is_prompted=True) + attention)
    several = chunks * (
        cost.step + token_seconds(cost, together * chunk, is_prompted=True) + together * attention
    )
    return Prefill(seconds=alone, rate=cost.stages * together / several)


def most_sequences(room: CacheRoom, load: Workload) -> float:
    """count. The decoding sequences whose caches fit a replica, at their mean length."""
    each = np.ceil(load.context / room.block_tokens) + room.state_blocks
    return float(room.blocks // each)


def at_rate(
    curves: Curves,
    load: Workload,
    rates: Shaped[Floats, "rate"],
    limit: Shaped[Floats, "budget limit"],
    percentile: int,
) -> tuple[Floats, Floats, Floats]:
    """(first token s, time per token s, sequences), each by budget, rate and limit of sequences; infinite above capacity.

    First two at a percentile. `rates` are those of one replica, `limit` the most sequences that decode at once.
    """
    deviate = _DEVIATE[percentile]
    shape = (len(curves.rate), len(rates), limit.shape[1])
    first, each, active = (np.full(shape, np.inf) for _ in range(3))
    for budget, (rate, step, prefill, busy) in enumerate(zip(*curves, strict=True)):
        rising = np.maximum.accumulate(rate)
        count = int(np.argmax(rising)) + 1
        mean = np.interp(rates, rising[:count], SEQUENCES[:count], left=1.0, right=np.inf)
        reached = np.isfinite(mean)
        if not reached.any():
            continue
        level = np.where(reached, mean, 1.0)
        most = limit[budget]
        high = np.minimum((level + deviate * np.sqrt(level))[:, None], most)
        each[budget] = np.interp(high, SEQUENCES[:count], step[:count])
        service = np.interp(level, SEQUENCES[:count], prefill[:count])[:, None]
        load_share = np.minimum(np.interp(level, SEQUENCES[:count], busy[:count]), 0.999)[:, None]
        wait = wait_seconds(service, load_share, load.input_spread, percentile)
        short = np.maximum(level[:, None] + deviate * np.sqrt(level)[:, None] - most, 0.0)
        residual = np.interp(level, SEQUENCES[:count], step[:count])[:, None] / 2
        first[budget] = residual + wait + service + short / rates[:, None]
        is_over = ~reached[:, None] | (level[:, None] > most)
        first[budget][is_over] = each[budget][is_over] = np.inf
        active[budget] = np.where(is_over, np.inf, level[:, None])
    return first, each, active


def wait_seconds(service: Floats, busy: Floats, spread: float, percentile: int) -> Floats:
    """s. A percentile of the wait for a server that is busy a share of the time, by an exponential tail."""
    mean = service * (1 + spread**2) / (2 * (1 - busy))
    tail = 1 - percentile / 100
    return np.asarray(mean * np.maximum(np.log(np.maximum(busy, 1e-12) / tail), 0.0))
