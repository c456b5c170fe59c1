"""A real server next to its simulation: the recorded arrivals and lengths are replayed with the measured step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from podsim.acceptance.comparable import errors_of, verdict_of
from podsim.acceptance.measured_steps import measured_cost
from podsim.answers.quantiles import quantile
from podsim.answers.served_real import ComparedServing, ComparedServingRow, MeasuredRequest, MeasuredServing
from podsim.axes import Floats
from podsim.errors import LabError
from podsim.serving.load.load_run import run_load
from podsim.serving.load.replica_pool import SCHEDULERS, ReplicaKind, ReplicaPool
from podsim.serving.load.request_table import RequestTable
from podsim.serving.step_cost import CacheRoom

_FOREIGN = 0.05
"""share of the processors' time above which other programs make a run not comparable"""
_ENDLESS = CacheRoom(block_tokens=16, blocks=1 << 40, token_bytes=0.0)
_TIMES = {"first token": 0, "end to end": 1, "each token": 2}


def compare_serving(run: MeasuredServing, name: str) -> ComparedServing:
    """Throughput and percentiles of each run, measured and simulated.

    A request has a slot for its cache from its admission on, so memory never lacks. Raises LabError for a run without
    steps, as of a server of others.
    """
    if run.url or not run.step_seconds:
        raise LabError(
            f"{name}: the steps of the server at {run.url or 'the run'} are not known; simulate it by podsim serve load"
            " MODEL --on GPU --rate RATE"
        )
    rows = tuple(row for number in range(len(run.rates)) for row in _rows(run, number))
    mean, largest = errors_of(rows)
    cost, steps = measured_cost(run, 0), int(np.sum(np.array(run.step_run) == len(run.rates)))
    least, most = cost.step * 1e3, (cost.step + cost.decode_seconds[-1, 0]) * 1e3
    return ComparedServing(
        run=name, server=run.server, rows=rows, mean=mean, largest=largest,
        cost=f"{steps:,} steps of loops between the runs: {least:.3g} to {most:.3g} ms for 0 to "
        f"{cost.decode_requests[-1]:.0f} decoding sequences in the first run",
    )  # fmt: skip


def _rows(run: MeasuredServing, number: int) -> Iterator[ComparedServingRow]:
    """The rows of one run."""
    requests = sorted((row for row in run.rows if row.run == number), key=lambda row: row.sent)
    if not requests:
        raise LabError(f"run {number} has no requests")
    kind = ReplicaKind(
        cost=measured_cost(run, number), room=_ENDLESS, scheduler=SCHEDULERS["vllm"], sequences=run.sequences,
        batch_tokens=run.budget, prefix_cache=False,
    )  # fmt: skip
    measured, simulated = _measured(requests), _simulated(requests, kind)
    others = max(run.others[number], run.calibration_others)
    verdict = verdict_of({"other programs ran": others > _FOREIGN})
    for figure, unit, mine, other in zip(_figures(), _units(), measured, simulated, strict=True):
        yield ComparedServingRow(
            run=number, load=run.shares[number], rate=run.rates[number], requests=len(requests), figure=figure, unit=unit,
            measured=mine, simulated=other, difference=other / mine - 1 if mine else 0.0, others=others, verdict=verdict,
        )  # fmt: skip


def _figures() -> list[str]:
    return ["throughput", *(f"{name}, p{share}" for name in _TIMES for share in (50, 99))]


def _units() -> list[str]:
    return ["1/s", *(["s"] * 2 * len(_TIMES))]


def _values(sent: Floats, first: Floats, done: Floats, tokens: NDArray[np.int64]) -> list[float]:
    """The figures of a run, in the order of `_figures`; the throughput is that of tokens."""
    rate = float(tokens.sum()) / float(done.max() - sent.min())
    several = tokens > 1
    each = (done - first)[several] / (tokens[several] - 1)
    times = (first - sent, done - sent, each if len(each) else np.zeros(1))
    return [rate, *(quantile(values, percent / 100) for values in times for percent in (50, 99))]


def _measured(requests: list[MeasuredRequest]) -> list[float]:
    sent, first, done = (
        np.array([getattr(row, name) for row in requests]) for name in ("sent", "first", "done")
    )
    return _values(sent, first, done, np.array([row.tokens for row in requests]))


def _simulated(requests: list[MeasuredRequest], kind: ReplicaKind) -> list[float]:
    table = RequestTable(
        arrival=np.array([row.sent for row in requests]), input_tokens=np.array([row.prompt for row in requests]),
        output_tokens=np.array([row.tokens for row in requests]), source="the record",
    )  # fmt: skip
    run = run_load(table, ReplicaPool(kinds=(kind,)))
    return _values(run.arrival, run.first, run.done, run.made)
