"""The parts of a legal plan that cannot run for real: by PyTorch, with a parameter server, in this machine's memory."""

from __future__ import annotations

import os

from podsim.errors import LabError, PodsimError, unknown_name
from podsim.lab.training.local_steps import OUTER
from podsim.lab.training.optimizers import OPTIMIZERS
from podsim.lab.wires import gpus_here
from podsim.learning.batch_rules import RULE_OF, RULES, scaled_rate
from podsim.learning.number_format_recipes import DYNAMIC, read_loss_scale, read_recipe
from podsim.options.measure_options import TrainOptions
from podsim.programs import needs_linux
from podsim.schedules.actions import ScheduleTable, Work
from podsim.schedules.torch_csv import torch_problems
from podsim.training.plan import Plan
from podsim.units import format_quantity
from podsim.workload.specification import Transformer
from podsim.workload.transformer import build


def run_problems(
    plan: Plan, schedule: ScheduleTable | None, network: Transformer | None, options: TrainOptions
) -> list[str]:
    """The parts of a legal plan that cannot run for real, each as a sentence."""
    return [
        *_schedule_problems(plan, schedule),
        *_layout_problems(plan, network),
        *_gradient_problems(plan, options),
        *_server_problems(plan, options),
        *_optimizer_problems(plan, options),
        *_precision_problems(options),
        *_expert_problems(plan, network, options),
    ]


def _schedule_problems(plan: Plan, schedule: ScheduleTable | None) -> list[str]:
    """What PyTorch's runtime of pipelines cannot run."""
    if schedule is None:
        return []
    problems, zero = list(torch_problems(schedule)), int(plan.zero)
    if zero >= 2 and (schedule.work == Work.WEIGHT).any():
        problems.append(
            f"schedule={plan.describe()['schedule']} with zero={zero}: FSDP2 adds gradients up after whole backward "
            "passes, and this schedule splits them; take zero 0 or 1, or 1f1b"
        )
    return problems


def _layout_problems(plan: Plan, network: Transformer | None) -> list[str]:
    """What the modules of a network, and torch's means to divide them, lack."""
    tp, pp, dp, problems = int(plan.tp), int(plan.pp), int(plan.dp), []
    if int(plan.zero) == 1 and plan.shard and int(plan.shard) != dp:
        problems.append(
            f"shard={plan.shard} with zero=1: ZeroRedundancyOptimizer divides over all replicas; leave it out"
        )
    if plan.describe()["recompute"] == "selective":
        problems.append("recompute=selective: attention is fused here and keeps no scores; take none or full")
    if network is not None and network.tied and tp * pp > 1:
        problems.append(
            f"{network.name} ties its head to the embedding, which tp={tp}, pp={pp} put apart: add --set model.tied=false"
        )
    if network is not None and network.vocab % tp:
        problems.append(f"tp={tp} does not divide a vocabulary of {network.vocab}: --set model.vocab=…")
    return problems


def _gradient_problems(plan: Plan, options: TrainOptions) -> list[str]:
    """What does not go together with how gradients are added up."""
    dp, zero, problems = int(plan.dp), int(plan.zero), []
    exchange, all_reduce, slow = options.exchange, options.all_reduce, options.slow or {}
    if all_reduce != "library" and (zero >= 2 or dp < 2 or exchange != "bsp"):
        problems.append(
            f"--all-reduce {all_reduce[:40]}: gradients meet in an all-reduce with dp of 2 or more, zero 0 or 1 and "
            "exchange bsp only"
        )
    problems += [f"--slow {replica}={factor:g}: replicas are 0 to {dp - 1}, factors 1 to 1000"
              for replica, factor in slow.items() if not (0 <= replica < dp and 1 <= factor <= 1000)]  # fmt: skip
    if slow and int(plan.pp) > 1:
        problems.append("--slow with a pipeline: its stages wait for each other; take pp=1")
    return problems


def _server_problems(plan: Plan, options: TrainOptions) -> list[str]:
    """What does not go together with a parameter server."""
    exchange, staleness = options.exchange, options.staleness
    problems = []
    if (exchange == "ssp") != (staleness is not None):
        problems.append(
            "--staleness is of --exchange ssp, which needs it: 0 or more steps ahead of the slowest"
        )
    elif staleness is not None and staleness < 0:
        problems.append(f"--staleness {staleness}; 0 or more steps")
    if exchange != "bsp" and (int(plan.tp) > 1 or int(plan.pp) > 1 or int(plan.zero)):
        problems.append(f"--exchange {exchange}: replicas are whole; tp and pp must be 1, zero 0")
    if (exchange in OUTER) != (options.local_steps > 1):
        problems.append(
            f"--local-steps {options.local_steps} with --exchange {exchange}: local and diloco need 2 or more, the "
            "others have none: --exchange local --local-steps 8"
        )
    if exchange != "bsp" and options.checkpoint is not None:
        problems.append(
            f"--exchange {exchange} with --checkpoint: only runs in step with an all-reduce are kept"
        )
    return problems


def _optimizer_problems(plan: Plan, options: TrainOptions) -> list[str]:
    """What does not go together with an optimizer, its learning rate, or measured gradients."""
    problems, tp, pp, zero = [], int(plan.tp), int(plan.pp), int(plan.zero)
    if options.optimizer not in OPTIMIZERS:
        problems.append(unknown_name("optimizer", options.optimizer, OPTIMIZERS))
    elif OPTIMIZERS[options.optimizer].is_layerwise and (tp > 1 or zero >= 2):
        problems.append(
            f"--optimizer {options.optimizer} needs the length of whole tensors, which tp={tp}, zero={zero} divide: take "
            "tp 1 and zero 0 or 1"
        )
    if options.rate_rule not in ("auto", *RULES):
        problems.append(unknown_name("rate rule", options.rate_rule, ("auto", *RULES)))
    if options.base_batch is not None and options.base_batch < 1:
        problems.append(f"--base-batch {options.base_batch}; a batch has 1 sample or more")
    if options.base_batch is None and options.rate_rule != "auto":
        problems.append("--rate-rule scales from the batch that --rate is for: give --base-batch")
    if options.noise_scale and (tp * pp > 1 or zero >= 2 or options.exchange != "bsp"):
        problems.append(
            "--noise-scale compares gradients of whole replicas: tp, pp 1, zero 0 or 1, exchange bsp"
        )
    if options.prune_at and (
        tp * pp > 1 or zero >= 2 or options.exchange != "bsp" or options.train != "full"
    ):
        problems.append("--prune-at masks whole networks: tp, pp 1, zero 0 or 1, exchange bsp, train full")
    if options.prune_at and not 0 < options.prune_at < options.steps:
        problems.append(
            f"--prune-at {options.prune_at}: from 1 to {options.steps - 1}, before the last of --steps"
        )
    if options.test_samples and (tp * pp > 1 or zero >= 2):
        problems.append("--test-samples measures whole networks: tp, pp 1, zero 0 or 1")
    if options.noise_scale and int(plan.dp) * int(plan.micro_batches) < 2:
        problems.append(
            "--noise-scale needs two micro-batches or replicas in a batch: a smaller --micro-batch"
        )
    return problems


def rate_of(options: TrainOptions) -> float:
    """The learning rate of a run: as given, or scaled by its rule to the batch."""
    kind = OPTIMIZERS.get(options.optimizer, OPTIMIZERS["adamw"])
    rate = kind.rate if options.rate is None else options.rate
    if options.base_batch is None:
        return rate
    rule = RULE_OF[options.optimizer] if options.rate_rule == "auto" else options.rate_rule
    return scaled_rate(rate, options.base_batch, options.batch, rule)


def _precision_problems(options: TrainOptions) -> list[str]:
    """What does not go together with a precision or a loss scale."""
    problems = []
    for read, value in ((read_recipe, options.precision), (read_loss_scale, options.loss_scale)):
        try:
            read(value)
        except PodsimError as error:
            problems.append(str(error))
    scale = options.loss_scale
    if scale == DYNAMIC and options.exchange in ("ps", "ssp", "async"):
        problems.append(
            f"--loss-scale dynamic with --exchange {options.exchange}: replicas do not meet in each step, so they could "
            "not agree on a scale; give a number, as 1024"
        )
    if scale != "none" and options.noise_scale:
        problems.append("--loss-scale with --noise-scale: norms are of gradients without a scale; take bf16")
    return problems


def _expert_problems(plan: Plan, network: Transformer | None, options: TrainOptions) -> list[str]:
    """What does not go together with a mixture of experts, and with experts divided over ranks."""
    if network is None or not network.experts:
        return []
    problems = ["tp with experts: only replicas divide them here; take --ep"] if int(plan.tp) > 1 else []
    divided = {
        "pp": int(plan.pp) > 1, "zero": int(plan.zero) > 0, "--exchange": options.exchange != "bsp",
        "--all-reduce": options.all_reduce != "library", "--precision": options.precision != "fp32",
        "--loss-scale": options.loss_scale != "none", "--noise-scale": options.noise_scale,
        "--prune-at": options.prune_at > 0, "--optimizer": options.optimizer in ("lars", "lamb"),
    }  # fmt: skip
    if int(plan.ep) > 1 and (wrong := [name for name, used in divided.items() if used]):
        problems.append(
            f"ep={plan.ep} with {', '.join(wrong)}: experts are divided in plain data-parallel runs only"
        )
    return problems


def check_memory(plan: Plan, network: Transformer, backend: str) -> None:
    """Raise LabError where the weights, gradients and moments of all ranks are more than this machine's memory.

    In fp32, 4 B, 4 B and 8 B a parameter, in each replica but for what ZeRO divides. Of GPUs nothing is said: CUDA
    tells at once that theirs is full.
    """
    needs_linux("training in ranks")
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
