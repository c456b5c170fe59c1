"""Options about whole machines over days: long runs, queues, power and money."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass

from podsim.options.plan_options import (
    FixedLayout,
    JobOptions,
    PredictOptions,
    TrainedFields,
    plan_file_option,
)
from podsim.options.question import like, option, overrides_option, pairs


@dataclass(frozen=True, kw_only=True)
class SavedJobOptions(TrainedFields, FixedLayout, JobOptions):
    """A job whose best plan is searched, or given by a file, and how its checkpoints are written."""

    model: str = like(JobOptions, "model", default="")
    on: str = like(JobOptions, "on", default="")
    plan: str = plan_file_option()
    limit: Mapping[str, str | Sequence[object]] | None = option(
        None, "Restrict the plan, e.g. tp=8 or zero=1. Repeatable; else the fastest.", read=pairs("tp=8")
    )
    to: str = option("store", "Where checkpoints go: store, neighbour (its memory), local (drives).")
    store: str = option("superpod-better", "superpod-good, -better, -best, selene, tectonic, or 273GB/s.")
    mode: str = option("sync", "sync, or async: to memory, then to the store while training goes on.")
    writers: str = option("all", "Who writes what data-parallel ranks have in common: all, replica.")
    interval: str | float | None = option(None, "Training between checkpoints, e.g. 30min; default the best.")
    failures: str = option("", "Failure rate: rsc-1, rsc-jobs, llama-3, bloom, opt-175b, rsc-2, or parts.")


@dataclass(frozen=True, kw_only=True)
class QueueOptions:
    """Jobs, the machine that they wait for, and its policy."""

    trace: str = option(
        "",
        "philly-1 to philly-4, kalos; a CSV, Philly's JSON or sacct -P; arrivals:10000 (jobs=10000,load=0.9).",
        argument=True,
    )
    on: str = option("", "GPUs (64), nodes (8x8), or a cluster: selene, a TOML file.")
    policy: Sequence[str] = option(
        (),
        "fifo, fifo-skip, easy (default), conservative, sjf, qssf, srtf, srsf, las, tiresias, themis,"
        " themis-known, slurm, elastic. Repeatable.",
    )
    compare: bool = option(False, "All policies side by side.", flag="--compare")
    where: Mapping[str, str] | None = option(
        None, "Keep rows of the trace, e.g. vc=7f04ca. Repeatable.", read=pairs("vc=7f04ca")
    )
    together: bool = option(False, "Submit all jobs at once.", flag="--together")
    placement: str = option("best-fit", "best-fit, first-fit or spread; fgd for MIG.")
    interval: str = option("", "Time between decisions, e.g. 6min; default every event.")
    start: str = option("", "Time a job needs before its first step, e.g. 2min.")
    checkpoint: str = option("", "Time a preempted job needs to save.")
    restart: str = option("", "Time a preempted job needs to load and go on.")
    depth: int | None = option(None, "Jobs that backfill looks at; 0 all.")
    repartition: str = option("", "Time a job waits while a GPU is repartitioned for it (MIG), e.g. 10s.")
    taper: float = option(1.0, "Share of a leaf's bandwidth that its uplinks have, for jobs with plans.")
    seed: int = option(0, "Seed of a model of arrivals, and of failures.")
    failures: str = option(
        "",
        "Node failures: rsc-1, rsc-jobs, llama-3, bloom, opt-175b, rsc-2, parts, or per node and day, e.g. 0.0065.",
    )
    saves: str = option("", "Training between checkpoints, to which a failure throws a job back; default 1h.")
    spread: float = option(
        0.0, "Standard deviation of the logarithm of the failure rate over nodes, e.g. 0.7."
    )
    repair: str = option("", "Mean time until a node that needs repair is back; default 1.04 d.")
    drain: Sequence[str] = option(
        (), "Nodes that take no more jobs, e.g. 3-5@2d+12h (from 2 d, for 12 h). Repeatable."
    )
    maintenance: Sequence[str] = option((), "A window known in advance, e.g. all@7d+8h. Repeatable.")
    reserve: Sequence[str] = option((), "The same for the jobs of a user, e.g. 0-15@3d+1d:alice. Repeatable.")
    partition: Sequence[str] = option(
        (),
        "Nodes of a partition, e.g. debug=0-3, with a tier, e.g. urgent=all:2; first the default. Repeatable.",
    )
    image: str = option(
        "", "Size of the containers' image, e.g. 20GB: nodes pull and unpack it before a job computes."
    )
    store: str = like(
        SavedJobOptions, "store", "Where images are: superpod-good, -better, -best, selene, or 273GB/s."
    )
    elastic: float | None = option(
        None, "4: jobs may run on 1/4 to 4 times their GPUs, as goodput decides; against tiresias."
    )
    scaling: float = option(
        0.9, "Their speed on twice the GPUs, over twice the speed; with a model it is predicted."
    )
    squeue: str = option("", "When waiting jobs start: a file of squeue or scontrol show job.")
    sinfo: str = option("", "With squeue: a file of sinfo or scontrol show node.")
    job: str = option("", "With squeue: one job, or all tasks of an array.")
    qos: bool = option(False, "Jobs of a higher rank or tier stop lower ones.", flag="--qos")


@dataclass(frozen=True, kw_only=True)
class PoweredCluster:
    """A cluster, and what bounds its power."""

    cluster: str = option(
        MISSING, "GPU, system, cluster or TOML file: h100, dgx-h100:8, selene.", argument=True, example="dgx-h100:8",
        complete="clusters",
    )  # fmt: skip
    cap: str = option("", "Power cap of each GPU, e.g. 300W.")
    pue: float | None = like(PredictOptions, "pue")
    overrides: Mapping[str, str] | None = overrides_option("gpu.power=300W")
