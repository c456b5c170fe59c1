"""An ensemble of models: `podsim serve ensemble.toml --on a100 --latency 100ms`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from podsim.answers.quantiles import quantile
from podsim.answers.scenario_run import EnsembleRun, EnsembleStep, LoadPoint
from podsim.answers.served import Served
from podsim.errors import NoFitError
from podsim.options.serving_options import ServeOptions
from podsim.serving.batch_queue import BatchServer, poisson_gaps
from podsim.serving.bisection import largest_value
from podsim.serving.ensemble_file import EnsembleSpec, StepSpec, read_ensemble
from podsim.serving.ensembles import EnsembleTimes, Step, run_ensemble
from podsim.serving.load.request_streams import read_rate
from podsim.serving.network_batches import read_limit
from podsim.serving.network_scenario import batches_of, read_percentile
from podsim.serving.scenarios import Ask, queue_server
from podsim.serving.serving_gpus import read_serving_gpu
from podsim.serving.triton_ensemble import write_ensemble
from podsim.units import format_quantity

_REQUESTS = 6000
_STEPS = 9
_LOADS = (0.25, 0.5, 0.75, 0.9, 1.0)
_BUSY = 0.9
"""share. The share of the capacity that is asked for where there is no limit and no rate."""


@dataclass(frozen=True, kw_only=True)
class _Ensemble:
    """An ensemble on its GPUs."""

    steps: tuple[Step, ...]
    gpus: int

    def run(self, rate: float) -> EnsembleTimes:
        """The run of Poisson arrivals."""
        return run_ensemble(self.steps, self.gpus, np.cumsum(poisson_gaps(_REQUESTS)) / rate)

    def work(self, step: Step) -> float:
        """s. The least time of a GPU or of a core that a request takes in a step."""
        server = step.server
        return float((server.seconds / server.batches).min()) * (step.samples if step.is_model else 1)

    @property
    def capacity(self) -> float:
        """1/s. The rate at which the GPUs or the cores of a step are full."""
        on_gpus = sum(self.work(step) for step in self.steps if step.is_model)
        cores = [step.server.servers / self.work(step) for step in self.steps if not step.is_model]
        return min([*cores, *([self.gpus / on_gpus] if on_gpus else [])])


def serve_ensemble(options: ServeOptions) -> EnsembleRun:
    """The answer of `podsim serve FILE.toml`. Raises PodsimError for a file that is no ensemble."""
    spec = read_ensemble(Path(options.model))
    chip, each, gpus = read_serving_gpu(options.on, options.overrides)
    served = {step.name: _served(options, step) for step in spec.steps if step.model}
    ensemble = _Ensemble(steps=tuple(_step(spec, step, served) for step in spec.steps), gpus=each * gpus)
    limit, percentile = read_limit(options.latency), read_percentile(options.percentile) or 0.99
    lone = _lone(ensemble)
    rate = read_rate(options.rate) if options.rate else _largest(ensemble, limit, percentile, lone)
    if rate > ensemble.capacity:
        raise NoFitError(
            [f"{spec.name}: {rate:,.4g} requests/s are more than its {ensemble.capacity:,.4g}/s"]
        )
    run = ensemble.run(rate)
    latency = quantile(run.latency, percentile)
    if options.triton is not None:
        write_ensemble(spec, served, options.triton)
    return EnsembleRun(
        model=spec.name, gpu=chip.name, instances=each * gpus, percentile=percentile, limit=limit, rate=rate,
        capacity=ensemble.capacity, bottleneck=_bottleneck(ensemble), lone=lone,
        p50=quantile(run.latency, 0.5), latency=latency, steps=_rows(ensemble, spec, run, rate),
        points=tuple(_point(ensemble.run(rate * share), rate, share) for share in _LOADS),
        is_in_time=limit is None or latency <= limit, assumptions=_assumptions(served),
        warnings=tuple(dict.fromkeys(text for answer in served.values() for text in answer.warnings)),
    )  # fmt: skip


def _served(options: ServeOptions, step: StepSpec) -> Served:
    """The batches of a step's model."""
    asked = replace(
        options, model=step.model, batch=str(step.batch or ""), precision=step.precision, engine=step.engine,
        tokens=step.tokens, rate="",
    )  # fmt: skip
    return batches_of(asked)


def _step(spec: EnsembleSpec, step: StepSpec, served: dict[str, Served]) -> Step:
    names = [each.name for each in spec.steps]
    after = tuple(names.index(name) for name in step.after)
    if step.model:
        server = queue_server(served[step.name], Ask(scenario="ensemble", delay=step.queue_delay))
    else:
        server = BatchServer(batches=np.ones(1), seconds=np.array([step.seconds]), servers=step.cores)
    return Step(name=step.name, after=after, server=server, is_model=bool(step.model), samples=step.samples)


def _lone(ensemble: _Ensemble) -> float:
    """s. The latency of a request that meets no other."""
    return float(run_ensemble(ensemble.steps, ensemble.gpus, np.zeros(1)).latency[0])


def _largest(ensemble: _Ensemble, limit: float | None, percentile: float, lone: float) -> float:
    """1/s. The largest rate whose latency is within the limit; without a limit a share of the capacity."""
    if limit is None:
        return _BUSY * ensemble.capacity
    if lone > limit:
        raise NoFitError([
            f"a lone request takes {format_quantity(lone, 's')} through all steps, and the limit is "
            f"{format_quantity(limit, 's')}; give a longer --latency or faster GPUs"
        ])  # fmt: skip
    return largest_value(
        lambda rate: quantile(ensemble.run(rate).latency, percentile) <= limit, ensemble.capacity, _STEPS
    )


def _bottleneck(ensemble: _Ensemble) -> str:
    """The step with the most work on the resource that is full first."""
    on_gpus = [step for step in ensemble.steps if step.is_model]
    work = sum(ensemble.work(step) for step in on_gpus) / ensemble.gpus
    cores = [step for step in ensemble.steps if not step.is_model]
    slowest = max(cores, key=lambda step: ensemble.work(step) / step.server.servers, default=None)
    if slowest is not None and ensemble.work(slowest) / slowest.server.servers > work:
        return slowest.name
    return max(on_gpus, key=ensemble.work).name


def _rows(
    ensemble: _Ensemble, spec: EnsembleSpec, run: EnsembleTimes, rate: float
) -> tuple[EnsembleStep, ...]:
    rows = []
    for position, (step, stated) in enumerate(zip(ensemble.steps, spec.steps, strict=True)):
        units = ensemble.gpus if step.is_model else step.server.servers
        batch = float(run.batches[position])
        seconds = float(step.server.batch_seconds(np.array(batch * step.samples))) / batch
        rows.append(
            EnsembleStep(
                name=step.name, runs=stated.model or f"{stated.cores} cores", capacity=units / ensemble.work(step),
                share=min(rate * seconds / units, 1.0), spent=float(run.spent[position]), batch=batch,
            )
        )  # fmt: skip
    return tuple(rows)


def _point(run: EnsembleTimes, rate: float, share: float) -> LoadPoint:
    p50, p90, p99 = (quantile(run.latency, each) for each in (0.5, 0.9, 0.99))
    batch = float(run.batches.max())
    return LoadPoint(rate=rate * share, share=share, p50=p50, p90=p90, p99=p99, batch=batch, busy=run.busy)


def _assumptions(served: dict[str, Served]) -> tuple[str, ...]:
    notes = [
        "Poisson arrivals; models share the GPUs, one batch at a time; tensors between steps cost nothing"
    ]
    notes += [f"{name}: {answer.precision}, {answer.engine}" for name, answer in served.items()]
    return tuple(notes)
