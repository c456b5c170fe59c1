"""`podsim storage input`: the input pipeline of a workload on nodes and their storage, and what limits it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown
from podsim.answers.storage import EpochRow, ShrinkRow, StageRow, TrainingTime
from podsim.options.question import options_of, question
from podsim.options.storage_options import StorageInputOptions
from podsim.storage.input_pipeline import epoch_rows
from podsim.storage.input_setting import input_notes, read_setting
from podsim.storage.stages import shrink_rows, stage_rows
from podsim.storage.training import training_time

_UNPUBLISHED = ("overrides", "lost", "samples", "cold", "cache", "cache_size", "readers")
"""options with which a run is not the published one"""


@dataclass(frozen=True, kw_only=True)
class InputRun(Answer, view=View(rows="stages")):
    """The input pipeline of a workload on nodes and a storage system."""

    workload: str
    title: str
    system: str
    clients: int = shown("nodes")
    """The number of nodes."""
    accelerators: int
    """The number of accelerators of all nodes."""
    accelerator: str
    batch: int
    """The number of samples of one accelerator's step."""
    utilisation: float = shown("accelerators busy")
    """share. The share of the time in which accelerators compute, in later epochs."""
    demand: float
    """B/s. The bandwidth that all accelerators need, without any other limit."""
    shuffle: str
    """The shuffle: global or shard."""
    stages: tuple[StageRow, ...]
    epochs: tuple[EpochRow, ...]
    shrink: tuple[ShrinkRow, ...] = shown(
        title="What the first epoch needs at the accelerators' full speed, each alone"
    )
    notes: tuple[str, ...]
    training: TrainingTime | None = shown(default=None, title="To the target")


@question(StorageInputOptions)
def storage_input(options: StorageInputOptions) -> InputRun:
    """Stages, epochs and time to target of a workload on the nodes that mount a storage system.

    The page cache is half of a node's memory, and nvme its data drives. Under a global shuffle each node draws from
    all the data. Cold data is on the object store only when training starts. Nothing of a lost server was rebuilt.

    A published time is shown for the storage, data and caches that it was published for only.
    Raises StorageError or CatalogError with what is wrong.
    """
    setting = read_setting(options)
    stages, epochs = stage_rows(setting), epoch_rows(setting)
    step, count = setting.step, setting.accelerators * setting.nodes
    later = epochs[-1]
    time = training_time(setting)
    known = options_of(StorageInputOptions)
    if any(getattr(options, name) not in (known[name].default, {}) for name in _UNPUBLISHED):
        time = replace(time, published=None, error=None, source="") if time else None
    return InputRun(
        workload=setting.workload.name, title=setting.workload.title, system=setting.system.name,
        clients=setting.nodes, accelerators=count, accelerator=step.accelerator, batch=step.batch,
        utilisation=later.rate / count * step.compute / step.batch,
        demand=count / (step.compute / step.batch) * setting.workload.record, shuffle=options.shuffle, stages=stages,
        epochs=epochs, shrink=shrink_rows(setting), training=time,
        notes=(*input_notes(setting, stages, epochs), f"step: {step.origin}"),
    )  # fmt: skip
