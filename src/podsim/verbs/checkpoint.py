"""`podsim checkpoint`: size of a checkpoint, the stall it means, and the time to read it back."""

from __future__ import annotations

from collections.abc import Mapping

from podsim.results.runs import CheckpointTime
from podsim.storage.checkpoints_stores import load_store
from podsim.training.search_limits import Limit
from podsim.verbs.long_runs import Asked, best_job, checkpoint_time, read_with


def checkpoint(
    model: str,
    *,
    on: str,
    gpus: int | None = None,
    batch: int | None = None,
    sequence: int | None = None,
    precision: str | None = None,
    optimizer_precision: str = "fp32",
    software: str = "megatron-core",
    limit: Limit | None = None,
    to: str = "store",
    store: str = "superpod-better",
    mode: str = "sync",
    writers: str = "all",
    interval: str | float | None = None,
    failures: str = "",
    overrides: Mapping[str, str] | None = None,
) -> CheckpointTime:
    """Size and times of a checkpoint of the best plan of a model on a cluster.

    The plan is the fastest that fits; `limit` restricts it, as in `plan`: {"tp": 8, "pp": 64}. `to` is the shared store,
    a neighbour's memory, or the server's own drives (local); `store` a packaged one or a bandwidth ("273 GB/s").
    `mode` is sync, or async: copies to memory first, the rest beside training. `writers` says who writes what
    data-parallel ranks hold in common: all divide it, or one replica. `interval` (text with a unit, or s) is held
    against; default the best one for the failures of a study (`failures`, or "parts"). Raises NoFitError where a
    plan or a checkpoint does not fit, PodsimError for anything unusable.
    """
    from podsim.storage.checkpoints_time import Saving, checkpoint_times

    saving = Saving(to=to, store=store, mode=mode, writers=writers)
    load_store(store)
    asked = Asked(failures=failures, **read_with({"interval": interval}, "s"))  # type: ignore[arg-type]
    job = best_job(
        model, on=on, gpus=gpus, batch=batch, sequence=sequence, precision=precision,
        optimizer_precision=optimizer_precision, software=software, limit=limit, overrides=overrides,
    )  # fmt: skip
    return checkpoint_time(job, saving, checkpoint_times(job.model, job.cluster, job.plan, saving), asked)
