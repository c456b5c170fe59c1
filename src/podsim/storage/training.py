"""The time from start to target: the epochs of the pipeline, evaluations and start-up of a workload with known runs."""

from __future__ import annotations

from functools import cache

from podsim.answers.storage import TrainingTime
from podsim.packaged import packaged_toml
from podsim.storage.input_pipeline import Setting, epoch_flow, samples_of
from podsim.storage.speed import epochs_to_target, evaluation_share, evaluations, start_epochs
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
    """Seconds from start to target. Laws: podsim.storage.speed.

    None for a workload without measured runs, and for a global batch larger than the data.
    """
    run, work, samples = setting.step.run, setting.workload, samples_of(setting)
    batch = setting.step.batch * setting.accelerators * setting.nodes
    if run is None or batch > samples:
        return None
    epochs = epochs_to_target(work, run, batch)
    full_epochs = int(epochs)
    seconds = [
        samples / (epoch_flow(setting, epoch)[0].rate * setting.nodes) for epoch in range(full_epochs + 1)
    ]
    later = seconds[-1]
    trained = sum(seconds[:full_epochs]) + (epochs - full_epochs) * later
    start = start_epochs(work) * later
    checks = evaluations(work, epochs) * work.validation * evaluation_share(work) / samples * later
    row = _published(setting)
    total = trained + start + checks
    measured = float(str(row["seconds"])) if row else None
    return TrainingTime(
        seconds=total, epochs=epochs, epoch_seconds=later, evaluation=checks, start=start, batch=batch,
        published=measured, error=total / measured - 1.0 if measured else None,
        source=str(row["source"]) if row else "",
    )  # fmt: skip


def _published(setting: Setting) -> dict[str, object] | None:
    """The published time of the same workload, storage, software, nodes and batch."""
    run = setting.step.run
    key = (
        setting.workload.name,
        setting.system.name,
        run.software if run else "",
        setting.nodes,
        setting.step.batch,
    )
    for row in published_times():
        if (row["workload"], row["system"], row["software"], row["nodes"], row["batch"]) == key:
            return row
    return None
