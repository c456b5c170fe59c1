"""The times of a checkpoint: the stop of training, the time until it is complete, and the time to read it back."""

from __future__ import annotations

import numpy as np

from podsim.errors import NoFitError, PodsimError, raise_all
from podsim.hardware.cluster import Cluster
from podsim.hardware.fabrics import host_cluster
from podsim.records import dataclass
from podsim.storage.checkpoints import WRITERS, State, state_of
from podsim.storage.checkpoints_links import Transfer, transfer, wires_of
from podsim.storage.checkpoints_stores import Store, load_store
from podsim.training.plan import Plan
from podsim.units import format_quantity
from podsim.workload.model import Model

PLACES = ("store", "neighbour", "local")
MODES = ("sync", "async")
STATE_FIELDS = (
    "tp", "pp", "dp", "cp", "ep", "expert_tp", "zero", "shard", "virtual_stages", "schedule", "precision",
    "optimizer_precision",
)  # fmt: skip
"""The plan fields that a checkpoint depends on."""


@dataclass(frozen=True, kw_only=True)
class Saving:
    """Where checkpoints go, and how."""

    to: str = "store"
    store: str = "superpod-better"
    mode: str = "sync"
    writers: str = "all"

    def __post_init__(self) -> None:
        """Raise PodsimError for words that are unknown, all of them."""
        words = {"to": (self.to, PLACES), "mode": (self.mode, MODES), "writers": (self.writers, WRITERS)}
        problems = [
            f"{name}={str(value)[:40]!r} may be {', '.join(known)}"
            for name, (value, known) in words.items()
            if value not in known
        ]
        raise_all(problems)


@dataclass(frozen=True, kw_only=True, eq=False)
class Times:
    """A checkpoint's state and its transfers."""

    state: State
    stall: float
    """s. The time that training stands still."""
    persist: float
    """s. The time after that until the checkpoint is complete."""
    write: Transfer
    """The transfer of the slower part: to the end for sync, from memory onwards for async."""
    read: Transfer
    store: Store | None


def checkpoint_times(model: Model, cluster: Cluster, plan: Plan, saving: Saving) -> Times:
    """Seconds of a checkpoint of a scalar plan; GPUs that it leaves idle have none of it.

    sync: training stops until the last byte is at its place. async: it stops while GPUs copy to the memory of their
    servers; the rest flows from there during training. Raises NoFitError where memory or drives are too small, and
    PodsimError where there is no way to the place.

    Links and the store are all that counts: making the files (serialisation, opening, metadata) is not, so a store's
    bandwidth should be one that checkpoints have reached. Known error: none is measured apart from such bandwidths.
    """
    cluster = host_cluster(cluster)
    store = load_store(saving.store).sized(cluster.nodes) if saving.to == "store" else None
    if saving.to == "neighbour" and cluster.nodes < 2:
        raise PodsimError(
            f"to=neighbour: {cluster.name} has one node; write to the store or to its drives (local)"
        )
    state = state_of(model, plan, writers=saving.writers)
    idle = (0, max(cluster.gpus - state.written.size, 0))
    state = State(written=np.pad(state.written, idle), held=np.pad(state.held, idle))
    _check_room(cluster, state, saving)
    wires = wires_of(cluster)
    late = saving.mode == "async"
    stall = transfer(wires, state.written, to="host") if late else None
    write = transfer(wires, state.written, to=saving.to, store=store, staged=late)
    read = transfer(wires, state.held, to=saving.to, store=store, back=True)
    return Times(
        state=state,
        stall=stall.seconds if stall else write.seconds,
        persist=write.seconds if stall else 0.0,
        write=write,
        read=read,
        store=store,
    )


def _check_room(cluster: Cluster, state: State, saving: Saving) -> None:
    """Raise NoFitError where a server's memory or drives cannot hold what they must."""
    system, gpus = cluster.system, cluster.gpus_per_node
    most = float(np.max(state.written.reshape(-1, gpus).sum(axis=1)))
    copies = (1 if saving.mode == "async" else 0) + (2 if saving.to == "neighbour" else 0)
    problems = []
    if copies * most > system.memory:
        problems.append(
            f"{copies} copies of {format_quantity(most, 'B')} do not fit the {format_quantity(system.memory, 'B')} of a "
            "server's memory (own snapshot 1, neighbour's checkpoint 2: a complete one and the next); "
            "write to the store, or synchronously"
        )
    room = system.ssds * system.ssd.capacity if system.ssd else 0.0
    if saving.to == "local" and room and 2 * most > room:
        problems.append(
            f"2 checkpoints of {format_quantity(most, 'B')} do not fit the {format_quantity(room, 'B')} "
            "of a server's drives"
        )
    raise_all(problems, NoFitError)
