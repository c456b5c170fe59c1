"""Predicted rates of rows of inference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from podsim.accuracy.measured_runs import NotExpressible, described_runs, read_settings
from podsim.errors import PodsimError
from podsim.graphs.inference import (
    Engine,
    ServedWork,
    Serving,
    gpu_seconds,
    load_engine,
    load_serving,
    served_batch,
    served_work,
    served_works,
)
from podsim.hardware.catalog import load_gpu
from podsim.hardware.mig.split import slice_of
from podsim.hardware.parts import Gpu

NAME = "inference"
"""The name of a plan of inference, before its settings."""


@dataclass(frozen=True, kw_only=True)
class InferenceRun:
    """A network that an engine serves on each of some GPUs."""

    network: str
    gpu: Gpu
    gpus: int
    batch: int
    """The number of samples of a request."""
    concurrency: int
    """The number of requests under way at once."""
    precision: str
    engine: str


def is_inference(row: Mapping[str, str]) -> bool:
    """Whether a row is of inference, by its plan."""
    return row.get("plan", "").startswith(f"{NAME} ")


def price_inference(
    rows: Iterable[tuple[str, Mapping[str, str]]], what: str
) -> tuple[dict[str, float], dict[str, str]]:
    """(id -> samples/s or seconds of a request, id -> reason for none) of rows of inference."""
    costs, predictions = InferenceCosts(), {}
    runs, reasons = described_runs(rows, read_inference_run)
    costs.price(runs.values())
    for id, run in runs.items():
        try:
            rate = costs.rate(run)
        except PodsimError as problem:
            reasons[id] = str(problem)
            continue
        if what == "samples/s":
            predictions[id] = rate
        elif what == "seconds":
            predictions[id] = latency_seconds(run, rate)
        else:
            reasons[id] = f"a row of inference has no {what}"
    return predictions, reasons


def read_inference_run(row: Mapping[str, str]) -> InferenceRun:
    """The run of a row that states its network, GPU and plan; NotExpressible with the reason."""
    _, plan = read_settings(row["plan"])
    name, _, profile = row["cluster"].partition("/")
    gpu = load_gpu(name)
    try:
        run = InferenceRun(
            network=row["network"], gpu=slice_of(gpu, profile) if profile else gpu, gpus=int(plan["gpus"]),
            batch=int(plan["batch"]), concurrency=int(plan["concurrency"]), precision=plan["precision"],
            engine=plan["engine"],
        )  # fmt: skip
    except (KeyError, ValueError):
        raise NotExpressible(f"plan={row['plan'][:80]!r} does not describe a run of inference") from None
    if min(run.gpus, run.batch, run.concurrency) < 1:
        raise NotExpressible(f"plan={row['plan'][:80]!r}: a count is less than 1")
    return run


class InferenceCosts:
    """A cache of the kernel laws' costs; constants must not change while an object is in use."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._works: dict[tuple[object, ...], ServedWork] = {}
        self.serving = load_serving()

    def rate(self, run: InferenceRun, engine: Engine | None = None, serving: Serving | None = None) -> float:
        """Samples per second; `engine` and `serving` replace the packaged constants."""
        engine, serving = engine or load_engine(run.engine), serving or self.serving
        batch = served_batch(run.batch, run.concurrency, serving)
        seconds = gpu_seconds(
            self.work(run, batch, engine.fuse), engine, serving, run.gpu, concurrency=run.concurrency
        )
        return run.gpus * batch / seconds

    def price(self, runs: Iterable[InferenceRun]) -> None:
        """Price the batches of runs that differ in nothing else together, so that `rate` finds their costs."""
        alike: dict[tuple[str, Gpu, str, str], set[int]] = {}
        for run in runs:
            with suppress(PodsimError):  # which `rate` raises
                key = (run.network, run.gpu, run.precision, load_engine(run.engine).fuse)
                alike.setdefault(key, set()).add(served_batch(run.batch, run.concurrency, self.serving))
        for (network, gpu, precision, rule), batches in alike.items():
            with suppress(PodsimError):
                works = served_works(network, sorted(batches), gpu, precision, rule)
                keys = [(network, batch, gpu, precision, rule) for batch in sorted(batches)]
                self._works.update(zip(keys, works, strict=True))

    def work(self, run: InferenceRun, batch: int, rule: str) -> ServedWork:
        """The costs of a batch by the kernel laws."""
        key = (run.network, batch, run.gpu, run.precision, rule)
        if key not in self._works:
            self._works[key] = served_work(run.network, batch, run.gpu, run.precision, rule)
        return self._works[key]


def latency_seconds(run: InferenceRun, rate: float) -> float:
    """Seconds from a request to its answer, for requests that follow each other without pause."""
    return run.gpus * run.batch * run.concurrency / rate
