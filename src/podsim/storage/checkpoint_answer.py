"""What a checkpoint of a job costs, as `podsim checkpoint` answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from podsim.answers.runs import CheckpointTime
from podsim.units import format_quantity

if TYPE_CHECKING:
    from podsim.storage.checkpoints_time import Saving, Times
from podsim.storage.long_runs import Asked, Job, interval_of, mtbf_of


def checkpoint_time(job: Job, saving: Saving, times: Times, asked: Asked) -> CheckpointTime:
    """What `podsim checkpoint` says of a job, at the interval asked for or the best one."""
    step = job.prediction.step_time
    mtbf, _, source = mtbf_of(job.cluster, asked)
    interval = interval_of(asked, times, mtbf, step)
    state, store = times.state, times.store
    said = [
        f"{saving.to}: {store.title}; source: {store.source}"
        if store
        else f"{saving.to}: links of the server",
        "time is that of links and the store alone: making files and metadata is not counted",
        f"every rank reads back what it holds: {format_quantity(float(state.held.sum()), 'B')} in all",
        f"failures, {source}",
    ]
    if store and store.nodes:
        said.insert(1, f"sized for {store.nodes} nodes: {format_quantity(store.write, 'B/s')} of writes")
    if saving.to == "local":
        said.append(
            "a server's own drives do not outlive the server: a failed node takes its share of the checkpoint along"
        )
    if saving.to == "neighbour":
        said.append("two neighbours that fail together take a checkpoint along: not counted")
    if saving.to == "neighbour" or (saving.to == "store" and not job.cluster.system.storage_nics):
        said.append(
            "checkpoints and training share the compute adapters; what they cost each other is not counted"
        )
    return CheckpointTime(
        model=job.model.name, cluster=job.cluster.name, gpus=job.prediction.gpus, nodes=job.cluster.nodes,
        plan=job.prediction.plan, to=saving.to, store=store.name if store else "", mode=saving.mode,
        writers=saving.writers, size=state.size, per_parameter=state.size / job.model.parameters,
        files=int((state.written > 0).sum()), largest=float(state.written.max()), write=times.stall + times.persist,
        stall=times.stall, persist=times.persist, read=times.read.seconds, read_size=float(state.held.sum()),
        write_speed=times.write.size / times.write.seconds, bottleneck=times.write.link,
        bottleneck_bandwidth=times.write.capacity, read_bottleneck=times.read.link, interval=interval,
        interval_steps=round(interval / step), share=times.stall / (interval + times.stall), mtbf=mtbf,
        assumptions=(*said, *(store.notes if store else ())),
    )  # fmt: skip
