"""What a job asks of storage: of a workload that reads samples, of a language model, and the systems that would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from podsim.answers.storage import Need
from podsim.errors import CatalogError, PodsimError, StorageError
from podsim.hardware.cluster import Cluster
from podsim.storage.cache import cache_of
from podsim.storage.catalog import load_storage, storage_names
from podsim.storage.long_runs import read_tokens
from podsim.storage.sizing import CHECKPOINT, MOST, TOKEN, checkpoint_write, read_needed, servers_needed
from podsim.storage.speed import step_of
from podsim.storage.storage_parts import StorageSystem
from podsim.storage.stripe import net_capacity
from podsim.storage.workloads import Workload, workload_names
from podsim.units import format_quantity
from podsim.workload.catalog import load_model


def workload_needs(
    work: Workload,
    cluster: Cluster,
    batch: int | None,
    accelerator: str,
    software: str,
    slower: float,
    shuffle: str,
) -> tuple[str, tuple[Need, ...], tuple[str, ...]]:
    """(name, needs, remarks) of a workload that reads samples; under `shuffle` it may be a share `slower`."""
    step = step_of(work, cluster, batch=batch, accelerator=accelerator, software=software)
    rate = cluster.gpus / step.each
    data = work.samples * work.record
    kept = cache_of(cluster.system, "page" if data else "none", None)
    epochs = step.target.epochs if step.target else 1.0
    full = rate * work.record
    because = f"{rate:,.0f} samples/s of {work.record:,.0f} B: {step.origin}"
    needs = [Need(what="at full speed, read", value=full, unit="B/s", why=because)]
    reads = {
        how: read_needed(
            full, data=data, cache=kept, nodes=cluster.nodes, epochs=epochs, slower=slower, shuffle=how
        )
        for how in ("shard", "global")
    }
    why = f"a run of {epochs:.3g} epochs {slower:.0%} longer" if step.target else f"a run {slower:.0%} longer"
    needs.append(Need(what="read", value=reads[shuffle], unit="B/s", why=why))
    if work.parameters:
        needs.append(Need(what="write, checkpoints", value=checkpoint_write(work.parameters), unit="B/s",
                          why="13.1 B a parameter in 5 % of an hour"))  # fmt: skip
    if data:
        needs.append(Need(what="room for data", value=work.samples * (work.raw + work.record), unit="B",
                          why="raw and as records"))  # fmt: skip
    fits = 0.0 < data <= kept.size * (cluster.nodes if shuffle == "shard" else 1)
    return work.name, tuple(needs), _kept(fits, shuffle, reads)


def _kept(fits: bool, shuffle: str, reads: Mapping[str, float]) -> tuple[str, ...]:
    """The effect of the nodes' memory on later epochs, and the need under the other way to shuffle."""
    other = "global" if shuffle == "shard" else "shard"
    alike = abs(reads[other] / reads[shuffle] - 1.0) < 1e-6
    if not fits:
        said = "The data do not fit the nodes' memory: every epoch reads the store"
    elif shuffle == "shard" or alike:
        said = "Half the nodes' memory holds what each node reads: a slower store costs the first epoch only"
    else:
        said = "Half a node's memory holds the data, of which it has read all only after many epochs"
    if alike:
        return (said,)
    how = "every node draws from all the data" if other == "global" else "each node keeps to its own part"
    return said, f"Where {how} (--shuffle {other}), {reads[other] / 1e9:.4g} GB/s must be read"


def model_needs(
    name: str, cluster: Cluster, tokens: str | float | None, unused: tuple[int | None, str, str]
) -> tuple[str, tuple[Need, ...], tuple[str, ...]]:
    """(name, needs, remarks) of a language model that trains some tokens; `unused` are options of workloads.

    Raises StorageError where one of these is given, CatalogError for an unknown model.
    """
    if any(unused):
        raise StorageError(
            f"--batch, --accelerator and --era are of workloads ({', '.join(workload_names())}), not of models"
        )
    try:
        model = load_model(name)
    except PodsimError as error:
        raise CatalogError(f"{error}; workloads: {', '.join(workload_names())}") from None
    many = 20.0 * model.parameters if tokens is None else read_tokens(tokens)
    peak = max(cluster.gpu.peaks.get(kind, 0.0) for kind in ("bf16", "fp16", "fp8")) * cluster.gpus
    rate = peak / (6.0 * model.active_parameters)
    needs = (
        Need(what="read, tokens", value=rate * TOKEN, unit="B/s", why=f"at most {rate:,.0f} tokens/s of 4 B, at peak"),
        Need(what="read, a checkpoint", value=checkpoint_write(model.parameters), unit="B/s",
             why="to start again as fast as it is written"),
        Need(what="write, checkpoints", value=checkpoint_write(model.parameters), unit="B/s",
             why="13.1 B a parameter in 5 % of an hour"),
        Need(what="room for data", value=many * TOKEN, unit="B", why=f"{many:.3g} tokens of 4 B"),
        Need(what="room for checkpoints", value=10 * CHECKPOINT * model.parameters, unit="B", why="ten of them"),
    )  # fmt: skip
    return model.name, needs, ("Tokens ask for next to nothing; checkpoints decide",)


def systems_needed(
    cluster: Cluster, read: float, write: float, capacity: float
) -> tuple[dict[str, int], tuple[str, ...]]:
    """Servers of each shared storage system that would do, and those that cannot, with the reason."""
    servers, unable = {}, []
    for name in storage_names():
        system, _ = load_storage(name)
        if system.local or system.kind == "object":
            continue
        try:
            here, _ = load_storage(name, client=cluster.system.name)
        except PodsimError as error:
            unable.append(f"Not {name}: {error}")
            continue
        least = here.stripe.width + here.stripe.spares if here.stripe else 1
        needed = servers_needed(
            partial(_resized, here), cluster.nodes, read=read, write=write, capacity=capacity, least=least
        )
        if needed:
            servers[name] = needed
        elif 0.0 < net_capacity(_resized(here, MOST)) < capacity:
            unable.append(f"Not {name}: {MOST:,} servers of it do not hold {format_quantity(capacity, 'B')}")
        else:
            unable.append(
                f"Not {name}: {here.client.ports} port(s) and the client software of each node are the limit"
            )
    return servers, tuple(unable)


def _resized(system: StorageSystem, servers: int) -> StorageSystem:
    """The system with another number of servers, its space in proportion."""
    return replace(system, servers=servers, capacity=system.capacity * servers / system.servers)
