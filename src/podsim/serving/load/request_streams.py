"""Requests drawn at random: arrivals, lengths, shared prefixes, adapters, impatient clients."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from podsim.axes import Floats, Ints
from podsim.errors import PodsimError, UnitError
from podsim.serving.load.request_table import LONGEST, MOST, RequestTable
from podsim.units import parse_quantity

ARRIVALS = "poisson, even, gamma:CV, bursts:ON:OFF (mean times, as bursts:10s:30s)"
LENGTHS = "512, uniform:LOW:HIGH, lognormal:MEAN:CV, exponential:MEAN"
_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}
_RATE = re.compile(
    r"\s*([^/]+?)\s*(?:req(?:uests)?|rps|qps)?\s*(?:/\s*(s|sec|second|min|h))?\s*", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True)
class RequestStream:
    """The distributions that requests are drawn from."""

    requests: int
    rate: float
    """1/s. The mean rate of arrivals; infinity: all come at once."""
    arrivals: str = "poisson"
    """The process of arrivals, one of ARRIVALS."""
    input_tokens: str = "512"
    """The lengths of prompts, one of LENGTHS."""
    output_tokens: str = "128"
    """The lengths of answers, one of LENGTHS."""
    shared_tokens: int = 0
    """The tokens at the beginning of each prompt that it shares with others."""
    shared_groups: int = 1
    """The number of such beginnings."""
    adapters: int = 0
    """The number of adapters (LoRA), asked for with equal probability; 0: none."""
    patience: float = float("inf")
    """s. The mean of the exponential time after which a client gives up."""
    shares: tuple[float, ...] = (1.0,)
    """share. The part of the requests that asks for each model."""
    seed: int = 0


def draw_requests(stream: RequestStream) -> RequestTable:
    """Random requests; the same seed gives the same lengths at every rate. Raises PodsimError for what makes no sense."""
    count = stream.requests
    if not 1 <= count <= MOST:
        raise PodsimError(f"requests={count}: 1 to {MOST:,} can be served")
    gaps, prompts, answers, rest = np.random.default_rng(stream.seed).spawn(4)
    lengths = draw_lengths(stream.input_tokens, count, prompts, "input tokens")
    shared, blocks = stream.shared_tokens, np.zeros(0, np.int64)
    if shared:
        lengths = np.maximum(lengths, shared + 1)
        blocks = rest.integers(0, max(stream.shared_groups, 1), count)
    return RequestTable(
        arrival=_arrival_times(stream, gaps), input_tokens=lengths,
        output_tokens=draw_lengths(stream.output_tokens, count, answers, "output tokens"), prefix_ids=blocks,
        prefix_first=np.arange(count + 1) if shared else np.zeros(0, np.int64), prefix_tokens=shared or 512,
        adapter=rest.integers(0, stream.adapters, count) if stream.adapters else np.zeros(0, np.int64),
        patience=rest.exponential(stream.patience, count) if np.isfinite(stream.patience) else np.zeros(0),
        model=rest.choice(len(stream.shares), count, p=np.divide(stream.shares, sum(stream.shares))),
        source=f"{stream.arrivals} arrivals, {stream.input_tokens} tokens in, {stream.output_tokens} out",
    )  # fmt: skip


def _arrival_times(stream: RequestStream, rng: np.random.Generator) -> Floats:
    """s. The arrivals of a process, ascending."""
    count, (kind, *parts) = stream.requests, stream.arrivals.lower().split(":")
    if not np.isfinite(stream.rate):
        return np.zeros(count)
    if kind == "poisson" and not parts:
        return np.cumsum(rng.exponential(1 / stream.rate, count))
    if kind == "even" and not parts:
        return np.arange(count) / stream.rate
    if kind == "gamma" and len(parts) == 1:
        cv = _number(parts[0], "", "arrivals", 1e-3, 1e3)
        return np.cumsum(rng.gamma(cv**-2, cv**2 / stream.rate, count))
    if kind == "bursts" and len(parts) == 2:
        on, off = (_number(part, "s", "arrivals", 1e-6, 1e7) for part in parts)
        return _burst_times(count, stream.rate, on, off, rng)
    raise PodsimError(f"arrivals={stream.arrivals[:60]!r}: expected {ARRIVALS}")


def _burst_times(count: int, rate: float, on: float, off: float, rng: np.random.Generator) -> Floats:
    """s. Poisson arrivals in bursts of exponential length, none between them; `rate` is the mean over both."""
    busy = np.cumsum(rng.exponential(on / (rate * (on + off)), count))  # s of bursts until each arrival
    bursts = int(busy[-1] / on * 1.2 + 10 * (1 + np.sqrt(busy[-1] / on)))
    ends = np.cumsum(rng.exponential(on, bursts))
    pauses = np.concatenate([[0.0], np.cumsum(rng.exponential(off, bursts))])
    return np.asarray(busy + pauses[np.searchsorted(ends, busy)])


def draw_lengths(text: str, count: int, rng: np.random.Generator, what: str) -> Ints:
    """Numbers of tokens from a distribution, at least 1. Raises PodsimError for one that makes no sense."""
    kind, *parts = str(text).strip().lower().split(":")
    if not parts:
        kind, parts = "fixed", [kind]
    wanted = {"fixed": 1, "uniform": 2, "lognormal": 2, "exponential": 1}
    if wanted.get(kind) != len(parts):
        raise PodsimError(f"{what} {str(text)[:60]!r}: expected {LENGTHS}")
    first = _number(parts[0], "", what, 1, LONGEST)
    if kind == "fixed":
        drawn = np.full(count, first)
    elif kind == "exponential":
        drawn = rng.exponential(first, count)
    elif kind == "uniform":
        drawn = rng.integers(int(first), int(_number(parts[1], "", what, first, LONGEST)) + 1, count).astype(
            float
        )
    else:
        variance = np.log1p(_number(parts[1], "", what, 0, 100) ** 2)
        drawn = first * np.exp(np.sqrt(variance) * rng.standard_normal(count) - variance / 2)
    tokens: Ints = np.clip(np.rint(drawn), 1, LONGEST).astype(np.int64)
    return tokens


def _number(text: str, unit: str, what: str, low: float, high: float) -> float:
    value = parse_quantity(text, unit, what=what)
    if not low <= value <= high:
        raise PodsimError(f"{what} {text[:40]!r}: {low:g} to {high:,.0f} makes sense here")
    return value


def read_rate(text: str) -> float:
    """1/s. A rate such as 20/s, 20, 1200/min. Raises UnitError for anything else."""
    match = _RATE.fullmatch(str(text))
    if match is None:
        raise UnitError(
            f"rate={str(text)[:40]!r}: expected requests a second or minute, such as 20/s or 300/min"
        )
    unit = (match[2] or "s").lower()
    rate = parse_quantity(match[1], what="rate") / _UNITS.get(unit, 1.0)
    if not 1e-6 <= rate <= 1e7:
        raise UnitError(f"rate={str(text)[:40]!r}: a server gets 0.000001/s to 10,000,000/s, such as 20/s")
    return rate
