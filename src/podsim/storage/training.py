"""The time from start to target: the epochs of the pipeline, evaluations and start-up of a benchmark."""

from __future__ import annotations

from functools import cache

from podsim.answers.storage import TrainingTime
from podsim.packaged import packaged_toml
from podsim.storage.input_pipeline import Setting, epoch_flow, samples_of
from podsim.units import parse_quantity


@cache
def published_times() -> tuple[dict[str, object], ...]:
    """Rows of catalog/times.toml, seconds in SI and sources spelt out: times that others published."""
    tables = packaged_toml("storage/catalog/times.toml")
    return tuple(
        {**row, "seconds": parse_quantity(row["seconds"], "s"), "source": tables["sources"][row["source"]]}
        for row in tables["time"]
    )


def training_time(setting: Setting) -> TrainingTime | None:
    """Seconds from start to target: the run of the benchmark, with epochs and evaluations at the pipeline's rate.

    None for a workload without a target, and for a global batch larger than the data.
    """
    target, samples = setting.step.target, samples_of(setting)
    if target is None or target.batch > samples:
        return None
    full_epochs = int(target.epochs)
    seconds = [
        samples / (epoch_flow(setting, epoch)[0].rate * setting.nodes) for epoch in range(full_epochs + 1)
    ]
    later = seconds[-1]
    trained = sum(seconds[:full_epochs]) + (target.epochs - full_epochs) * later
    checks = target.evaluation * target.rate * later / samples
    row = _published(setting)
    total = target.startup + trained + checks
    measured = float(str(row["seconds"])) if row else None
    return TrainingTime(
        seconds=total, epochs=target.epochs, epoch_seconds=later, evaluation=checks, start=target.startup,
        batch=int(target.batch), published=measured, error=total / measured - 1.0 if measured else None,
        source=str(row["source"]) if row else "",
    )  # fmt: skip


def _published(setting: Setting) -> dict[str, object] | None:
    """The published time of the same workload, storage, software, client, nodes and batch."""
    key = (
        setting.workload.name,
        setting.system.name,
        setting.step.software,
        setting.cluster.system.name,
        setting.nodes,
        setting.step.batch,
    )
    for row in published_times():
        if (
            row["workload"],
            row["system"],
            row["software"],
            row["client"],
            row["nodes"],
            row["batch"],
        ) == key:
            return row
    return None
