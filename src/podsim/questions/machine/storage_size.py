"""`podsim storage size`: how much storage a cluster needs for a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass

from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown
from podsim.answers.storage import Need
from podsim.errors import CatalogError, StorageError, check_name
from podsim.hardware.cluster import load_cluster
from podsim.options.question import like, option, overrides_option, question
from podsim.options.storage_options import StorageInputOptions
from podsim.storage.cache import SHUFFLES
from podsim.storage.job_needs import model_needs, systems_needed, workload_needs
from podsim.storage.sizing import guidance, tier_of
from podsim.storage.workloads import load_workload


@dataclass(frozen=True, kw_only=True)
class StorageSizeOptions:
    """A job that needs storage."""

    model: str = option(MISSING, "A workload, or a model as podsim predict takes it.", argument=True)
    on: str = option(MISSING, "Cluster: dgx-a100:32, superpod-a100:2su, selene.")
    batch: int | None = like(StorageInputOptions, "batch")
    accelerator: str = like(StorageInputOptions, "accelerator")
    era: str = like(StorageInputOptions, "era")
    tokens: str | float | None = option(None, "Tokens of a language model's data, e.g. 300G.")
    slower: float = option(0.05, "Share by which waiting for storage may make the run longer.")
    shuffle: str = option("shard", "shard: nodes keep to their part of the samples; or global.")
    overrides: Mapping[str, str] | None = overrides_option("gpus_per_node=4")


@dataclass(frozen=True, kw_only=True)
class Guidance:
    """A row of the guidance for storage."""

    row: str
    read: float
    """B/s. The bandwidth that it reads."""
    write: float
    """B/s. The bandwidth that it writes."""
    covers: bool = shown("covers the job")
    """Whether it covers the job."""


@dataclass(frozen=True, kw_only=True)
class SizeRun(Answer, view=View(rows="needs")):
    """How much storage a cluster needs for a job."""

    workload: str
    cluster: str
    nodes: int
    accelerators: int
    needs: tuple[Need, ...]
    read: float
    """B/s. The bandwidth that the job must be able to read."""
    write: float
    """B/s. The bandwidth that the job must be able to write."""
    capacity: float
    """B. The room for data and checkpoints."""
    tier: str = shown("row of the guidance that covers it")
    """The lowest row of the guidance that covers it: good, better or best; "beyond" above all."""
    guidance: Mapping[str, tuple[float, float]] = shown(
        title="Guidance for these nodes of a DGX SuperPOD", of_row=lambda run: run.guidance_rows
    )
    """B/s. The guidance for this many nodes, as (read, written) by good, better and best."""
    systems: Mapping[str, int] = shown(title="Servers that would do, by storage system")
    """The number of servers that would suffice, by storage system."""
    notes: tuple[str, ...]

    @property
    def guidance_rows(self) -> tuple[Guidance, ...]:
        """The rows of the guidance."""
        return tuple(
            Guidance(row=name, read=read, write=write, covers=read >= self.read and write >= self.write)
            for name, (read, write) in self.guidance.items()
        )


@question(StorageSizeOptions, status=lambda run: int(run.tier == "beyond"))
def storage_size(options: StorageSizeOptions) -> SizeRun:
    """Storage that a job needs on a cluster, and the systems that suffice.

    The default of `tokens` is twenty for each parameter. Under shard, each node keeps its samples in memory; under
    global, its cache fills over many epochs. Raises PodsimError with what is wrong.
    """
    if not 0.0 <= options.slower <= 10.0:
        raise StorageError(f"slower={options.slower:g}: a share of the run, 0 to 10")
    check_name("shuffle", options.shuffle, SHUFFLES, StorageError)
    cluster = load_cluster(options.on, options.overrides)
    try:
        work = load_workload(options.model)
    except CatalogError:
        name, needs, notes = model_needs(
            options.model, cluster, options.tokens, (options.batch, options.accelerator, options.era)
        )
    else:
        if options.tokens is not None:
            raise StorageError(f"--tokens: {work.name} reads samples; tokens are a language model's")
        name, needs, notes = workload_needs(
            work, cluster, options.batch, options.accelerator, options.era, options.slower, options.shuffle
        )
    read = max((need.value for need in needs if need.what.startswith("read")), default=0.0)
    write = sum(need.value for need in needs if need.what.startswith("write"))
    capacity = sum(need.value for need in needs if need.unit == "B" and need.what.startswith("room"))
    systems, unable = systems_needed(cluster, read, write, capacity)
    return SizeRun(
        workload=name, cluster=cluster.name, nodes=cluster.nodes, accelerators=cluster.gpus, needs=needs, read=read,
        write=write, capacity=capacity, tier=tier_of(read, write, cluster.nodes), guidance=guidance(cluster.nodes),
        systems=systems, notes=(*notes, *unable),
    )  # fmt: skip
