"""The measurement of a server: a run that measures the time of its steps, then runs at shares of what it can answer."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from podsim.answers.served_real import MeasuredRequest, MeasuredServing
from podsim.errors import LabError
from podsim.lab import usage
from podsim.lab.processes import stopped_by_signals
from podsim.lab.serving.load_generator import SentRequest, Server, send_requests
from podsim.lab.serving.served_run import SentLoad, ServerJob, ServerRun, run_server
from podsim.lab.wires import load_torch

Draw = Callable[[float, int, int], SentLoad]
"""gives requests at (1/s, number, seed); infinity: without times"""
Progress = Callable[[int, int], None]
"""is called with (requests that were answered, all)"""
QUIET = 0.05
"""share of the processors' time that other programs may take"""
_CLIENTS = (1, 2, 4, 8)
"""clients of the loops that measure steps, besides one that fills all sequences"""


@dataclass(frozen=True, kw_only=True)
class ServingMeasurement:
    """What is measured."""

    job: ServerJob
    shares: tuple[float, ...]
    """share. The loads."""
    requests: int
    """The requests of each load."""
    draw: Draw
    seed: int
    tries: int = 1
    """The runs at a load, until other programs take little enough."""


def measure_server(
    asked: ServingMeasurement,
    progress: Progress = lambda _done, _all: None,
    keep: Callable[[MeasuredServing], None] = lambda _: None,
) -> MeasuredServing:
    """The runs of podsim's own server, each between two that measure its steps, as the machine's speed drifts.

    A run in which other programs take over 5 % is repeated. Ctrl-C, SIGTERM and SIGHUP end it, and the answer has the
    runs until then. `keep` gets them after each load. Raises KeyboardInterrupt where no run was complete.
    """
    job, runs, started, count = asked.job, list[ServerRun](), usage.now_text(), _Counter(asked, progress)
    calibrations, rates = list[ServerRun](), list[float]()
    with stopped_by_signals():
        try:
            for number, share in enumerate(asked.shares):
                calibration, rate = _calibrated(asked, count)
                calibrations.append(calibration)
                rates.append(rate)
                load = asked.draw(share * rate, asked.requests, asked.seed + number)
                tried: list[ServerRun] = []
                while len(tried) < asked.tries and not any(
                    run.others <= QUIET or run.stopped for run in tried
                ):
                    tried.append(run_server(job, load, count.part(asked.requests, is_new=not tried)))
                runs.append(min(tried, key=lambda run: (run.stopped, run.others)))
                keep(_measured(asked, runs, calibrations, rates, started))
                if tried[-1].stopped:
                    raise KeyboardInterrupt
            calibrations.append(_calibrated(asked, count)[0])
        except KeyboardInterrupt:
            if not runs:
                raise
    return _measured(asked, runs, calibrations, rates, started)


class _Counter:
    """The requests that were answered, in runs and in loops between them."""

    def __init__(self, asked: ServingMeasurement, progress: Progress) -> None:
        """Begin at none."""
        self.before, self.progress = 0, progress
        measuring = sum(_loop_requests(clients) for clients in _loops(asked.job))
        self.total = asked.requests * len(asked.shares) + measuring * (len(asked.shares) + 1)
        progress(0, self.total)

    def part(self, requests: int, *, is_new: bool = True) -> Callable[[int], None]:
        """What counts the answers of the next requests; those of a run that is repeated count once."""
        if is_new:
            self.before += requests
        start = self.before - requests
        return lambda done: self.progress(start + done, self.total)


def _loops(job: ServerJob) -> tuple[int, ...]:
    """The clients of each loop that measures steps."""
    return (*(each for each in _CLIENTS if each < job.sequences), 2 * job.sequences)


def _loop_requests(clients: int) -> int:
    return max(40, 6 * clients)


def _measured(
    asked: ServingMeasurement,
    runs: Sequence[ServerRun],
    calibrations: Sequence[ServerRun],
    rates: Sequence[float],
    started: str,
) -> MeasuredServing:
    """The answer of some runs, and of the loops between them; a loop too few shows that a signal ended it."""
    job, shares = asked.job, asked.shares[: len(runs)]
    rows = np.array([row for run in (*runs, *calibrations) for row in run.steps], np.float64)
    columns = [tuple(column.tolist()) for column in rows.T]
    torch, spec = load_torch(), job.spec
    return MeasuredServing(
        server=f"podsim's own: {spec.layers} layers of width {spec.hidden}, random weights, one core", url="",
        sequences=job.sequences, budget=job.budget, shares=shares,
        saturation=float(np.mean(rates[: len(runs)])),
        rates=tuple(share * rate for share, rate in zip(shares, rates, strict=False)),
        others=tuple(run.others for run in runs),
        calibration_others=max(run.others for run in calibrations),
        stopped=len(calibrations) <= len(asked.shares),
        step_run=tuple(min(k, len(runs)) for k, run in enumerate((*runs, *calibrations)) for _ in run.steps),
        step_end=columns[0], step_seconds=columns[1], step_decoding=columns[2], step_context=columns[3],
        step_prompts=columns[4], step_new=columns[5], step_pairs=columns[6], host=platform.node(), cores=usage.cores(),
        software=f"PyTorch {torch.__version__}, Python {platform.python_version()}", started=started,
        rows=_rows([run.requests for run in runs]),
    )  # fmt: skip


def _calibrated(asked: ServingMeasurement, counter: _Counter) -> tuple[ServerRun, float]:
    """(the steps of loops of few to many clients, 1/s of answers to those that keep all sequences busy)."""
    job, steps, others, rate = asked.job, list[list[float]](), 0.0, 0.0
    for clients in _loops(job):
        count = _loop_requests(clients)
        load = asked.draw(float("inf"), count, asked.seed + 1000 + clients)
        run = run_server(
            job, SentLoad(prompts=load.prompts, outputs=load.outputs, clients=clients, seed=load.seed),
            counter.part(count),
        )  # fmt: skip
        if run.stopped:
            raise KeyboardInterrupt
        done = sorted(row.done for row in run.requests)
        first, last = count // 5, count - count // 5 - 1
        rate = (last - first) / (done[last] - done[first])
        steps += run.steps
        others = max(others, run.others)
    return ServerRun(requests=[], steps=steps, others=others), rate


def measure_url(
    server: Server,
    url: str,
    load: SentLoad,
    rate: float,
    prompts: Sequence[Sequence[int]],
    progress: Progress,
) -> MeasuredServing:
    """One run against a server of others, which streams completions as OpenAI's do."""
    before, started = usage.clocks(), usage.now_text()
    progress(0, len(prompts))
    with stopped_by_signals():
        rows, stopped = send_requests(
            server, prompts, load.outputs, times=load.times, clients=load.clients,
            progress=lambda done: progress(done, len(prompts)),
        )  # fmt: skip
    answered = [row for row in rows if not row.error]
    failed = next((row.error for row in rows if row.error), "")
    if stopped and not answered:
        raise KeyboardInterrupt
    if not answered:
        raise LabError(f"{url}: no request was answered: {failed}")
    note = f"; {len(rows) - len(answered)} requests failed: {failed}" if failed else ""
    return MeasuredServing(
        server=f"{server.model or 'a server'} at {server.host}:{server.port}{note}", url=url, sequences=0, budget=0,
        saturation=0.0, shares=(0.0,), rates=(rate,), others=(usage.others_since(before),), calibration_others=0.0,
        step_end=(), step_run=(), step_seconds=(), step_decoding=(), step_context=(), step_prompts=(), step_new=(),
        step_pairs=(), host=platform.node(), cores=usage.cores(), software=f"Python {platform.python_version()}",
        started=started, rows=_rows([answered]), stopped=stopped,
    )  # fmt: skip


def _rows(runs: Sequence[Sequence[SentRequest]]) -> tuple[MeasuredRequest, ...]:
    return tuple(
        MeasuredRequest(
            run=number, sent=row.sent, first=row.first, done=row.done, prompt=row.prompt, tokens=row.tokens
        )
        for number, rows in enumerate(runs)
        for row in rows
    )
