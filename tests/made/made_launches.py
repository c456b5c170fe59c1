"""Random plans that a tool can start, and what is written for them: the same ones every time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import islice
from random import Random

from podsim.errors import PlanError
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.launching.job import Job
from podsim.launching.tools import TOOLS, emit
from podsim.training.plan import Plan
from podsim.training.software import software_names
from podsim.workload.catalog import load_model
from podsim.workload.model import Model

MODELS = ("llama-3.1-8b", "llama-3.1-8b", "llama-3.1-405b", "gpt3-175b", "mixtral-8x7b", "deepseek-v3")
TITAN = ("llama-3.1-8b", "llama-3.1-8b", "llama-3.1-405b", "deepseek-v3")
KNOWN = {"torchtitan": TITAN}
"""models that a tool of few models has"""


@cache
def known_model(name: str) -> Model:
    return load_model(name)


@cache
def known_cluster(gpus: int) -> Cluster:
    return load_cluster("superpod-h100:2su").subset(gpus)


def _tame(tool: str, plan: Plan) -> dict[str, object]:
    """Values that a tool can run, for the fields on which it is strictest."""
    if tool in ("megatron", "nemo"):
        return {"optimizer_precision": "fp32"}
    tame = {"optimizer_precision": "fp32", "recompute_layers": 0, "precision": "bf16", "flash": True}
    alone = plan.dp * plan.cp == 1
    if tool == "deepspeed":
        over = {"overlap_tp": False, "overlap_param": plan.zero == 3, "cp": 1, "ep": 1, "shard": 0}
        return tame | over | {"sequence_parallel": False, "recompute": "full"}
    overlapped = {"overlap_grad": True, "overlap_param": True}
    if tool in ("accelerate", "axolotl"):
        over = {
            "overlap_tp": False,
            "pp": 1,
            "virtual_stages": 1,
            "ep": 1,
            "sequence_parallel": False,
            "schedule": "1f1b",
        }
        zero = 0 if alone else 3 if plan.zero == 1 or plan.tp * plan.cp > 1 else plan.zero
        recompute = "none" if zero == 0 else "full"
        del tame["flash"]
        return tame | overlapped | over | {"zero": zero, "shard": 0, "recompute": recompute}
    if tool == "maxtext":
        own = "1f1b" if plan.pp == 1 else "gpipe" if plan.virtual_stages == 1 else "breadth-first"
        zero = 0 if alone else 3 if plan.zero == 2 or plan.cp * plan.ep > 1 else plan.zero
        return overlapped | {
            "optimizer_precision": "fp32",
            "recompute_layers": 0,
            "overlap_tp": False,
            "schedule": own,
            "zero": zero,
            "shard": 0,
        }
    return tame | overlapped | {
        "sequence_parallel": plan.tp > 1, "zero": 3 if plan.zero == 1 or plan.pp * plan.tp > 1 else plan.zero,
        "precision": "fp8" if "row" in plan.software else "bf16",
    }  # fmt: skip


@cache
def _software(tool: str) -> list[str]:
    """The software that a tool starts, its own first."""
    own = TOOLS[tool].limits[0].software[0]
    return [own, *(name for name in software_names() if TOOLS[tool].starts(name))]


def jobs(tool: str, models: tuple[str, ...] = MODELS) -> Iterator[Job]:
    """Endless legal plans, with all fields drawn, on just the GPUs that they need; the same ones every time."""
    dice = Random(f"plans of {tool}")
    while True:
        model = known_model(dice.choice(models))
        tp, pp, cp = dice.choice((1, 2, 8)), dice.choice((1, 2, 3, 4, 6)), dice.choice((1, 1, 2))
        dp, chunks = dice.choice((1, 2, 4, 8)), dice.choice((1, 1, 2, 3)) if pp > 1 else 1
        gpus = tp * pp * cp * dp
        if gpus > 512 or (gpus > 8 and gpus % 8):
            continue
        micro, zero = dice.choice((1, 2, 4)), dice.choice((0, 1, 2, 3) if pp == 1 else (0, 1, 3))
        plan = Plan(
            tp=tp, pp=pp, cp=cp, dp=dp, virtual_stages=chunks, ep=dice.choice((1, 2)), micro_batch=micro, zero=zero,
            global_batch=dp * micro * pp * dice.choice((1, 2, 4)),
            sequence_parallel=tp > 1 and dice.random() < 0.5, shard=dice.choice((0, 0, 1, dp * cp, 2)) if zero else 0,
            recompute=dice.choice(("none", "selective", "full")), recompute_layers=dice.choice((0, 0, 1, 2)),
            schedule="interleaved" if chunks > 1 else dice.choice(("1f1b", "1f1b", "gpipe")),
            flash=dice.random() < 0.5, overlap_grad=dice.random() < 0.5, overlap_param=dice.random() < 0.5,
            overlap_tp=dice.random() < 0.5, precision=dice.choice(("bf16", "bf16", "fp16", "fp32", "fp8", "tf32")),
            optimizer_precision=dice.choice(("fp32", "fp32", "bf16", "fp8")), software=dice.choice(_software(tool)),
            sequence=dice.choice((0, 4096)),
        )  # fmt: skip
        if dice.random() < 0.75:
            plan = plan.having(_tame(tool, plan))
        cluster = known_cluster(gpus)
        if not plan.problems(model, cluster):
            yield Job(model=model, cluster=cluster, plan=plan, mounts=("/lustre:/data",), partition="batch")


def written(tool: str, count: int) -> Iterator[tuple[Job, str]]:
    """The first plans that a tool can run, and what is written for them."""
    for job in islice(jobs(tool, KNOWN.get(tool, MODELS)), 100 * count):
        with suppress(PlanError):
            yield job, emit(job, tool).text
            count -= 1
        if not count:
            return
    raise AssertionError(f"{tool}: too few plans could be written, so they show little")
