"""`podsim train`: a small network trained for real under a plan, on the ranks at hand."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from podsim.errors import LabError, PlanError, PodsimError, unknown_name
from podsim.lab.options import no_folder, outside, unknown_backend
from podsim.lab.ranks import MOST_RANKS, Place, here, run_here, run_joined
from podsim.lab.record import read_run, run_of, write_run
from podsim.lab.training.batches import batches_of
from podsim.lab.training.gpt import gpt_problems
from podsim.lab.training.job import EXCHANGES, Training
from podsim.lab.training.residual import RESIDUAL
from podsim.lab.training.run import task_of
from podsim.lab.wires import gpus_here
from podsim.network.collectives.algorithms import servers
from podsim.options.measure_options import TrainOptions
from podsim.options.option import values_of
from podsim.options.plan_options import PlanOptions
from podsim.options.question import question
from podsim.results.trained import MeasuredTraining
from podsim.schedules import ScheduleTable, build, torch_problems
from podsim.schedules.actions import Work
from podsim.training.inputs import split_overrides
from podsim.training.pipeline import chunk_sizes
from podsim.training.plan import Plan
from podsim.training.plan_inputs import read_plan
from podsim.units import format_quantity
from podsim.verbs.measure import emulated_links, sum_table
from podsim.workload.catalog import load_specification
from podsim.workload.specification import Transformer, resolve

_BOUNDS = (
    ("steps", 1, 1e7), ("rate", 1e-9, 100), ("seed", 0, 2**31), ("image", 8, 512), ("classes", 2, 10_000),
    ("every", 0, 1e7), ("keep", 0, 1e6), ("timeout", 1, 1e6),
)  # fmt: skip
_AS_GIVEN = (
    "exchange", "staleness", "steps", "rate", "seed", "data", "image", "classes", "checkpoint", "every", "keep",
    "resume", "backend", "timeout",
)  # fmt: skip
_STAND_IN = "dgx-a100"
"""whose GPUs a plan is checked on: the rules of a layout are the same everywhere"""


@question(TrainOptions)
def train(
    options: TrainOptions, *, progress: Callable[[int, int], None] = lambda done, steps: None
) -> MeasuredTraining | None:
    """Losses and seconds of each step of a training run; None on every rank but the first of a job.

    model       a GPT: gpt-tiny, any name of the catalog or config.json; or resnet-8, resnet-20, resnet-18
    ranks       processes to fork on this machine, default tp x pp x dp; under torchrun or `podsim emulate`, theirs
    batch       samples of a step of all replicas; micro_batch: default a replica's, or 2 x pp of them for a pipeline
    tp, pp, dp, virtual_stages, schedule, sequence_parallel, zero, shard, recompute, overlap_grad, sequence, overrides of
                the model: as in `podsim.predict`; numbers are fp32
    all_reduce  what adds gradients up: library, or a table's name (or MSCCL's FILE.xml, FILE.py:FUNCTION)
    exchange    bsp: all-reduce; ps, ssp, async: one more process is a parameter server, as in `podsim.workers`
    staleness   of ssp: steps that the fastest replica may be ahead of the slowest
    slow        times that a replica's passes take longer, by replica
    data        synthetic, or a text file (a byte is a token), or a folder of images with a folder for each class
    checkpoint  folder of checkpoints, one `every` so many steps (0: at the end), the last `keep` of them (0: all)
    resume      go on from the last checkpoint if there is one; the layout may be another one
    backend     auto (NCCL where every rank has a GPU), gloo, nccl
    timeout     s after which a call gives up on ranks that do not answer
    save        file that keeps the run (JSON lines), for `podsim compare`
    progress    called with (steps done, steps) as the run goes

    The loss of a step is the same for every layout, but for rounding, except where gradients are exchanged
    asynchronously. Raises PlanError with all that is wrong with the plan, PodsimError for what makes no sense, LabError,
    naming the rank, for a run that broke off, and CheckpointError.
    """
    place = here(os.environ)
    _check(options)
    job = _job(options, _count(place, options.ranks, options.exchange), ranks_here=place is None)
    if place is not None and place.world != job.nodes:
        server = " and a parameter server" * job.served
        raise PodsimError(
            f"this plan has {job.ranks} ranks{server}, and the job was started with {place.world}"
        )

    def heard(rank: int, told: dict[str, Any]) -> None:
        if "done" in told:
            progress(int(told["done"]), options.steps)

    task = task_of(job)
    told = run_here(task, watch=heard) if place is None else run_joined(task, place, watch=heard)
    if told is None:
        return None
    found: MeasuredTraining = run_of(told, kind="training")
    if options.save is not None:
        write_run(options.save, found)
    return found


def read_trained(path: Path) -> MeasuredTraining:
    """A training run from its file. Raises LabError for a file that holds none."""
    found = read_run(path)
    if not isinstance(found, MeasuredTraining):
        raise LabError(f"{path.name}: a run of another kind; podsim train --save writes training runs")
    return found


def _check(options: TrainOptions) -> None:
    """Raise PodsimError with all that is wrong with the numbers."""
    wrong = outside((name, getattr(options, name), least, most) for name, least, most in _BOUNDS)
    wrong += unknown_backend(options.backend)
    idle = [name for name in ("every", "keep", "resume") if getattr(options, name)]
    if options.checkpoint is None and idle:
        wrong.append(
            f"{', '.join(f'--{name}' for name in idle)}: of checkpoints; say where with --checkpoint FOLDER"
        )
    wrong += no_folder(options.save)
    if wrong:
        raise PodsimError("; ".join(wrong))


def _count(place: Place | None, ranks: int | None, exchange: str) -> int | None:
    """Ranks that train: those asked for, or that a job was started with (less a server); None: what the plan needs."""
    if exchange not in EXCHANGES:
        raise PodsimError(unknown_name("exchange", exchange, EXCHANGES))
    if place is not None:
        world = place.world - (exchange != "bsp")
        if ranks is not None and ranks != world:
            raise PodsimError(f"--ranks {ranks}: this job was started with {place.world}; leave --ranks out")
        return world
    if ranks is not None and not 1 <= ranks <= MOST_RANKS:
        raise PodsimError(
            f"--ranks {ranks}; 1 to {MOST_RANKS} are forked on one machine, more are started with torchrun"
        )
    return ranks


def training_job(model: str, given: Mapping[str, Any], *, backend: str, timeout: float) -> Training:
    """A few steps of a GPT on synthetic tokens, library calls throughout; `given` in the words of `train`."""
    short = TrainOptions(
        model=model, steps=1, rate=1e-3, seed=1, classes=2, backend=backend, timeout=timeout, **given
    )  # fmt: skip
    return _job(short, None)


def _job(options: TrainOptions, ranks: int | None, *, ranks_here: bool = False) -> Training:
    """What is to be trained; all that is wrong with the plan in one PlanError."""
    given = values_of(options, PlanOptions)
    model = given.pop("model")
    residual = model if model in RESIDUAL else ""
    plan, network = _residual_plan(given, ranks) if residual else _gpt_plan(model, given, ranks)
    schedule: ScheduleTable | None = None
    if int(plan.pp) > 1:
        schedule = build(
            str(plan.describe()["schedule"]), int(plan.pp), int(plan.virtual_stages), int(plan.micro_batches)
        )
    if network is not None and ranks_here:
        _fits_here(plan, network, options.backend)
    problems = _problems(plan, schedule, network, options)
    if problems:
        raise PlanError(problems)
    batches_of(
        options.data, vocabulary=network.vocab if network else 0, length=network.sequence if network else 0,
        side=options.image, classes=options.classes, seed=options.seed, images=network is None,
    ).batch(0, 1)  # fmt: skip
    parts = int(plan.pp) * int(plan.virtual_stages)
    return Training(
        network=network, residual=residual, plan=_as_run(plan, options.exchange),
        cut=tuple(chunk_sizes(network.layers, parts)) if network else (1,), schedule=schedule,
        all_reduce=sum_table(options.all_reduce, *servers(int(plan.dp))), slow=dict(options.slow or {}),
        emulated=emulated_links(os.environ), changes=dict(options.overrides or {}),
        **{name: getattr(options, name) for name in _AS_GIVEN},
    )  # fmt: skip


def _gpt_plan(model: str, given: dict[str, Any], ranks: int | None) -> tuple[Plan, Transformer]:
    """The plan of a GPT, legal by the rules of all plans, and the network."""
    changes, others = split_overrides(given.get("overrides"))
    if others:
        raise PodsimError(
            f"--set {', '.join(others)}: training for real takes fields of the model, model.layers=4"
        )
    if given.get("sequence") is not None:
        changes["sequence"] = str(given["sequence"])
    network = resolve(load_specification(model, changes))
    if problems := gpt_problems(network):
        raise PlanError(problems)
    degrees = [int(given.get(name) or 1) for name in ("tp", "pp", "dp")]
    count = ranks or max(1, math.prod(degrees))
    options = given | {"gpus": count}
    if options["micro_batch"] is None:
        options["micro_batch"] = _micro(options, count)
    on = f"{_STAND_IN}:{-(-count // 8)}"
    setting = read_plan(PlanOptions(model=model, on=on, precision="fp32", **options))
    if int(setting.plan.gpus) != count:
        raise PlanError([f"tp x pp x dp = {setting.plan.gpus}, and there are {count} ranks"])
    return setting.plan, network


def _fits_here(plan: Plan, network: Transformer, backend: str) -> None:
    """Raise LabError where the weights, gradients and moments of all ranks are more than this machine's memory.

    In fp32, 4 B, 4 B and 8 B a parameter, in each replica but for what ZeRO divides. Of GPUs nothing is said: CUDA
    tells at once that theirs is full.
    """
    from podsim.workload.transformer import build

    dp, zero = int(plan.dp), int(plan.zero)
    each = sum(size * (1 if zero >= stage else dp) for size, stage in ((8, 1), (4, 2), (4, 3)))
    parameters = build(network).parameters
    needed, there = float(parameters) * each, float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    if needed > there and (backend == "gloo" or not gpus_here()):
        raise LabError(
            f"{network.name} has {parameters:,} parameters: weights, gradients and moments of all ranks "
            f"take {format_quantity(needed, 'B')}, and this machine has {format_quantity(there, 'B')}; make it "
            "smaller, as with --set model.layers=2 --set model.hidden=256 --set model.heads=8"
        )


def _micro(options: Mapping[str, Any], count: int) -> int:
    """Samples of a micro-batch when none is given: a replica's whole share, or 2 pp of them through a pipeline."""
    pp = max(1, options.get("pp") or 1)
    replicas = options.get("dp") or max(1, count // (max(1, options.get("tp") or 1) * pp))
    share = max(1, int(options["batch"]) // max(1, replicas))
    return share if pp == 1 else max(1, share // (2 * pp))


def _residual_plan(given: dict[str, Any], ranks: int | None) -> tuple[Plan, None]:
    """The plan of a residual network: data parallel, whole or divided by ZeRO."""
    alone = {name: given.get(name) or 1 for name in ("tp", "pp", "virtual_stages")}
    wrong = [f"{name}={value}" for name, value in alone.items() if value != 1]
    wrong += [f"{name}={given[name]}" for name in ("schedule", "sequence", "overrides") if given.get(name)]
    wrong += ["sequence_parallel"] if given.get("sequence_parallel") else []
    wrong += ["recompute"] if given.get("recompute", "none") != "none" else []
    if wrong:
        raise PlanError(
            [f"{', '.join(wrong)}: a residual network is trained data parallel only: dp, zero, shard"]
        )
    dp, batch = int(given.get("dp") or ranks or 1), int(given["batch"])
    if ranks is not None and dp != ranks:
        raise PlanError([f"dp={dp}, and there are {ranks} ranks"])
    micro = int(given.get("micro_batch") or max(1, batch // max(dp, 1)))
    zero, shard = int(given.get("zero") or 0), int(given.get("shard") or 0)
    problems = (
        []
        if dp >= 1 and batch >= 1 and micro >= 1
        else ["dp, batch and micro_batch are whole numbers from 1"]
    )
    if not problems and batch % (dp * micro):
        problems.append(f"batch={batch} is not a multiple of dp x micro_batch = {dp} x {micro}")
    problems += [f"zero={zero}; zero may be 0, 1, 2, 3"] if zero not in (0, 1, 2, 3) else []
    if shard and (zero == 0 or not 0 < shard <= dp or dp % shard):
        problems.append(f"shard={shard} with zero={zero}; it needs zero of 1 or more and must divide dp={dp}")
    if problems:
        raise PlanError(problems)
    overlap = given.get("overlap_grad")
    return Plan(
        dp=dp, global_batch=batch, micro_batch=micro, zero=zero, shard=shard, precision="fp32",
        overlap_grad=True if overlap is None else overlap,
    ), None  # fmt: skip


def _problems(
    plan: Plan, schedule: ScheduleTable | None, network: Transformer | None, options: TrainOptions
) -> list[str]:
    """What of a legal plan cannot be run for real, worded."""
    tp, pp, dp, zero = int(plan.tp), int(plan.pp), int(plan.dp), int(plan.zero)
    name = plan.describe()["schedule"]
    exchange, all_reduce, slow = options.exchange, options.all_reduce, options.slow or {}
    found = list(torch_problems(schedule)) if schedule is not None else []
    if schedule is not None and zero >= 2 and (schedule.work == Work.WEIGHT).any():
        found.append(
            f"schedule={name} with zero={zero}: FSDP2 adds gradients up after whole backward passes, and this schedule "
            "splits them; take zero 0 or 1, or 1f1b"
        )
    if zero == 1 and plan.shard and int(plan.shard) != dp:
        found.append(
            f"shard={plan.shard} with zero=1: ZeroRedundancyOptimizer divides over all replicas; leave it out"
        )
    if plan.describe()["recompute"] == "selective":
        found.append("recompute=selective: attention is fused here and keeps no scores; take none or full")
    if network is not None and network.tied and tp * pp > 1:
        found.append(
            f"{network.name} ties its head to the embedding, which tp={tp}, pp={pp} put apart: add --set model.tied=false"
        )
    if network is not None and network.vocab % tp:
        found.append(f"tp={tp} does not divide a vocabulary of {network.vocab}: --set model.vocab=…")
    if all_reduce != "library" and (zero >= 2 or dp < 2 or exchange != "bsp"):
        found.append(
            f"--all-reduce {all_reduce[:40]}: gradients meet in an all-reduce with dp of 2 or more, zero 0 or 1 and "
            "exchange bsp only"
        )
    found += [f"--slow {one}={factor:g}: replicas are 0 to {dp - 1}, factors 1 to 1000"
              for one, factor in slow.items() if not (0 <= one < dp and 1 <= factor <= 1000)]  # fmt: skip
    if slow and pp > 1:
        found.append("--slow with a pipeline: its stages wait for each other; take pp=1")
    return found + _exchange_problems(plan, options)


def _exchange_problems(plan: Plan, options: TrainOptions) -> list[str]:
    """What does not go together with a parameter server."""
    exchange, staleness = options.exchange, options.staleness
    found = []
    if (exchange == "ssp") != (staleness is not None):
        found.append("--staleness is of --exchange ssp, which needs it: 0 or more steps ahead of the slowest")
    elif staleness is not None and staleness < 0:
        found.append(f"--staleness {staleness}; 0 or more steps")
    if exchange != "bsp" and (int(plan.tp) > 1 or int(plan.pp) > 1 or int(plan.zero)):
        found.append(
            f"--exchange {exchange}: a parameter server has whole replicas; tp and pp must be 1, zero 0"
        )
    if exchange != "bsp" and options.checkpoint is not None:
        found.append(
            f"--exchange {exchange} with --checkpoint: only runs in step with an all-reduce are kept"
        )
    return found


def _as_run(plan: Plan, exchange: str) -> Plan:
    """The plan as it is run: gradients leave beside the backward pass where torch's hooks reach only."""
    hooked = int(plan.tp) == 1 and int(plan.pp) == 1 and bool(plan.overlap_grad) and exchange == "bsp"
    return plan.having({"overlap_grad": hooked or int(plan.zero) >= 2, "overlap_param": int(plan.zero) >= 2})
