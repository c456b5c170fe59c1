"""What `podsim train` is asked for, as a run of ranks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from podsim.errors import PlanError, PodsimError, check_name, raise_all
from podsim.lab.collective_job import sum_table
from podsim.lab.emulated_links import emulated_links
from podsim.lab.options import wrong_ranks
from podsim.lab.ranks import Place
from podsim.lab.training.adapters import tuning_problems
from podsim.lab.training.batches import batches_of
from podsim.lab.training.limits import check_memory, rate_of, run_problems
from podsim.lab.training.residual import RESIDUAL
from podsim.lab.training.train_job import EXCHANGES, SERVED, Training
from podsim.lab.training.training_plan import gpt_plan, residual_plan
from podsim.network.collectives.algorithms import servers
from podsim.options.measure_options import TrainOptions
from podsim.options.plan_options import PlanOptions
from podsim.options.question import values_of
from podsim.schedules.actions import ScheduleTable, chunk_sizes
from podsim.schedules.entries import build
from podsim.training.plan import Plan
from podsim.workload.specification import Transformer

_AS_GIVEN = (
    "exchange", "staleness", "local_steps", "precision", "loss_scale", "steps", "optimizer", "warmup", "prune_at",
    "test_samples", "noise_scale",
    "seed", "data", "image", "classes", "train", "checkpoint", "every", "keep", "resume", "backend", "timeout",
)  # fmt: skip
"""options that the ranks get as they are"""


def training_run_of(options: TrainOptions, place: Place | None) -> Training:
    """The run of ranks that are forked here, or that others started (`place`: which of them this process is).

    Raises PlanError with all that is wrong with the plan, PodsimError for a number of ranks that cannot be.
    """
    check_name("exchange", options.exchange, EXCHANGES)
    served = options.exchange in SERVED
    ranks = options.ranks
    if ranks is not None and (wrong := wrong_ranks(ranks, place.world - served if place else None)):
        raise PodsimError(*wrong)
    if place is not None:
        ranks = place.world - served
    run = training_run(options, ranks, ranks_here=place is None)
    if place is not None and place.world != run.nodes:
        server = " and a parameter server" * run.served
        raise PodsimError(
            f"this plan has {run.ranks} ranks{server}, and the job was started with {place.world}"
        )
    return run


def small_run(model: str, given: Mapping[str, Any], *, backend: str, timeout: float) -> Training:
    """A few steps of a GPT on synthetic tokens, library calls throughout; `given` in the words of `train`."""
    short = TrainOptions(
        model=model, steps=1, rate=1e-3, seed=1, classes=2, backend=backend, timeout=timeout, **given
    )  # fmt: skip
    return training_run(short, None)


def training_run(options: TrainOptions, ranks: int | None, *, ranks_here: bool = False) -> Training:
    """The run of `ranks` ranks; None: as many as the plan needs. Raises PlanError with all that is wrong."""
    plan, network = _plan(options, ranks)
    schedule = _schedule(plan)
    if network is not None and ranks_here:
        check_memory(plan, network, options.backend)
    problems = run_problems(plan, schedule, network, options)
    divided = (
        int(plan.tp) * int(plan.pp) > 1 or int(plan.zero) > 1 or options.exchange != "bsp" or network is None
    )
    problems += tuning_problems(
        options.train, network.layers if network else 1, is_divided=divided,
        has_checkpoint=options.checkpoint is not None,
    )  # fmt: skip
    raise_all(problems, PlanError)
    _try_data(options, network)
    parts = int(plan.pp) * int(plan.virtual_stages)
    return Training(
        rate=rate_of(options), network=network, residual="" if network else options.model, plan=_as_run(plan, options),
        cut=tuple(chunk_sizes(network.layers, parts)) if network else (1,), schedule=schedule,
        all_reduce=sum_table(options.all_reduce, *servers(int(plan.dp))), slow=dict(options.slow or {}),
        emulated=emulated_links(os.environ), changes=dict(options.overrides or {}),
        **{name: getattr(options, name) for name in _AS_GIVEN},
    )  # fmt: skip


def _plan(options: TrainOptions, ranks: int | None) -> tuple[Plan, Transformer | None]:
    """The plan, and the network that a GPT is; None for a residual one."""
    given = values_of(options, PlanOptions)
    model = given.pop("model")
    given.pop("precision")  # operands are rounded; the layout's rules are those of fp32
    return (residual_plan(given, ranks), None) if model in RESIDUAL else gpt_plan(model, given, ranks)


def _schedule(plan: Plan) -> ScheduleTable | None:
    """The table of a pipeline's schedule; None without a pipeline."""
    if int(plan.pp) == 1:
        return None
    name = str(plan.describe()["schedule"])
    return build(name, int(plan.pp), int(plan.virtual_stages), int(plan.micro_batches))


def _try_data(options: TrainOptions, network: Transformer | None) -> None:
    """Read one sample, so that data that cannot be used are refused before ranks start."""
    batches_of(
        options.data, vocabulary=network.vocab if network else 0, length=network.sequence if network else 0,
        side=options.image, classes=options.classes, seed=options.seed, images=network is None,
    ).batch(0, 1)  # fmt: skip


def _as_run(plan: Plan, options: TrainOptions) -> Plan:
    """The plan as it is run: gradients overlap with the backward pass only where torch's hooks reach."""
    hooked = int(plan.tp) == 1 and int(plan.pp) == 1 and int(plan.ep) == 1 and bool(plan.overlap_grad)
    hooked = hooked and options.exchange == "bsp" and not options.noise_scale
    return plan.having({"overlap_grad": hooked or int(plan.zero) >= 2, "overlap_param": int(plan.zero) >= 2})
